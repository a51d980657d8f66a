use super::*;
use crate::{DataRef, Family, Verdict};
use sluice_netlink::Errno;
use sluice_netlink::message::{Answer, Messages};

const SCOPE: Scope<'static> = Scope {
    family: Family::Ipv4,
    table: "t",
};

fn element(key: &[u8]) -> ElementRef<'_> {
    ElementRef {
        key,
        data: Some(DataRef::Verdict(Verdict::Goto("chain"))),
        comment: Some("ns/name:port"),
        ..ElementRef::default()
    }
}

fn kinds(batch: &Batch) -> Vec<u16> {
    Messages::new(batch.begin_and_changes())
        .map(|it| it.kind & 0xff)
        .collect()
}

fn answer(sequence: u32, offset: Option<u32>) -> Answer {
    Answer {
        sequence,
        errno: Some(Errno::EEXIST),
        code: 17,
        message: None,
        offset,
    }
}

#[test]
fn neighbours_of_one_set_share_a_message() {
    let mut batch = Batch::new();
    assert!(batch.is_empty());
    for (tag, set) in ["a", "a", "b", "a"].into_iter().enumerate() {
        batch.add_element(tag as u32, SCOPE, set, &element(&[0; 4]), Create::New);
    }
    batch.delete_element(4, SCOPE, "a", &element(&[0; 4]));
    batch.flush_set(5, SCOPE, "a");
    batch.delete_element(6, SCOPE, "a", &element(&[0; 4]));
    assert_eq!(kinds(&batch), [16, 12, 12, 12, 14, 14, 14]);
    assert_eq!(batch.refused(&answer(1, None)), [0, 1]);
    assert_eq!(batch.refused(&answer(5, None)), [5]);
    assert_eq!(batch.refused(&answer(0, None)), [], "the frame has no tag");
    assert_eq!(batch.refused(&answer(99, None)), []);
}

#[test]
fn messages_stay_within_the_length_of_an_attribute() {
    let mut batch = Batch::new();
    for tag in 0..10_000_u32 {
        batch.add_element(tag, SCOPE, "a", &element(&tag.to_be_bytes()), Create::New);
    }
    assert!(batch.oversized().is_empty());
    let elements: usize = Messages::new(batch.begin_and_changes())
        .skip(1)
        .map(|it| it.attrs().nested(uapi::NFTA_SET_ELEM_LIST_ELEMENTS).count())
        .sum();
    assert_eq!(elements, 10_000);
}

#[test]
fn an_offset_finds_the_element() {
    let mut batch = Batch::new();
    for tag in 100..105_u32 {
        batch.add_element(tag, SCOPE, "a", &element(&tag.to_be_bytes()), Create::New);
    }
    let bytes = batch.begin_and_changes();
    let message = Messages::new(bytes).nth(1).unwrap();
    let start = bytes.len() - message.body.len() - message::HEADER;
    for tag in 100..105_u32 {
        let at = bytes
            .windows(4)
            .position(|it| it == tag.to_be_bytes())
            .unwrap();
        assert_eq!(batch.refused(&answer(1, Some((at - start) as u32))), [tag]);
    }
    assert_eq!(batch.refused(&answer(1, Some(0))).len(), 5);
}

#[test]
fn only_the_first_change_asks_for_an_acknowledgement() {
    let mut batch = Batch::new();
    batch.add_table(0, SCOPE, None, Create::IfMissing);
    batch.delete_table(1, SCOPE);
    let acks: Vec<_> = Messages::new(batch.begin_and_changes())
        .map(|it| it.flags & message::ACK != 0)
        .collect();
    assert_eq!(acks, [false, true, false]);
}

#[test]
fn an_object_too_long_for_a_message_is_noted() {
    let mut batch = Batch::new();
    batch.delete_chain(7, SCOPE, &"x".repeat(70_000));
    assert_eq!(batch.oversized(), [7]);
}
