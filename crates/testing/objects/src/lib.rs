//! Objects of a cluster for tests, each written in a line of text. Text that no builder understands is a panic.

mod service;
mod slice;

pub use service::service;
pub use slice::{slice, slices};

use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{
    ContainerPorts, DnsPolicy, Labels, Namespace, NamespacedName, Node, Pod, PodDns, ServiceCidr,
};

/// The node that an endpoint with a bare `@` runs on.
pub const NODE: &str = "node-a";

/// A Node: its name, then addresses, `zone=ZONE`, `leaving` and pod CIDRs in any order.
///
/// # Panics
///
/// On any other word.
pub fn node(text: &str) -> Node {
    let mut words = text.split_whitespace();
    let mut node = Node {
        name: words.next().unwrap_or_default().into(),
        addresses: Vec::new(),
        zone: None,
        pod_cidrs: Vec::new(),
        leaving: false,
    };
    for word in words {
        match (word.strip_prefix("zone="), word.contains('/')) {
            (Some(zone), _) => node.zone = Some(zone.into()),
            (None, true) => node.pod_cidrs.push(parse(word)),
            (None, false) if word == "leaving" => node.leaving = true,
            (None, false) => node.addresses.push(parse(word)),
        }
    }
    node
}

/// The ServiceCIDR `kubernetes` with these prefixes, separated by commas.
///
/// # Panics
///
/// When one is no prefix.
pub fn cidr(text: &str) -> ServiceCidr {
    ServiceCidr {
        name: "kubernetes".into(),
        cidrs: list::<IpNet>(text),
    }
}

/// A Namespace without labels.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        name: Arc::from(name),
        labels: Labels::default(),
    }
}

/// A Pod: its name, then its addresses.
///
/// # Panics
///
/// When another word is no address.
pub fn pod(text: &str) -> Pod {
    let mut words = text.split_whitespace();
    Pod {
        name: name(words.next().unwrap_or_default()),
        labels: Labels::default(),
        ports: ContainerPorts::default(),
        node: None,
        addresses: words.map(parse).collect(),
        is_terminating: false,
        host_network: false,
        dns: PodDns {
            policy: DnsPolicy::ClusterFirst,
            searches: Vec::new(),
            ndots: None,
        },
    }
}

fn parse<T: FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} cannot be read"))
}

fn list<T: FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(parse).collect()
}

/// `default/web`, or `web` in the namespace `default`.
fn name(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    NamespacedName::new(namespace, name)
}
