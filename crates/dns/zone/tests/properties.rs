//! What holds for any events and any questions.

use std::collections::BTreeMap;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, Record, RecordType};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects, Outcome, PodRecords, Question, Settings, answer};

use crate::support::{deletion, external, namespace, pod, service, settings, slice};

const ADDRESSES: [&str; 6] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "fd00::1",
    "fd00::",
    "::ffff:10.0.0.1",
];
const PORTS: [&str; 4] = ["web:80", "web:80/udp", "dns:53/udp", ":1"];
const TARGETS: [&str; 8] = [
    "example.com",
    "b.a.svc.cluster.local",
    "c.a.svc.cluster.local",
    "a.a.svc.cluster.local",
    "10-0-0-1.a.pod.cluster.local",
    "10.0.0.1",
    "cluster.local",
    "b.b.svc.other",
];
/// Of namespaces and Services. Few, and one the most frequent, so that events meet.
const NAMES: [&str; 5] = ["a", "a", "a", "a", "b"];

fn object() -> impl Strategy<Value = Event> {
    let named = (select(&NAMES[..]), select(&NAMES[..])).prop_map(|(a, b)| format!("{a}/{b}"));
    let ports = prop_oneof![
        Just(PORTS[0].to_owned()),
        subsequence(&PORTS[..], 0..=3).prop_map(|it| it.join(" ")),
    ];
    let addresses = prop_oneof![
        2 => Just("headless".to_owned()),
        1 => Just(String::new()),
        2 => subsequence(&ADDRESSES[..], 1..=2).prop_map(|it| it.join(" ")),
    ];
    prop_oneof![
        4 => (named.clone(), addresses, ports.clone()).prop_map(|(a, b, c)| service(&a, &b, &c)),
        1 => (named.clone(), select(&TARGETS[..])).prop_map(|(a, b)| external(&a, b)),
        8 => (select(&["a/x", "a/y", "b/x"][..]), select(&["a", "a", "a", "b", ""][..]), ports, endpoints())
            .prop_map(|(name, service, ports, endpoints)| {
                let endpoints: Vec<_> = endpoints.iter().map(String::as_str).collect();
                slice(name, service, &ports, &endpoints)
            }),
        1 => (named, subsequence(&ADDRESSES[..], 0..=2)).prop_map(|(name, addresses)| {
            let (namespace, name) = name.split_once('/').unwrap();
            pod(namespace, name, &addresses)
        }),
        1 => select(&["a", "b", "c"][..]).prop_map(namespace),
    ]
}

/// State, address, and name of an endpoint.
type Parts = (&'static str, &'static str, &'static str);

fn endpoint() -> impl Strategy<Value = Parts> {
    (
        select(&["", "", "", "!"][..]),
        select(
            &[
                "10.0.0.1",
                "10.0.0.2",
                "10.0.0.1,10.0.0.2",
                "10.0.0.3",
                "fd00::1",
                "fd00::",
                "::ffff:10.0.0.1",
            ][..],
        ),
        select(&["", "&h", "&10-0-0-1", "*pod", "&h*pod", "*a.b"][..]),
    )
}

fn endpoints() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(endpoint().prop_map(written), 0..=2)
}

fn written((state, address, name): Parts) -> String {
    format!("{address}{state}{name}")
}

/// Two versions of one object that differ in one part at most.
fn twins() -> impl Strategy<Value = (Event, Event)> {
    let port = || select(&PORTS[..]);
    let owner = || select(&["a", "b", ""][..]);
    let slices = (
        0..5_usize,
        [owner(), owner()],
        [port(), port()],
        [endpoint(), endpoint()],
    )
        .prop_map(|(part, owners, ports, [a, b])| {
            let differs = |own| usize::from(part == own);
            let b = [(b.0, a.1, a.2), (a.0, b.1, a.2), (a.0, a.1, b.2), a, a][part];
            (
                slice("a/x", owners[0], ports[0], &[&written(a)]),
                slice("a/x", owners[differs(3)], ports[differs(4)], &[&written(b)]),
            )
        });
    let addresses = || select(&["headless", "", "10.0.0.1", "fd00::1", "10.0.0.1 fd00::1"][..]);
    let services = (0..2_usize, [addresses(), addresses()], [port(), port()]).prop_map(
        |(part, addresses, ports)| {
            let differs = |own| usize::from(part == own);
            (
                service("a/a", addresses[0], ports[0]),
                service("a/a", addresses[differs(0)], ports[differs(1)]),
            )
        },
    );
    let targets = [select(&TARGETS[..]), select(&TARGETS[..])];
    let aliases = targets.prop_map(|it| (external("a/a", it[0]), external("a/a", it[1])));
    let of_pod = [select(&ADDRESSES[..]), select(&ADDRESSES[..])];
    let pods = of_pod.prop_map(|[a, b]| (pod("a", "p", &[a]), pod("a", "p", &[b])));
    let of_namespace = select(&["a", "c"][..]);
    let gone = of_namespace.prop_map(|it| {
        let pod = pod(it, "p", &[ADDRESSES[0]]);
        let gone = deletion(&pod);
        (pod, gone)
    });
    prop_oneof![4 => slices, 2 => services, 1 => aliases, 1 => pods, 1 => gone]
}

/// Events about a namespace with a headless Service, so that most of them matter.
fn events(count: usize) -> impl Strategy<Value = Vec<Event>> {
    let first = [namespace("a"), service("a/a", "headless", PORTS[0])];
    let more = prop::collection::vec(event(), 0..count);
    more.prop_map(move |more| first.iter().cloned().chain(more).collect())
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => object(),
        1 => object().prop_map(|it| deletion(&it)),
        1 => Just(Event::SYNCED),
    ]
}

fn rule() -> impl Strategy<Value = NamespaceRule> {
    select(&[NamespaceRule::Declared, NamespaceRule::DeclaredOrImplied][..])
}

/// Two servers that differ in every setting.
fn servers() -> [Settings; 2] {
    let mut a = settings(&["cluster.local.", "in-addr.arpa.", "ip6.arpa."]);
    a.pods = PodRecords::Insecure;
    a.listens = vec![ADDRESSES[0].parse().unwrap()];
    let mut b = settings(&["other.", "cluster.local.", "10.in-addr.arpa."]);
    b.ttl = 4000;
    b.pods = PodRecords::Verified;
    b.endpoint_pod_names = true;
    b.ignore_empty_service = true;
    b.namespaces.insert("a".into());
    [a, b]
}

/// Questions about everything that the events can say.
fn questions() -> Vec<(Name, RecordType)> {
    let mut names = vec![
        String::new(),
        "svc.".into(),
        "ns.dns.".into(),
        "dns-version.".into(),
    ];
    for namespace in ["a", "b", "c"] {
        names.push(format!("{namespace}.svc."));
        names.push(format!("10-0-0-1.{namespace}.pod."));
        for service in ["a", "b"] {
            for part in [
                "",
                "h.",
                "pod.",
                "10-0-0-1.",
                "fd00--0.",
                "_web._tcp.",
                "_._udp.",
            ] {
                names.push(format!("{part}{service}.{namespace}.svc."));
            }
        }
    }
    let mut questions = vec![(Name::from_ascii("cluster.local.").unwrap(), RecordType::NS)];
    for name in names {
        let name = Name::from_ascii(format!("{name}cluster.local.")).unwrap();
        for kind in ["A", "AAAA", "SRV", "TXT", "CNAME"] {
            questions.push((name.clone(), kind.parse().unwrap()));
        }
    }
    let reverse = |it: &&str| Name::from(it.parse::<std::net::IpAddr>().unwrap());
    questions.extend(ADDRESSES.iter().map(|it| (reverse(it), RecordType::PTR)));
    questions
}

/// What each of [`servers`] answers.
fn outcomes(objects: &Objects) -> [Vec<Outcome>; 2] {
    let questions = questions();
    let ask = |settings: &Settings, (name, record_type): &(Name, RecordType)| {
        let question = Question {
            name,
            record_type: *record_type,
        };
        answer(objects, settings, question).outcome
    };
    servers().map(|server| questions.iter().map(|it| ask(&server, it)).collect())
}

/// The revision of each of [`servers`].
fn revisions(objects: &Objects) -> [u64; 2] {
    servers().map(|it| objects.revision(it.pods))
}

/// The last word on each object, as a source that starts now would say it.
fn state(events: &[Event]) -> Vec<Event> {
    let mut objects = BTreeMap::new();
    for event in events {
        if let Some(key) = event.reference() {
            objects.insert(key, event.clone());
        }
    }
    let synced = events.contains(&Event::SYNCED).then_some(Event::SYNCED);
    let there = objects.into_values().filter(|it| *it != deletion(it));
    there.chain(synced).collect()
}

fn fed(rule: NamespaceRule, events: &[Event]) -> Objects {
    let mut objects = Objects::new(rule);
    for event in events {
        objects.absorb(event, 1);
    }
    objects
}

/// The serial tells whether there was any change at all, which a new start does not know.
fn with_serial(objects: Objects) -> Objects {
    let mut objects = objects;
    objects.absorb(&namespace("serial"), 1);
    objects
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_the_last_word_on_each_object_counts(
        rule in rule(),
        events in events(20),
        order in prop::collection::vec(any::<Index>(), 22),
        again in any::<Index>(),
    ) {
        let mut last = state(&events);
        for (i, other) in order.iter().enumerate().take(last.len()) {
            let other = other.index(last.len());
            last.swap(i, other);
        }
        if !last.is_empty() {
            last.push(last[again.index(last.len())].clone());
        }
        let (grown, fresh) = (with_serial(fed(rule, &events)), with_serial(fed(rule, &last)));
        prop_assert_eq!(outcomes(&grown), outcomes(&fresh));
    }

    #[test]
    fn as_long_as_the_revision_stays_so_do_the_answers(
        rule in rule(),
        before in events(8),
        (one, other) in twins(),
    ) {
        let mut objects = fed(rule, &before);
        for (now, event) in (2..).zip([&one, &one, &other]) {
            let (revision, outcome) = (revisions(&objects), outcomes(&objects));
            objects.absorb(event, now);
            let (new, answers) = (revisions(&objects), outcomes(&objects));
            for server in [0, 1].into_iter().filter(|it| new[*it] == revision[*it]) {
                prop_assert_eq!(&outcome[server], &answers[server], "{:?}", event);
            }
        }
        let revision = revisions(&objects);
        objects.absorb(&other, 9);
        prop_assert_eq!(revisions(&objects), revision, "the same again is no change");
    }

    #[test]
    fn every_answer_survives_the_wire(
        events in events(16),
        below in prop::collection::vec(label(), 0..6),
        zone in select(&["cluster.local", "CLUSTER.local", "in-addr.arpa", "10.in-addr.arpa", "ip6.arpa", "other", "x"][..]),
        record_type in any::<u16>().prop_map(RecordType::from),
        usual in select(&[RecordType::A, RecordType::AAAA, RecordType::SRV, RecordType::PTR, RecordType::TXT][..]),
    ) {
        let objects = fed(NamespaceRule::DeclaredOrImplied, &events);
        let zone = zone.split('.').map(|it| it.as_bytes().to_vec());
        let Ok(name) = Name::from_labels(below.into_iter().chain(zone)) else { return Ok(()) };
        for (settings, record_type) in servers().iter().flat_map(|it| [(it, record_type), (it, usual)]) {
            let question = Question { name: &name, record_type };
            let answer = answer(&objects, settings, question);
            prop_assert!(!answer.origin.to_string().is_empty());
            let sent = message(question, answer.outcome);
            let received = Message::from_vec(&sent.to_vec().unwrap()).unwrap();
            prop_assert_eq!(&received.answers, &sent.answers);
            prop_assert_eq!(&received.authorities, &sent.authorities);
            prop_assert_eq!(&received.additionals, &sent.additionals);
        }
    }
}

const LABELS: [&str; 20] = [
    "a",
    "b",
    "c",
    "h",
    "svc",
    "pod",
    "SVC",
    "_web",
    "_tcp",
    "_",
    "10-0-0-1",
    "fd00--0",
    "--1",
    "dns",
    "ns",
    "dns-version",
    "1",
    "0",
    "10",
    "*",
];

/// A label of the objects, or any.
fn label() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => select(&LABELS[..]).prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..=63),
    ]
}

fn message(question: Question<'_>, outcome: Outcome) -> Message {
    let mut message = Message::new(1, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(question.name.clone(), question.record_type));
    let mut authority = |it: Box<Record>| message.authorities.push(*it);
    match outcome {
        Outcome::NotOurs => {}
        Outcome::NotReady { soa } | Outcome::NoData { soa } | Outcome::NameError { soa } => {
            authority(soa)
        }
        Outcome::Records {
            answers,
            additionals,
        } => {
            assert!(!answers.is_empty(), "records without any");
            message.answers = answers;
            message.additionals = additionals;
        }
        Outcome::Alias { answers, .. } => message.answers = answers,
    }
    message
}
