//! Tables of times: `at` is milliseconds after the cache was made. Nothing sleeps.

use std::net::Ipv4Addr;

use hickory_proto::op::OpCode;
use hickory_proto::rr::rdata::{A, CNAME, NS, SOA, TXT};
use hickory_proto::rr::{RData, Record, RecordType};
use proptest::prelude::*;
use sluice_corefile::{CacheLimits, Prefetch, ServeStale};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn limits(max_ttl: u64) -> CacheLimits {
    CacheLimits {
        capacity: 9984,
        max_ttl: Duration::from_secs(max_ttl),
        min_ttl: Duration::from_secs(5),
    }
}

/// What `cache` without arguments means.
fn settings() -> Settings {
    Settings {
        zones: vec![Name::root()],
        success: limits(3600),
        denial: limits(1800),
        servfail: Duration::from_secs(5),
        prefetch: None,
        serve_stale: None,
        keep_ttl: false,
        disable_success: Vec::new(),
        disable_denial: Vec::new(),
    }
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn question(text: &str) -> Question {
    Question::new(name(text), RecordType::A)
}

fn response(question: &Question, code: ResponseCode) -> Message {
    let mut response = Message::response(0, OpCode::Query);
    response.metadata.response_code = code;
    response.metadata.recursion_desired = true;
    response.add_query(question.query.clone());
    response
}

fn address(question: &Question, ttl: u32) -> Message {
    let mut response = response(question, ResponseCode::NoError);
    response.add_answer(Record::from_rdata(
        question.query.name.clone(),
        ttl,
        RData::A(A(Ipv4Addr::new(192, 0, 2, 1))),
    ));
    response
}

fn denial(question: &Question, code: ResponseCode, ttl: u32, minimum: u32) -> Message {
    let mut response = response(question, code);
    let soa = SOA::new(name("ns."), name("root."), 1, 2, 3, 4, minimum);
    response.add_authority(Record::from_rdata(name("org."), ttl, RData::SOA(soa)));
    response
}

struct Clock {
    cache: Cache,
    start: Instant,
}

impl Clock {
    fn new(settings: Settings) -> Self {
        Self {
            cache: Cache::new(settings),
            start: Instant::now(),
        }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn store(&self, at: u64, question: &Question, response: Message) -> Message {
        self.cache.store(question, response, self.at(at))
    }

    fn lookup(&self, at: u64, question: &Question) -> Lookup {
        self.cache.lookup(question, self.at(at))
    }

    /// `miss`, `ttl 30`, `ttl 30, refresh` or `expired`.
    fn look(&self, at: u64, question: &Question) -> String {
        match self.lookup(at, question) {
            Lookup::Miss => "miss".to_owned(),
            Lookup::Expired(_) => "expired".to_owned(),
            Lookup::Hit { response, refresh } => {
                let ttl = response.all_sections().next().map_or(0, |it| it.ttl);
                let refresh = if refresh { ", refresh" } else { "" };
                format!("ttl {ttl}{refresh}")
            }
        }
    }

    #[track_caller]
    fn check(&self, question: &Question, table: &[(u64, &str)]) {
        for (at, expected) in table {
            assert_eq!(self.look(*at, question), *expected, "at {at} ms");
        }
    }
}

#[test]
fn ttl_counts_down_and_ends() {
    let clock = Clock::new(settings());
    let question = question("a.org.");
    clock.check(&question, &[(0, "miss")]);
    clock.store(0, &question, address(&question, 30));
    clock.check(
        &question,
        &[
            (0, "ttl 30"),
            (1, "ttl 29"),
            (10_000, "ttl 20"),
            (29_999, "ttl 0"),
            (30_000, "miss"),
        ],
    );
}

#[test]
fn keepttl_keeps_the_ttl_and_not_the_answer() {
    let clock = Clock::new(Settings {
        keep_ttl: true,
        ..settings()
    });
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 30));
    clock.check(&question, &[(29_000, "ttl 30"), (30_000, "miss")]);
}

#[test]
fn ttl_is_within_the_bounds_at_once() {
    let table = [(0, 5), (4, 5), (300, 300), (90_000, 3600), (u32::MAX, 5)];
    for (given, expected) in table {
        let clock = Clock::new(settings());
        let question = question("a.org.");
        let shown = clock.store(0, &question, address(&question, given));
        assert_eq!(shown.answers[0].ttl, expected, "{given}");
        clock.check(&question, &[(0, &format!("ttl {expected}"))]);
    }
}

#[test]
fn denials_live_for_the_shorter_of_ttl_and_minimum() {
    let table = [(60, 20, 20), (20, 60, 20), (9000, 9000, 1800)];
    for (ttl, minimum, expected) in table {
        for code in [ResponseCode::NXDomain, ResponseCode::NoError] {
            let clock = Clock::new(settings());
            let question = question("a.org.");
            clock.store(0, &question, denial(&question, code, ttl, minimum));
            clock.check(&question, &[(0, &format!("ttl {expected}"))]);
            assert_eq!(clock.cache.entries(Half::Denial), 1);
            let Lookup::Hit { response, .. } = clock.lookup(0, &question) else {
                panic!("must be kept");
            };
            assert_eq!(response.response_code, code);
        }
    }
}

#[test]
fn failures_are_kept_for_the_time_of_servfail() {
    let question = question("a.org.");
    for code in [ResponseCode::ServFail, ResponseCode::NotImp] {
        let clock = Clock::new(settings());
        clock.store(0, &question, response(&question, code));
        clock.check(&question, &[(4_999, "ttl 0"), (5_000, "miss")]);
    }
    let clock = Clock::new(Settings {
        servfail: Duration::ZERO,
        ..settings()
    });
    clock.store(0, &question, response(&question, ResponseCode::ServFail));
    clock.check(&question, &[(0, "miss")]);
}

#[test]
fn some_answers_are_not_kept() {
    let plain = question("a.org.");
    let mut truncated = address(&plain, 60);
    truncated.metadata.truncation = true;
    let without_soa = response(&plain, ResponseCode::NXDomain);
    let refused = response(&plain, ResponseCode::Refused);
    for response in [truncated, without_soa, refused] {
        let clock = Clock::new(settings());
        clock.store(0, &plain, response);
        clock.check(&plain, &[(0, "miss")]);
    }
    let transfer = Question::new(name("org."), RecordType::AXFR);
    let clock = Clock::new(settings());
    clock.store(0, &transfer, address(&transfer, 60));
    clock.check(&transfer, &[(0, "miss")]);
    assert_eq!(clock.cache.counters().requests.get(), 0);
}

#[test]
fn answers_without_soa_and_referrals_are_kept_for_five_seconds() {
    let question = question("a.org.");
    let nodata = response(&question, ResponseCode::NoError);
    let mut referral = nodata.clone();
    let server = RData::NS(NS(name("ns.")));
    referral.add_authority(Record::from_rdata(name("org."), 900, server));
    let mut alias = nodata.clone();
    let target = RData::CNAME(CNAME(name("b.org.")));
    alias.add_answer(Record::from_rdata(name("a.org."), 900, target));
    for response in [nodata, referral, alias] {
        let clock = Clock::new(settings());
        clock.store(0, &question, response);
        assert_ne!(clock.look(4_999, &question), "miss");
        clock.check(&question, &[(5_000, "miss")]);
    }
}

#[test]
fn the_key_is_name_type_do_and_cd() {
    let clock = Clock::new(settings());
    let stored = question("a.org.");
    clock.store(0, &stored, address(&stored, 30));
    clock.check(&question("A.ORG."), &[(0, "ttl 30")]);
    clock.check(&question("b.org."), &[(0, "miss")]);
    let others = [
        Question::new(name("a.org."), RecordType::AAAA),
        Question {
            dnssec_ok: true,
            ..stored.clone()
        },
        Question {
            checking_disabled: true,
            ..stored
        },
    ];
    for other in others {
        clock.check(&other, &[(0, "miss")]);
    }
}

#[test]
fn a_hit_is_a_response_to_the_client_that_asks() {
    let clock = Clock::new(settings());
    let stored = question("a.org.");
    clock.store(0, &stored, address(&stored, 30));
    let Lookup::Hit { response, .. } = clock.lookup(0, &question("A.oRg.")) else {
        panic!("must be kept");
    };
    assert!(response.queries[0].name.eq_case(&name("A.oRg.")));
    assert!(response.answers[0].name.eq_case(&name("A.oRg.")));
    assert!(response.authoritative);
    assert_eq!(response.edns, None);
}

#[test]
fn zones_bound_what_is_kept() {
    let clock = Clock::new(Settings {
        zones: vec![name("org.")],
        disable_success: vec![name("x.org.")],
        disable_denial: vec![name("y.org.")],
        ..settings()
    });
    let table = [
        ("a.org.", "ttl 30", "ttl 30"),
        ("a.com.", "miss", "miss"),
        ("a.x.org.", "miss", "ttl 30"),
        ("a.y.org.", "ttl 30", "miss"),
    ];
    for (asked, positive, negative) in table {
        let question = question(asked);
        clock.store(0, &question, address(&question, 30));
        clock.check(&question, &[(0, positive)]);
        let other = Question::new(name(asked), RecordType::TXT);
        clock.store(0, &other, denial(&other, ResponseCode::NoError, 30, 30));
        clock.check(&other, &[(0, negative)]);
    }
}

#[test]
fn popular_answers_are_prefetched_once_and_stay_popular() {
    let clock = Clock::new(Settings {
        prefetch: Some(Prefetch {
            amount: 3,
            duration: MINUTE,
            percentage: 10,
        }),
        ..settings()
    });
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 100));
    clock.check(
        &question,
        &[
            (1_000, "ttl 99"),
            (50_000, "ttl 50"),
            // The third request, but not in the last tenth.
            (89_000, "ttl 11"),
            (90_000, "ttl 10, refresh"),
            // One refresh at a time; one that brought nothing may be repeated.
            (91_000, "ttl 9"),
            (96_000, "ttl 4, refresh"),
        ],
    );
    assert_eq!(clock.cache.counters().prefetches.get(), 2);
    clock.store(97_000, &question, address(&question, 10));
    clock.check(&question, &[(106_000, "ttl 1, refresh")]);
}

#[test]
fn a_gap_makes_an_answer_unpopular() {
    let clock = Clock::new(Settings {
        prefetch: Some(Prefetch {
            amount: 2,
            duration: Duration::from_secs(10),
            percentage: 50,
        }),
        ..settings()
    });
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 100));
    clock.check(
        &question,
        &[
            (60_000, "ttl 40"),
            (71_000, "ttl 29"),
            (80_000, "ttl 20, refresh"),
        ],
    );
}

fn stale(refresh: Refresh) -> Settings {
    Settings {
        serve_stale: Some(ServeStale {
            duration: MINUTE,
            refresh,
        }),
        ..settings()
    }
}

#[test]
fn stale_answers_are_served_at_once_and_refreshed() {
    let clock = Clock::new(stale(Refresh::Immediate));
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 10));
    clock.check(
        &question,
        &[
            (9_000, "ttl 1"),
            (10_000, "ttl 0, refresh"),
            (11_000, "ttl 0"),
            (69_999, "ttl 0, refresh"),
            (70_000, "miss"),
        ],
    );
    assert_eq!(clock.cache.counters().served_stale.get(), 3);
}

#[test]
fn stale_answers_are_served_after_the_upstream_failed() {
    let clock = Clock::new(stale(Refresh::Verify));
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 10));
    clock.check(&question, &[(9_000, "ttl 1"), (70_000, "miss")]);
    let Lookup::Expired(expired) = clock.lookup(10_000, &question) else {
        panic!("must be expired");
    };
    assert_eq!(clock.cache.counters().served_stale.get(), 0);
    assert_eq!(clock.cache.serve_stale(expired).answers[0].ttl, 0);
    assert_eq!(clock.cache.counters().served_stale.get(), 1);
}

#[test]
fn a_failure_does_not_replace_what_can_be_served() {
    let clock = Clock::new(stale(Refresh::Immediate));
    let question = question("a.org.");
    let failure = response(&question, ResponseCode::ServFail);
    clock.store(0, &question, address(&question, 10));
    clock.store(11_000, &question, failure.clone());
    clock.check(&question, &[(12_000, "ttl 0, refresh")]);
    clock.store(70_000, &question, failure);
    clock.check(&question, &[(71_000, "ttl 0")]);
    assert_eq!(clock.cache.entries(Half::Success), 0);
}

#[test]
fn a_denial_replaces_an_answer_and_the_reverse() {
    let clock = Clock::new(settings());
    let question = question("a.org.");
    clock.store(0, &question, address(&question, 30));
    clock.store(
        0,
        &question,
        denial(&question, ResponseCode::NXDomain, 20, 20),
    );
    clock.check(&question, &[(0, "ttl 20")]);
    clock.store(0, &question, address(&question, 30));
    clock.check(&question, &[(0, "ttl 30")]);
    assert_eq!(clock.cache.entries(Half::Denial), 0);
}

#[test]
fn what_happens_is_counted() {
    let clock = Clock::new(settings());
    let (asked, denied) = (question("a.org."), question("b.org."));
    clock.store(0, &asked, address(&asked, 30));
    clock.store(0, &denied, denial(&denied, ResponseCode::NXDomain, 30, 30));
    clock.store(0, &asked, address(&denied, 30));
    clock.check(&asked, &[(0, "ttl 30"), (0, "ttl 30")]);
    clock.check(&denied, &[(0, "ttl 30")]);
    clock.check(&question("c.org."), &[(0, "miss")]);
    let Counters {
        requests,
        misses,
        hits: [success, denial],
        drops,
        prefetches,
        served_stale,
        evictions,
    } = clock.cache.counters();
    let counted = [requests, misses, success, denial, drops];
    assert_eq!(counted.map(Counter::get), [4, 1, 2, 1, 1]);
    let others = [prefetches, served_stale, &evictions[0], &evictions[1]];
    assert_eq!(others.map(Counter::get), [0; 4]);
}

#[test]
fn entries_and_bytes_are_bounded() {
    let capacity = 1024;
    let bounded = CacheLimits {
        capacity,
        ..limits(3600)
    };
    let clock = Clock::new(Settings {
        success: bounded,
        denial: bounded,
        ..settings()
    });
    for number in 0..5_000 {
        let question = question(&format!("n{number}.org."));
        clock.store(0, &question, address(&question, 30));
    }
    let entries = clock.cache.entries(Half::Success);
    assert!(entries <= capacity && entries > capacity / 2, "{entries}");
    let small = clock.cache.counters().evictions[0].get();
    assert_eq!(small, 5_000 - u64::try_from(entries).unwrap());
    for number in 0..2_000 {
        let question = question(&format!("n{number}.org."));
        let mut large = address(&question, 30);
        for _ in 0..20 {
            let text = RData::TXT(TXT::new(vec!["x".repeat(200)]));
            large.add_additional(Record::from_rdata(name("t.org."), 30, text));
        }
        clock.store(0, &question, large);
    }
    assert!(clock.cache.bytes() <= capacity * 1024);
    assert!(clock.cache.entries(Half::Success) < capacity / 3);
}

#[test]
fn an_answer_larger_than_a_shard_is_not_kept() {
    let bounded = CacheLimits {
        capacity: 1024,
        ..limits(3600)
    };
    let clock = Clock::new(Settings {
        success: bounded,
        ..settings()
    });
    let question = question("a.org.");
    let mut large = address(&question, 30);
    for _ in 0..100 {
        let text = RData::TXT(TXT::new(vec!["x".repeat(250)]));
        large.add_additional(Record::from_rdata(name("t.org."), 30, text));
    }
    clock.store(0, &question, large);
    clock.check(&question, &[(0, "miss")]);
    assert_eq!(clock.cache.bytes(), 0);
}

#[derive(Clone, Debug)]
enum Event {
    Store { name: u8, ttl: u32, code: u8 },
    Lookup { name: u8 },
    Wait { millis: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..4_u8, 0..200_u32, 0..3_u8).prop_map(|(name, ttl, code)| Event::Store {
            name,
            ttl,
            code
        }),
        (0..4_u8).prop_map(|name| Event::Lookup { name }),
        (0..20_000_u64).prop_map(|millis| Event::Wait { millis }),
    ]
}

proptest! {
    /// Whatever happens, an answer is served until the end of its TTL (and of the time that it may
    /// be stale), and no client keeps it beyond the TTL.
    #[test]
    fn nothing_is_served_for_longer_than_its_ttl(
        events in prop::collection::vec(event(), 1..60),
        stale_for in 0..30_u64,
    ) {
        let settings = Settings {
            serve_stale: (stale_for > 0).then_some(ServeStale {
                duration: Duration::from_secs(stale_for),
                refresh: Refresh::Immediate,
            }),
            ..settings()
        };
        let clock = Clock::new(settings);
        // For each name: the last answer that may be served, and when its TTL ends, in ms.
        let mut model: [Option<(ResponseCode, u64)>; 4] = [None; 4];
        let mut now = 0;
        for event in events {
            match event {
                Event::Wait { millis } => now += millis,
                Event::Store { name, ttl, code } => {
                    let question = question(&format!("n{name}.org."));
                    let (response, ttl) = match code {
                        0 => (address(&question, ttl), u64::from(ttl.max(5))),
                        1 => (
                            denial(&question, ResponseCode::NXDomain, 3600, ttl),
                            u64::from(ttl.max(5)),
                        ),
                        _ => (response(&question, ResponseCode::ServFail), 5),
                    };
                    let slot = &mut model[usize::from(name)];
                    let code = response.response_code;
                    clock.store(now, &question, response);
                    let is_usable = slot.is_some_and(|(code, end)| {
                        code != ResponseCode::ServFail && now < end + stale_for * 1000
                    });
                    if code != ResponseCode::ServFail || !is_usable {
                        *slot = Some((code, now + ttl * 1000));
                    }
                }
                Event::Lookup { name } => {
                    let question = question(&format!("n{name}.org."));
                    let slot = model[usize::from(name)];
                    let usable = slot.filter(|(_, end)| now < end + stale_for * 1000);
                    match (clock.lookup(now, &question), usable) {
                        (Lookup::Miss, None) => {}
                        (Lookup::Hit { response, .. }, Some((code, end))) => {
                            prop_assert_eq!(response.response_code, code);
                            for record in response.all_sections() {
                                let end_at_client = now + u64::from(record.ttl) * 1000;
                                prop_assert!(record.ttl == 0 || end_at_client <= end);
                            }
                        }
                        (found, expected) => {
                            prop_assert!(false, "{found:?}, not {expected:?}, at {now}");
                        }
                    }
                }
            }
        }
    }
}
