//! SRV records, with the addresses of their targets.

use std::net::IpAddr;

use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{Name, RData, Record};
use sluice_model::{EndpointPort, Service};

use crate::Question;
use crate::objects::{Slice, cluster_ips};

use super::named::{Endpoints, Named};
use super::place::{Lower, Ports};
use super::scope::Scope;
use super::seen::Seen;

/// SRV records of what has the name; and addresses of their targets, each once.
pub(super) fn records(
    scope: &Scope<'_>,
    question: Question<'_>,
    named: &Named<'_, '_>,
) -> (Vec<Record>, Vec<Record>) {
    let mut out = Records::new(scope, question);
    match named {
        Named::ClusterIps(service, ports) => of_cluster_ips(&mut out, service, *ports),
        Named::Endpoints(it) => of_endpoints(&mut out, *it),
        Named::Pods(it) => {
            let mut labels = question.name.iter().rev().skip(scope.zone_labels + 1);
            let mut label = || Lower::new(labels.next().unwrap_or_default());
            let (namespace, own) = (label(), label());
            // A name of the question's own labels fits.
            if let Ok(target) = scope.below(&[own.as_bytes(), namespace.as_bytes(), b"pod"]) {
                out.srv(&target, share(it.count), 0);
                out.address(&target, it.address);
            }
        }
        // CoreDNS gives no SRV records to a Service that stands for another name.
        Named::Alias(_) => {}
    }
    (out.answers, out.additionals)
}

fn of_cluster_ips(out: &mut Records<'_>, service: &Service, ports: Ports<'_>) {
    let addresses = cluster_ips(service);
    let own = || {
        service
            .ports
            .iter()
            .filter(|it| ports.has(&it.name, it.protocol.as_str()))
    };
    let Some(target) = name_of(out.scope, service) else {
        return;
    };
    let weight = share(own().count() * addresses.len());
    let mut seen = Seen::new();
    for port in own().filter(|_| !addresses.is_empty()) {
        if seen.is_new(port.port) {
            out.srv(&target, weight, port.port.get());
        }
    }
    if !out.answers.is_empty() {
        out.addresses(&target, addresses);
    }
}

fn of_endpoints(out: &mut Records<'_>, endpoints: Endpoints<'_, '_>) {
    let ports = endpoints.ports();
    // A slice without ports shares in the weights, and has no records.
    let places = |slice: &Slice| own_ports(slice, ports).count().max(1);
    let weight = share(
        endpoints
            .slices()
            .map(|(slice, it)| places(slice) * it.count())
            .sum(),
    );
    let Some(service) = name_of(out.scope, endpoints.service) else {
        return;
    };
    out.reserve(endpoints.at_most());
    let (mut seen, mut seen_address) = (Seen::new(), Seen::new());
    for (slice, own) in endpoints.slices() {
        let has_ports = !slice.object.ports.is_empty();
        for endpoint in own.filter(|_| has_ports) {
            let name = endpoint.name(endpoints.pod_names);
            let label = Name::new().append_label(name.as_bytes());
            // A name that would be too long is none.
            let Ok(target) = label.and_then(|it| it.append_name(&service)) else {
                continue;
            };
            for port in own_ports(slice, ports) {
                if seen.is_new((name, port.port)) {
                    out.srv(&target, weight, port.port.get());
                }
            }
            if seen_address.is_new((name, endpoint.address)) {
                out.address(&target, endpoint.address);
            }
        }
    }
}

fn own_ports<'a>(slice: &'a Slice, ports: Ports<'a>) -> impl Iterator<Item = &'a EndpointPort> {
    let own = slice.object.ports.iter();
    own.filter(move |it| ports.has(&it.name, it.protocol.as_str()))
}

/// The name of a Service; `None` when it would be too long.
fn name_of(scope: &Scope<'_>, service: &Service) -> Option<Name> {
    let name = &service.name;
    let labels = [name.name.as_bytes(), name.namespace.as_bytes(), b"svc"];
    scope.below(&labels).ok()
}

/// What each of so many records gets of 100, but 1 at least.
fn share(count: usize) -> u16 {
    let share = 100 / count.max(1);
    u16::try_from(share).expect("at most 100").max(1)
}

struct Records<'a> {
    scope: &'a Scope<'a>,
    question: Question<'a>,
    answers: Vec<Record>,
    additionals: Vec<Record>,
}

impl<'a> Records<'a> {
    fn new(scope: &'a Scope<'a>, question: Question<'a>) -> Self {
        Self {
            scope,
            question,
            answers: Vec::new(),
            additionals: Vec::new(),
        }
    }

    fn reserve(&mut self, targets: usize) {
        self.answers.reserve(targets);
        self.additionals.reserve(targets);
    }

    fn srv(&mut self, target: &Name, weight: u16, port: u16) {
        let data = RData::SRV(SRV::new(0, weight, port, target.clone()));
        let owner = self.question.name.clone();
        self.answers.push(self.scope.record(owner, data));
    }

    fn address(&mut self, target: &Name, address: IpAddr) {
        self.additionals
            .push(self.scope.address(target.clone(), address));
    }

    fn addresses(&mut self, target: &Name, addresses: &[IpAddr]) {
        let mut seen = Seen::new();
        for address in addresses.iter().filter(|it| seen.is_new(**it)) {
            self.address(target, *address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares_of_100() {
        let shares = [0, 1, 2, 3, 6, 100, 101, 100_000].map(share);
        assert_eq!(shares, [100, 100, 50, 33, 16, 1, 1, 1]);
    }
}
