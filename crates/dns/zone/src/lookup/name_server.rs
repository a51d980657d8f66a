//! NS records, and the name that they point to.

use std::net::IpAddr;

use hickory_proto::rr::rdata::NS;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_model::{ClusterIps, IpFamily};

use crate::objects::{Ready, Slice, cluster_ips};
use crate::origin::Holder;
use crate::{Answer, Origin, Question};

use super::records;
use super::scope::Scope;

/// NS records of the zone.
pub(super) fn answer<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    let (mut answers, mut additionals) = (Vec::<Record>::new(), Vec::new());
    for (name, address) in servers(scope) {
        let data = RData::NS(NS(name.clone()));
        if !answers.iter().any(|it| it.data == data) {
            answers.push(scope.record(question.name.clone(), data));
        }
        additionals.push(scope.address(name, address));
    }
    if answers.is_empty() {
        return scope.no_data(Origin::Lacks(Holder::Zone, RecordType::NS));
    }
    scope.records(answers, additionals, Holder::NameServer)
}

/// Whether a name is `ns.dns.<zone>`.
pub(super) fn is(scope: &Scope<'_>, name: &Name) -> bool {
    scope.is_below(name, &[b"ns", b"dns"])
}

/// The answer about `ns.dns.<zone>`.
pub(super) fn addresses<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    let answers = match question.record_type {
        RecordType::A => of_family(scope, question, IpFamily::V4),
        RecordType::AAAA => of_family(scope, question, IpFamily::V6),
        _ => Vec::new(),
    };
    if answers.is_empty() {
        return scope.no_data(Origin::Lacks(Holder::NameServer, question.record_type));
    }
    scope.records(answers, Vec::new(), Holder::NameServer)
}

/// The addresses of `ns.dns.<zone>` of one family.
pub(super) fn of_family(
    scope: &Scope<'_>,
    question: Question<'_>,
    family: IpFamily,
) -> Vec<Record> {
    let servers = servers(scope);
    let addresses = servers.iter().map(|(_, address)| *address);
    records::of_family(scope, question, addresses, servers.len(), family)
}

/// The servers of the zone, with their addresses: the Services that this server is an endpoint of, else
/// `ns.dns.<zone>` at the addresses where it listens.
fn servers(scope: &Scope<'_>) -> Vec<(Name, IpAddr)> {
    let listens = &scope.settings.listens;
    let (mut servers, mut is_endpoint) = (Vec::new(), false);
    for address in listens.iter().filter(|_| !scope.settings.no_endpoints) {
        for (slice, _) in scope.objects.endpoints_at(*address) {
            is_endpoint = true;
            for server in of_slice(scope, slice) {
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
    }
    if !is_endpoint && let Ok(name) = scope.below(&[b"ns", b"dns"]) {
        servers.extend(listens.iter().map(|it| (name.clone(), *it)));
    }
    servers
}

/// The addresses of a slice's Service: its ClusterIPs, or the endpoints of the slice when it is headless.
fn of_slice(scope: &Scope<'_>, slice: &Slice) -> Vec<(Name, IpAddr)> {
    let namespace = &slice.object.name.namespace;
    let name = slice.object.service.as_deref().unwrap_or_default();
    let entry = scope.objects.entry(namespace, name);
    let Some(service) = entry.and_then(|it| it.service.as_deref()) else {
        return Vec::new();
    };
    let own: [&[u8]; 3] = [name.as_bytes(), namespace.as_bytes(), b"svc"];
    let pod_names = scope.settings.endpoint_pod_names;
    let named = |labels: &[&[u8]], address: IpAddr| Some((scope.below(labels).ok()?, address));
    let of_endpoint = |it: Ready<'_>| {
        let label = it.name(pod_names);
        named(&[&[label.as_bytes()], own.as_slice()].concat(), it.address)
    };
    match service.cluster_ips {
        ClusterIps::Headless => slice.ready().filter_map(of_endpoint).collect(),
        _ => cluster_ips(service)
            .iter()
            .filter_map(|it| named(&own, *it))
            .collect(),
    }
}
