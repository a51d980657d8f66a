use super::*;
use proptest::prelude::*;

#[test]
fn pads_every_attribute_to_four_bytes() {
    let mut writer = AttrWriter::new();
    writer.string(1, "abcd");
    writer.u8(2, 7);
    writer.nested(3, |it| it.u16_be(4, 0x0102));
    assert_eq!(
        writer.as_bytes(),
        [
            [9, 0, 1, 0].as_slice(),
            b"abcd\0\0\0\0",
            &[5, 0, 2, 0, 7, 0, 0, 0],
            &[12, 0, 3, 0x80, 6, 0, 4, 0, 1, 2, 0, 0],
        ]
        .concat()
    );
}

#[test]
fn reads_back_what_was_written() {
    let mut writer = AttrWriter::new();
    writer.u32_be(1, 0xdead_beef);
    writer.u64_be(2, 1 << 40);
    writer.nested(3, |it| it.string(9, "name"));
    let attrs = Attrs::new(writer.as_bytes());
    assert_eq!(attrs.u32_be(1), Some(0xdead_beef));
    assert_eq!(attrs.u64_be(2), Some(1 << 40));
    assert_eq!(attrs.nested(3).str(9), Some("name"));
    assert_eq!(attrs.nested(4).str(9), None);
    assert_eq!(attrs.find(4), None);
}

#[test]
fn an_attribute_longer_than_its_length_field_is_reported() {
    let mut writer = AttrWriter::new();
    writer.bytes(1, &[0; 65_531]);
    assert!(!writer.take_oversized());
    writer.bytes(1, &[0; 65_532]);
    assert!(writer.take_oversized());
    assert!(!writer.take_oversized());
}

#[test]
fn stops_at_a_length_that_does_not_fit() {
    assert_eq!(Attrs::new(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
    assert_eq!(Attrs::new(&[9, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
    assert_eq!(
        Attrs::new(&[5, 0, 1, 0, 7]).count(),
        1,
        "the last padding may be missing"
    );
}

fn walk(attrs: Attrs<'_>, depth: usize) -> usize {
    attrs
        .map(|it| {
            if depth == 0 {
                1
            } else {
                1 + walk(it.nested(), depth - 1)
            }
        })
        .sum()
}

proptest! {
    #[test]
    fn never_panics_on_random_bytes(bytes in prop::collection::vec(0_u8..16, 0..200)) {
        let attrs = Attrs::new(&bytes);
        walk(attrs.clone(), 4);
        for kind in 0..16 {
            let _ = (attrs.u8(kind), attrs.u16_be(kind), attrs.u32_ne(kind), attrs.u64_be(kind), attrs.str(kind));
        }
    }

    #[test]
    fn any_row_of_attributes_reads_back(row in prop::collection::vec((0_u16..100, prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let mut writer = AttrWriter::new();
        for (kind, value) in &row {
            writer.bytes(*kind, value);
        }
        let read: Vec<_> = Attrs::new(writer.as_bytes()).map(|it| (it.kind, it.value.to_vec())).collect();
        prop_assert_eq!(read, row);
    }
}
