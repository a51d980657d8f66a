//! Objects from YAML, questions as text, answers as text.
#![allow(dead_code, reason = "each test program uses its part")]

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_model::{DnsPolicy, Event, Namespace, NamespacedName, Object, Pod, PodDns};
use sluice_zone::{NamespaceRule, Objects, Outcome, Question, Settings, Zones, answer};

/// The serial of every test.
pub(crate) const NOW: u32 = 1_700_000_000;

/// Everything that a YAML file says, a Namespace included.
pub(crate) fn events(yaml: &str) -> Vec<Event> {
    let documents = yaml.split("\n---\n");
    let (namespaces, rest): (Vec<_>, Vec<_>) =
        documents.partition(|it| it.lines().any(|it| it == "kind: Namespace"));
    let name = |document: &str| {
        let mut lines = document.lines();
        let name = lines.find_map(|it| it.strip_prefix("  name: "));
        namespace(name.expect("a Namespace has a name"))
    };
    let loaded = sluice_source::parse("objects.yaml", rest.join("\n---\n").as_bytes());
    assert_eq!(loaded.problems, []);
    let objects = loaded.objects.into_iter().map(Event::Set);
    namespaces.into_iter().map(name).chain(objects).collect()
}

pub(crate) fn namespace(name: &str) -> Event {
    let name = Arc::from(name);
    Event::Set(Object::Namespace(Arc::new(Namespace { name })))
}

pub(crate) fn pod(namespace: &str, name: &str, addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|it| it.parse().unwrap());
    Event::Set(Object::Pod(Arc::new(Pod {
        name: NamespacedName::new(namespace, name),
        node: None,
        addresses: addresses.collect(),
        host_network: false,
        dns: PodDns {
            policy: DnsPolicy::ClusterFirst,
            searches: Vec::new(),
            ndots: None,
        },
    })))
}

/// Objects that are complete.
pub(crate) fn objects(rule: NamespaceRule, events: &[Event]) -> Objects {
    let mut objects = Objects::new(rule);
    for event in events.iter().chain([&Event::Synced]) {
        objects.absorb(event, NOW);
    }
    objects
}

pub(crate) fn settings(zones: &[&str]) -> Settings {
    let zones = zones.iter().map(|it| Name::from_ascii(it).unwrap());
    let mut settings = Settings::new(Zones::new(zones).unwrap());
    settings.ttl = 30;
    settings
}

/// What one answer says, each line a record, in alphabetical order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: &'static str,
    pub(crate) answers: Vec<String>,
    pub(crate) authorities: Vec<String>,
    pub(crate) additionals: Vec<String>,
    pub(crate) origin: String,
}

pub(crate) fn ask(
    objects: &Objects,
    settings: &Settings,
    name: &str,
    record_type: RecordType,
) -> Reply {
    let name = Name::from_ascii(name).unwrap();
    let answer = answer(
        objects,
        settings,
        Question {
            name: &name,
            record_type,
        },
    );
    let none = Vec::new;
    let (code, answers, authorities, additionals) = match answer.outcome {
        Outcome::NotOurs => ("not ours", none(), none(), none()),
        Outcome::NotReady { soa } => ("SERVFAIL", none(), vec![*soa], none()),
        Outcome::Records {
            answers,
            additionals,
        } => ("NOERROR", answers, none(), additionals),
        Outcome::Alias { answers, soa, .. } => ("alias", answers, vec![*soa], none()),
        Outcome::NoData { soa } => ("NOERROR", none(), vec![*soa], none()),
        Outcome::NameError { soa } => ("NXDOMAIN", none(), vec![*soa], none()),
    };
    Reply {
        code,
        answers: lines(&answers),
        authorities: lines(&authorities),
        additionals: lines(&additionals),
        origin: answer.origin.to_string(),
    }
}

fn lines(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<_> = records.iter().map(line).collect();
    lines.sort();
    lines
}

fn line(record: &Record) -> String {
    let Record {
        name, ttl, data, ..
    } = record;
    let text = match data {
        RData::TXT(it) => {
            let parts = it.txt_data.iter().map(|it| String::from_utf8_lossy(it));
            parts
                .map(|it| format!("{it:?}"))
                .collect::<Vec<_>>()
                .join(" ")
        }
        RData::AAAA(it) => IpAddr::from(it.0).to_string(),
        other => other.to_string(),
    };
    let text = text.replace(&NOW.to_string(), "SERIAL");
    format!("{name} {ttl} {} {text}", record.record_type())
}
