use std::str::FromStr;

use hickory_proto::op::OpCode;
use hickory_proto::rr::rdata::{A, CNAME, MX, NS, SOA, SRV};

use super::*;

fn name(text: &str) -> Name {
    Name::from_str(text).unwrap()
}

/// `owner A`, `owner CNAME target`, `owner NS target`, `owner SRV target`, `owner MX target`,
/// `owner SOA`.
fn record(text: &str) -> Record {
    let mut words = text.split(' ');
    let owner = name(words.next().unwrap());
    let kind = words.next().unwrap();
    let target = || name(text.split(' ').nth(2).unwrap());
    let data = match kind {
        "A" => RData::A(A::new(192, 0, 2, 1)),
        "CNAME" => RData::CNAME(CNAME(target())),
        "NS" => RData::NS(NS(target())),
        "SRV" => RData::SRV(SRV::new(0, 0, 80, target())),
        "MX" => RData::MX(MX::new(10, target())),
        "SOA" => RData::SOA(SOA::new(owner.clone(), owner.clone(), 1, 2, 3, 4, 5)),
        other => panic!("unknown type {other}"),
    };
    Record::from_rdata(owner, 60, data)
}

fn text(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .map(|record| match &record.data {
            RData::CNAME(CNAME(target)) | RData::NS(NS(target)) => {
                format!("{} {} {target}", record.name, record.record_type())
            }
            _ => format!("{} {}", record.name, record.record_type()),
        })
        .collect()
}

struct Sections<'a> {
    answers: &'a [&'a str],
    authorities: &'a [&'a str],
    additionals: &'a [&'a str],
}

const NONE: Sections<'static> = Sections {
    answers: &[],
    authorities: &[],
    additionals: &[],
};

fn message(sections: &Sections<'_>) -> Message {
    let mut message = Message::response(1, OpCode::Query);
    message.answers = sections.answers.iter().map(|it| record(it)).collect();
    message.authorities = sections.authorities.iter().map(|it| record(it)).collect();
    message.additionals = sections.additionals.iter().map(|it| record(it)).collect();
    message
}

#[track_caller]
fn check(asked: &str, record_type: RecordType, given: &Sections<'_>, kept: &Sections<'_>) {
    let mut answer = message(given);
    keep_relevant(&Question::new(name(asked), record_type), &mut answer).unwrap();
    let expected = message(kept);
    assert_eq!(text(&answer.answers), text(&expected.answers));
    assert_eq!(text(&answer.authorities), text(&expected.authorities));
    assert_eq!(text(&answer.additionals), text(&expected.additionals));
}

#[test]
fn records_of_the_alias_chain_stay_in_any_order() {
    let answers = &["c. A", "a. CNAME b.", "b. CNAME c."];
    let sections = Sections { answers, ..NONE };
    check("a.", RecordType::A, &sections, &sections);
}

#[test]
fn foreign_owners_and_types_go() {
    check(
        "a.example.",
        RecordType::A,
        &Sections {
            answers: &["a.example. A", "bank.example. A", "a.example. NS evil."],
            authorities: &["example. NS ns.example.", "com. NS evil.", "a.example. A"],
            additionals: &["ns.example. A", "bank.example. A", "evil. A"],
        },
        &Sections {
            answers: &["a.example. A"],
            authorities: &["example. NS ns.example."],
            additionals: &["ns.example. A"],
        },
    );
}

#[test]
fn case_does_not_matter() {
    let sections = Sections {
        answers: &["A.Example. CNAME B.", "b. A"],
        ..NONE
    };
    check("a.eXAMPLE.", RecordType::A, &sections, &sections);
}

#[test]
fn targets_bring_their_addresses() {
    check(
        "_x._tcp.a.",
        RecordType::SRV,
        &Sections {
            answers: &["_x._tcp.a. SRV host.a."],
            additionals: &["host.a. A", "other.a. A"],
            ..NONE
        },
        &Sections {
            answers: &["_x._tcp.a. SRV host.a."],
            additionals: &["host.a. A"],
            ..NONE
        },
    );
    check(
        "a.",
        RecordType::MX,
        &Sections {
            answers: &["a. MX mail.b."],
            additionals: &["mail.b. A", "a. A"],
            ..NONE
        },
        &Sections {
            answers: &["a. MX mail.b."],
            additionals: &["mail.b. A"],
            ..NONE
        },
    );
}

#[test]
fn negative_answers_keep_the_zone_of_the_last_alias() {
    check(
        "a.",
        RecordType::A,
        &Sections {
            answers: &["a. CNAME x.b."],
            authorities: &["b. SOA", "c. SOA"],
            ..NONE
        },
        &Sections {
            answers: &["a. CNAME x.b."],
            authorities: &["b. SOA"],
            ..NONE
        },
    );
}

#[test]
fn alias_loops_are_refused() {
    for answers in [
        &["a. CNAME a."][..],
        &["a. CNAME b.", "b. CNAME a."],
        &["a. CNAME b.", "b. CNAME c.", "c. CNAME b."],
    ] {
        let mut answer = message(&Sections { answers, ..NONE });
        let result = keep_relevant(&Question::new(name("a."), RecordType::A), &mut answer);
        assert_eq!(result, Err(Unusable::AliasLoop), "{answers:?}");
    }
}

#[test]
fn sixteen_aliases_pass_and_seventeen_do_not() {
    let aliases = |count: usize| {
        let mut answer = Message::response(1, OpCode::Query);
        answer.answers = (0..count)
            .map(|at| record(&format!("n{at}. CNAME n{}.", at + 1)))
            .collect();
        keep_relevant(&Question::new(name("n0."), RecordType::A), &mut answer)
    };
    assert_eq!(aliases(16), Ok(()));
    assert_eq!(aliases(17), Err(Unusable::AliasesTooMany));
}
