use proptest::prelude::*;

use super::super::value::Verdict;
use super::*;
use sluice_netlink::attr::{AttrWriter, Attrs};

/// Data of an element: a value, or the chain of a verdict.
type Data = Result<Vec<u8>, String>;

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..64).prop_map(Ok),
        "[a-z0-9-]{1,60}".prop_map(Err),
    ]
}

fn attrs(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let leaf = prop::collection::vec(any::<u8>(), 0..20);
    if depth == 0 {
        return leaf.boxed();
    }
    let row = prop::collection::vec((0_u16..20, attrs(depth - 1)), 0..8).prop_map(|row| {
        let mut writer = AttrWriter::new();
        row.iter()
            .for_each(|(kind, value)| writer.bytes(*kind, value));
        writer.as_bytes().to_vec()
    });
    prop_oneof![1 => leaf, 4 => row].boxed()
}

#[test]
fn an_element_without_key_is_none() {
    assert_eq!(
        ElementRef::decode(sluice_netlink::attr::Attr {
            kind: 1,
            value: &[]
        }),
        None
    );
}

proptest! {
    #[test]
    fn any_element_reads_back(
        key in prop::collection::vec(any::<u8>(), 1..64),
        key_end in prop::option::of(prop::collection::vec(any::<u8>(), 1..64)),
        data in prop::option::of(data()),
        interval_end in any::<bool>(),
        timeout_ms in prop::option::of(any::<u64>()),
        comment in prop::option::of("[a-z/:-]{0,127}"),
    ) {
        let element = ElementRef {
            key: &key,
            key_end: key_end.as_deref(),
            data: data.as_ref().map(|it| match it {
                Ok(value) => DataRef::Value(value),
                Err(chain) => DataRef::Verdict(Verdict::Jump(chain)),
            }),
            interval_end,
            timeout_ms,
            comment: comment.as_deref(),
            packets: None,
        };
        let mut writer = AttrWriter::new();
        put_element(&mut writer, &element);
        let attr = Attrs::new(writer.as_bytes()).next().unwrap();
        prop_assert_eq!(ElementRef::decode(attr), Some(element));
    }

    #[test]
    fn any_short_comment_is_type_length_text_nul(text in "[^\0]{0,31}") {
        let mut writer = AttrWriter::new();
        put_comment(&mut writer, 1, Some(&text));
        let attr = Attrs::new(writer.as_bytes()).next().unwrap();
        let length = u8::try_from(text.len() + 1).unwrap();
        let expected = [&[0, length], text.as_bytes(), &[0]].concat();
        prop_assert_eq!(attr.value, expected);
    }

    #[test]
    fn never_panics_on_random_attributes(bytes in attrs(3)) {
        let attrs = Attrs::new(&bytes);
        let _ = (Table::decode(&attrs), Chain::decode(&attrs), KernelRule::decode(&attrs), Set::decode(&attrs));
        let _ = attrs.filter_map(ElementRef::decode).count();
    }
}
