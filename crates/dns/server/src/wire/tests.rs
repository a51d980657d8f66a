use std::net::Ipv4Addr;

use hickory_proto::op::Query as Question;
use hickory_proto::rr::rdata::{A, NULL};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn record(owner: &str) -> Record {
    Record::from_rdata(name(owner), 30, RData::A(A(Ipv4Addr::LOCALHOST)))
}

fn response(answers: usize, additionals: usize, edns: Option<Edns>) -> Message {
    let mut message = Message::response(7, OpCode::Query);
    message.add_query(Question::query(name("a.example."), RecordType::A));
    message.answers = vec![record("a.example."); answers];
    message.additionals = vec![record("b.example."); additionals];
    message.edns = edns;
    message
}

#[test]
fn additional_records_go_first_and_without_tc() {
    let edns = Edns::new();
    // 27 bytes of header and question, 16 of each answer, 11 of OPT.
    let whole = response(20, 20, Some(edns));
    let bytes = encode(&whole, Limit::udp(Some(512), 1232)).unwrap();
    let read = Message::from_vec(&bytes).unwrap();
    assert!(
        bytes.len() <= 512 && bytes.len() > 512 - 16,
        "{}",
        bytes.len()
    );
    assert_eq!(read.answers.len(), 20);
    assert!(read.edns.is_some());
    assert!(!read.truncation);
}

#[test]
fn answers_go_whole_and_with_tc() {
    let bytes = encode(&response(100, 3, None), Limit::udp(None, 1232)).unwrap();
    let read = Message::from_vec(&bytes).unwrap();
    assert!(bytes.len() <= 512 && bytes.len() > 512 - 16);
    assert!(read.truncation);
    assert_eq!(read.additionals, []);
}

/// 27 bytes of header and question, 16 of each answer.
#[test]
fn four_thousand_addresses_have_room_over_tcp() {
    let whole = response(4000, 0, None);
    let bytes = encode(&whole, Limit::TCP).unwrap();
    assert_eq!(bytes.len(), 27 + 4000 * 16);
    let read = Message::from_vec(&bytes).unwrap();
    assert!(!read.truncation);
    assert_eq!(read.answers, whole.answers);
}

#[test]
fn tc_of_an_upstream_stays() {
    let mut message = response(1, 0, None);
    message.metadata.truncation = true;
    let read = Message::from_vec(&encode(&message, Limit::TCP).unwrap()).unwrap();
    assert!(read.truncation);
    assert_eq!(read.answers.len(), 1);
}

#[test]
fn tcp_takes_65535_bytes() {
    let bytes = encode(&response(10_000, 0, Some(Edns::new())), Limit::TCP).unwrap();
    let read = Message::from_vec(&bytes).unwrap();
    assert!(bytes.len() > 65_500);
    assert!(read.truncation && read.edns.is_some());
}

proptest! {
    /// Law: a response fits, can be read, and has TC exactly when a record of the answer is missing.
    #[test]
    fn responses_fit(
        answers in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..30),
        additionals in 0_usize..30,
        announced in prop::option::of(any::<u16>()),
        ours in 512_u16..4096,
    ) {
        let edns = announced.map(|_| Edns::new());
        let mut message = response(0, additionals, edns);
        message.answers = answers
            .iter()
            .map(|it| Record::from_rdata(name("a.example."), 1, RData::NULL(NULL::with(it.clone()))))
            .collect();
        let limit = Limit::udp(announced, ours);
        let bytes = encode(&message, limit).unwrap();
        prop_assert!(bytes.len() <= usize::from(announced.unwrap_or(512).min(ours).max(512)));
        let read = Message::from_vec(&bytes).unwrap();
        prop_assert_eq!(read.truncation, read.answers.len() < answers.len());
        prop_assert_eq!(read.edns.is_some(), announced.is_some());
        prop_assert_eq!(&read.queries, &message.queries);
    }

    /// Law: no bytes cause a panic, and what is refused has the query's id.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Received::Refused(response) = read(&bytes) {
            prop_assert_eq!(response.id.to_be_bytes(), [bytes[0], bytes[1]]);
            prop_assert!(encode(&response, Limit::TCP).is_ok());
        }
    }
}
