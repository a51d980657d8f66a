use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use hickory_proto::op::OpCode;
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData};

use super::*;

fn address(last: u8) -> Record {
    Record::from_rdata(Name::root(), 1, RData::A(A(Ipv4Addr::new(10, 0, 0, last))))
}

fn alias() -> Record {
    Record::from_rdata(Name::root(), 1, RData::CNAME(CNAME(Name::root())))
}

fn balanced(settings: &LoadBalance, answers: Vec<Record>, turn: usize) -> Vec<Record> {
    let mut message = Message::response(0, OpCode::Query);
    message.answers = answers;
    balance(settings, &mut message, turn);
    message.answers
}

#[test]
fn turns_choose_the_first_address() {
    let settings = LoadBalance::default();
    let all: Vec<_> = (0..5).map(address).collect();
    for turn in 0..10 {
        let answers = balanced(&settings, all.clone(), turn);
        assert_eq!(answers[0], all[turn % 5]);
        assert_eq!(answers.len(), 5);
    }
}

#[test]
fn the_others_follow_at_random() {
    let settings = LoadBalance::default();
    let mut seconds: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        let answers = balanced(&settings, (0..5).map(address).collect(), 0);
        *seconds.entry(answers[1].data.to_string()).or_default() += 1;
    }
    assert_eq!(seconds.len(), 4);
}

#[test]
fn aliases_come_before_addresses() {
    let answers = vec![address(1), alias(), address(2)];
    let answers = balanced(&LoadBalance::default(), answers, 0);
    assert_eq!(answers[0], alias());
}

#[test]
fn preferred_networks_come_first() {
    let settings = LoadBalance {
        prefer: vec![
            "10.0.0.3/32".parse().unwrap(),
            "10.0.0.2/32".parse().unwrap(),
        ],
    };
    for turn in 0..8 {
        let mut answers = vec![alias()];
        answers.extend((1..=4).map(address));
        let answers = balanced(&settings, answers, turn);
        assert_eq!(answers[..3], [alias(), address(3), address(2)]);
    }
}
