use proptest::prelude::*;

use super::*;
use crate::attr::{AttrWriter, Attrs};

fn read_element(element: &ElementRef<'_>) -> Option<Element> {
    let mut writer = AttrWriter::new();
    put_element(&mut writer, element);
    ElementRef::decode(Attrs::new(writer.as_bytes()).next()?).map(|it| it.to_owned())
}

fn data() -> impl Strategy<Value = ElementData> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..64).prop_map(ElementData::Value),
        "[a-z0-9-]{1,60}".prop_map(|it| ElementData::Verdict(Verdict::Jump(it))),
        Just(ElementData::Verdict(Verdict::Drop)),
    ]
}

prop_compose! {
    fn element()(
        key in prop::collection::vec(any::<u8>(), 1..64),
        key_end in prop::option::of(prop::collection::vec(any::<u8>(), 1..64)),
        data in prop::option::of(data()),
        interval_end in any::<bool>(),
        timeout_ms in prop::option::of(any::<u64>()),
        comment in prop::option::of("[a-z/:-]{0,127}"),
    ) -> Element {
        Element { key, key_end, data, interval_end, timeout_ms, comment }
    }
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
        ElementRef::decode(crate::attr::Attr {
            kind: 1,
            value: &[]
        }),
        None
    );
}

proptest! {
    #[test]
    fn any_element_reads_back(element in element()) {
        prop_assert_eq!(read_element(&element.as_ref()), Some(element));
    }

    #[test]
    fn never_panics_on_random_attributes(bytes in attrs(3)) {
        let attrs = Attrs::new(&bytes);
        let _ = (Table::decode(&attrs), Chain::decode(&attrs), Rule::decode(&attrs), Set::decode(&attrs));
        let _ = attrs.filter_map(ElementRef::decode).count();
    }
}
