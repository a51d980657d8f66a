//! Objects from YAML, questions as text, answers as text.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_model::{
    AddressType, Change, ClusterIps, Conditions, ContainerPorts, DnsPolicy, Endpoint, EndpointPort,
    EndpointSlice, Hints, Labels, Namespace, NamespacedName, Pod, PodDns, Protocol, Service,
    ServiceKind, ServicePort, SessionAffinity, TrafficPolicy,
};
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
    let (name, labels) = (Arc::from(name), Labels::default());
    Event::Namespace(Change::Set(Arc::new(Namespace { name, labels })))
}

pub(crate) fn pod(namespace: &str, name: &str, addresses: &[&str]) -> Event {
    let addresses = addresses
        .iter()
        .map(|it| it.parse().expect("it is well-formed"));
    Event::Pod(Change::Set(Arc::new(Pod {
        name: NamespacedName::new(namespace, name),
        labels: Labels::default(),
        ports: ContainerPorts::default(),
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

fn named(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    NamespacedName::new(namespace, name)
}

/// `web/tcp:80 dns/udp:53`.
fn ports(text: &str) -> Vec<(Arc<str>, Protocol, NonZeroU16)> {
    let port = |it: &str| {
        let (name, rest) = it.split_once('/').expect("name/protocol:port");
        let (protocol, port) = rest.split_once(':').expect("name/protocol:port");
        (
            name.into(),
            protocol.parse().expect("it is well-formed"),
            port.parse().expect("it is well-formed"),
        )
    };
    text.split_whitespace().map(port).collect()
}

/// `addresses`: `10.96.0.1 fd00::1`, `None` for a headless Service, empty for one that waits.
pub(crate) fn service(name: &str, addresses: &str, own: &str) -> Event {
    let cluster_ips = match addresses {
        "None" => ClusterIps::Headless,
        "" => ClusterIps::Unassigned,
        some => ClusterIps::Assigned(
            some.split(' ')
                .map(|it| it.parse().expect("it is well-formed"))
                .collect(),
        ),
    };
    let port = |(name, protocol, port)| ServicePort {
        name,
        protocol,
        port,
        node_port: None,
    };
    Event::Service(Change::Set(Arc::new(Service {
        name: named(name),
        created: None,
        kind: ServiceKind::ClusterIp,
        cluster_ips,
        external_name: None,
        external_ips: Vec::new(),
        load_balancer: Vec::new(),
        source_ranges: Vec::new(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: SessionAffinity::None,
        ipvs_scheduler: None,
        algorithm: None,
        forwarding: None,
        health_check_node_port: None,
        proxy_name: None,
        ports: ports(own).into_iter().map(port).collect(),
    })))
}

pub(crate) fn external(name: &str, target: &str) -> Event {
    let Event::Service(Change::Set(service)) = service(name, "", "") else {
        unreachable!("a Service was made");
    };
    Event::Service(Change::Set(Arc::new(Service {
        kind: ServiceKind::ExternalName,
        external_name: Some(target.into()),
        ..Arc::unwrap_or_clone(service)
    })))
}

/// `endpoints`: `10.0.0.1`, `10.0.0.1,10.0.0.2` with two addresses, `10.0.0.1 name` with a hostname, `10.0.0.1 @pod` with a pod; `!` for not ready.
pub(crate) fn slice(name: &str, service: &str, own: &str, endpoints: &[&str]) -> Event {
    let port = |(name, protocol, port)| EndpointPort {
        name,
        protocol,
        port,
    };
    let endpoint = |text: &&str| {
        let mut words = text.trim_start_matches('!').split(' ');
        let mut addresses = words
            .next()
            .expect("an address")
            .split(',')
            .map(|it| it.parse().expect("it is well-formed"));
        let words: Vec<_> = words.collect();
        let pod = words.iter().find_map(|it| it.strip_prefix('@'));
        let hostname = words.iter().find(|it| !it.starts_with('@'));
        Endpoint {
            address: addresses.next().expect("an address"),
            other_addresses: addresses.collect(),
            node: None,
            zone: None,
            conditions: Conditions {
                ready: !text.starts_with('!'),
                ..Conditions::READY
            },
            hints: Hints::default(),
            weight: 1,
            target: pod.map(Into::into),
            hostname: hostname.map(|it| Arc::from(*it)),
        }
    };
    Event::EndpointSlice(Change::Set(Arc::new(EndpointSlice {
        name: named(name),
        service: Some(service).filter(|it| !it.is_empty()).map(Into::into),
        headless: false,
        address_type: AddressType::Ipv4,
        ports: ports(own).into_iter().map(port).collect(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        triggered: None,
    })))
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
