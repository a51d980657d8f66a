//! Objects from YAML, questions as text, answers as text.

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_model::Change;
use sluice_source::{Wants, kinds};
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects, Outcome, Question, Settings, Zones, answer};

/// The serial of every test.
pub(crate) const NOW: u32 = 1_700_000_000;

/// Everything that a YAML file says, Namespaces included.
pub(crate) fn events(yaml: &str) -> Vec<Event> {
    let wants = Wants::new(Event::Notice)
        .want_all::<kinds::Service>(Event::Service)
        .want_all::<kinds::EndpointSlice>(Event::EndpointSlice)
        .want_all::<kinds::Namespace>(Event::Namespace);
    let loaded = sluice_source::parse("objects.yaml", yaml.as_bytes(), &wants);
    assert_eq!(loaded.problems, []);
    loaded.events
}

/// The event that deletes the object of an event.
pub(crate) fn deletion(event: &Event) -> Event {
    match event {
        Event::Service(it) => Event::Service(Change::Delete(it.name())),
        Event::EndpointSlice(it) => Event::EndpointSlice(Change::Delete(it.name())),
        Event::Namespace(it) => Event::Namespace(Change::Delete(it.name())),
        Event::Pod(it) => Event::Pod(Change::Delete(it.name())),
        Event::Notice(_) => panic!("{event:?} is about no object"),
    }
}

pub(crate) fn namespace(name: &str) -> Event {
    Event::Namespace(Change::Set(Arc::new(sluice_objects::namespace(name))))
}

pub(crate) fn pod(namespace: &str, name: &str, addresses: &[&str]) -> Event {
    let text = format!("{namespace}/{name} {}", addresses.join(" "));
    Event::Pod(Change::Set(Arc::new(sluice_objects::pod(&text))))
}

/// `addresses`: `10.96.0.1 fd00::1`, `headless`, empty for a Service that waits for its ClusterIP.
pub(crate) fn service(name: &str, addresses: &str, ports: &str) -> Event {
    service_of(&format!("{name} {addresses} {ports}"))
}

pub(crate) fn external(name: &str, target: &str) -> Event {
    service_of(&format!("{name} ExternalName={target}"))
}

fn service_of(text: &str) -> Event {
    Event::Service(Change::Set(Arc::new(sluice_objects::service(text))))
}

/// A slice, as `sluice_objects` reads it.
pub(crate) fn slice(name: &str, service: &str, ports: &str, endpoints: &[&str]) -> Event {
    let slice = sluice_objects::slice(name, service, ports, &endpoints.join(" "));
    Event::EndpointSlice(Change::Set(Arc::new(slice)))
}

/// Objects that are complete.
pub(crate) fn objects(rule: NamespaceRule, events: &[Event]) -> Objects {
    let mut objects = Objects::new(rule);
    for event in events.iter().chain([&Event::SYNCED]) {
        objects.absorb(event, NOW);
    }
    objects
}

pub(crate) fn settings(zones: &[&str]) -> Settings {
    let zones = zones
        .iter()
        .map(|it| Name::from_ascii(it).expect("it is well-formed"));
    let mut settings = Settings::new(Zones::new(zones).expect("it is well-formed"));
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
    ask_about(
        objects,
        settings,
        &Name::from_ascii(name).expect("it is well-formed"),
        record_type,
    )
}

pub(crate) fn ask_about(
    objects: &Objects,
    settings: &Settings,
    name: &Name,
    record_type: RecordType,
) -> Reply {
    let answer = answer(objects, settings, Question { name, record_type });
    let none = Vec::new;
    let (code, answers, authorities, additionals) = match answer.outcome {
        Outcome::NotOurs => ("not ours", none(), none(), none()),
        Outcome::NotReady { soa } => ("SERVFAIL", none(), vec![*soa], none()),
        Outcome::Records {
            answers,
            additionals,
        } => ("NOERROR", answers, none(), additionals),
        Outcome::Alias { answers, .. } => ("alias", answers, none(), none()),
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

/// In alphabetical order, but for a chain of aliases: its order means something.
fn lines(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<_> = records.iter().map(line).collect();
    if !records
        .iter()
        .any(|it| it.record_type() == RecordType::CNAME)
    {
        lines.sort();
    }
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

/// An answer in short. The question is `A name`; the TTL is left out where it is that of the settings, and the
/// owner of an answer where it is the question's. Additional records follow `+`. Without records: `NODATA` or the
/// code, and the reason.
pub(crate) fn says(objects: &Objects, settings: &Settings, question: &str) -> String {
    let (record_type, name) = question.split_once(' ').expect("a type and a name");
    let reply = ask(
        objects,
        settings,
        name,
        record_type.parse().expect("a type"),
    );
    let ttl = format!(" {} ", settings.ttl);
    let short = |lines: Vec<String>, owner: &str| {
        let lines = lines.into_iter().map(|it| it.replacen(&ttl, " ", 1));
        let short = lines.map(|it| it.strip_prefix(owner).map(ToOwned::to_owned).unwrap_or(it));
        short.collect::<Vec<_>>().join("; ")
    };
    let answers = short(reply.answers, &format!("{name} "));
    let additionals = short(reply.additionals, "+");
    match (reply.code, answers.as_str(), additionals.as_str()) {
        ("NOERROR", "", _) => format!("NODATA: {}", reply.origin),
        ("NOERROR", _, "") => answers,
        ("NOERROR", ..) => format!("{answers} + {additionals}"),
        ("alias", ..) => format!("{answers}; ..."),
        (code, ..) => format!("{code}: {}", reply.origin),
    }
}
