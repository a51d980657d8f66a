//! Why an endpoint refuses or does not answer: the neighbour entry of the next hop, and what the pod's own network
//! namespace shows where the pod runs on this machine. Reads only.

use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use sluice_model::Protocol;
use sluice_route::{Connection, Link, Mac, Neighbour, State, addresses, links, way};

use super::filters::found;
use super::listed;
use super::ports::{Listener, listeners};
use super::probe::Target;
use crate::trace::inside;

/// How long TCP has to answer in place of UDP.
const PATIENCE: Duration = Duration::from_millis(500);

/// How an endpoint did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Refused,
    Silent,
}

/// Why, or else where to look next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// `None`: nothing was found from here.
    pub(super) why: Option<String>,
    pub(super) mend: String,
}

impl Cause {
    fn new(why: String, mend: impl Into<String>) -> Self {
        Self {
            why: Some(why),
            mend: mend.into(),
        }
    }
}

/// Looks for the reason of an endpoint that refuses or is silent.
pub(super) fn cause(target: &Target, outcome: Outcome) -> Cause {
    let pod = inside(target.address.ip(), || Pod::here(target.address.ip())).ok();
    let mac = pod.as_ref().and_then(|(it, _)| it.mac);
    let neighbour = (outcome == Outcome::Silent).then(|| neighbour(target.address.ip(), mac));
    let in_pod = || {
        pod.as_ref()
            .and_then(|(it, path)| it.cause(target, outcome, path))
    };
    let by_tcp = || {
        (outcome == Outcome::Refused)
            .then(|| answers_tcp(target))
            .flatten()
    };
    neighbour
        .flatten()
        .or_else(in_pod)
        .or_else(by_tcp)
        .unwrap_or_else(|| next_step(target, pod.is_some()))
}

fn next_step(target: &Target, is_here: bool) -> Cause {
    let (name, address, protocol) = (&target.name, target.address, target.protocol);
    let trace = format!("sluice explain node {address}/{protocol} --trace");
    let mend = if is_here {
        format!(
            "{trace}: where does the packet end? kubectl logs of the pod: does its program work?"
        )
    } else {
        format!(
            "{trace}: does the packet leave this node? Then sluice doctor SERVICE --probe on the node of {name}, which can \
             look into the pod"
        )
    };
    Cause { why: None, mend }
}

/// What the network namespace of a pod shows.
#[derive(Clone, Debug, Default)]
struct Pod {
    /// Of the interface that has the pod's address.
    mac: Option<Mac>,
    listeners: Vec<Listener>,
    /// Chains and rules that drop or reject.
    filters: Vec<String>,
}

impl Pod {
    /// Reads the network namespace of the calling thread.
    fn here(ip: IpAddr) -> Self {
        let all = addresses().unwrap_or_default();
        let own = all.iter().find(|it| it.ip == ip).map(|it| it.interface);
        let links: Vec<Link> = links().unwrap_or_default();
        let link = links.iter().find(|it| Some(it.index) == own);
        let of_protocol = [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .flat_map(listeners);
        Self {
            mac: link.and_then(|it| it.mac),
            listeners: of_protocol.collect(),
            filters: found(&|_, _| false).unwrap_or_default(),
        }
    }

    /// Why a packet to the target is refused or lost inside. `path`: the file of the namespace.
    fn cause(&self, target: &Target, outcome: Outcome, path: &Path) -> Option<Cause> {
        let (to, protocol) = (target.address, target.protocol);
        let at_port = |it: &&Listener| it.address.port() == to.port();
        let same: Vec<&Listener> = self.listeners.iter().filter(at_port).collect();
        let (same, other): (Vec<&Listener>, Vec<&Listener>) =
            same.into_iter().partition(|it| it.protocol == protocol);
        let serves = same.iter().find(|it| it.takes(to.ip()));
        if !self.filters.is_empty() && (outcome == Outcome::Silent || serves.is_some()) {
            let why = format!(
                "rules in the pod's network namespace drop or reject: {}",
                listed(&self.filters)
            );
            let path = path.display();
            return Some(Cause::new(
                why,
                format!("nsenter --net={path} nft -a list ruleset"),
            ));
        }
        if let Some(it) = serves {
            let why = format!(
                "{} connections wait for the program that listens there, which does not accept them",
                it.waiting
            );
            let mend =
                "is the program in the pod stopped or overloaded? kubectl logs, kubectl top pod";
            return (it.waiting > 0).then(|| Cause::new(why, mend));
        }
        if !same.is_empty() {
            let why = format!(
                "its server listens on {} only",
                listed(same.iter().map(|it| it.address))
            );
            let mend = format!(
                "let the server listen on 0.0.0.0 or [::], or on {}",
                to.ip()
            );
            return Some(Cause::new(why, mend));
        }
        if let Some(other) = other.first() {
            let (port, other) = (to.port(), other.protocol);
            let why =
                format!("nothing listens on {port}/{protocol} in the pod, but on {port}/{other}");
            let (is, asks) = (name(other), name(protocol));
            let mend = format!("protocol of the port in the Service: {is} in place of {asks}");
            return Some(Cause::new(why, mend));
        }
        let others = self
            .listeners
            .iter()
            .filter(|it| !it.address.ip().is_loopback());
        let mut others: Vec<String> = others
            .map(|it| format!("{}/{}", it.address.port(), it.protocol))
            .collect();
        others.sort();
        others.dedup();
        let why = format!(
            "nothing listens there; the pod listens on {}",
            listed(others)
        );
        Some(Cause::new(why, super::probe::WHICH_PORT))
    }
}

fn name(protocol: Protocol) -> String {
    protocol.to_string().to_ascii_uppercase()
}

impl Listener {
    /// Whether packets to this address come to it. One of IPv6 that listens on all addresses takes IPv4 too
    /// (`net.ipv6.bindv6only` is 0 everywhere).
    fn takes(&self, ip: IpAddr) -> bool {
        let own = self.address.ip().to_canonical();
        own == ip || own.is_unspecified() && (own.is_ipv6() || ip.is_ipv4())
    }
}

/// UDP is refused where a server of TCP listens.
fn answers_tcp(target: &Target) -> Option<Cause> {
    if target.protocol != Protocol::Udp {
        return None;
    }
    TcpStream::connect_timeout(&target.address, PATIENCE).ok()?;
    let why = "UDP is refused, but TCP answers at this port".to_owned();
    Some(Cause::new(
        why,
        "protocol of the port in the Service: TCP in place of UDP",
    ))
}

/// The neighbour entry of the next hop, where it keeps packets from the pod. `mac`: the pod's own, where it is known.
fn neighbour(ip: IpAddr, mac: Option<Mac>) -> Option<Cause> {
    let way = way(ip).ok().flatten().filter(|it| !it.is_local)?;
    let hop = way.gateway.unwrap_or(ip);
    let all: Vec<Neighbour> = Connection::open().and_then(|mut it| it.list()).ok()?;
    let entry = all
        .into_iter()
        .find(|it| it.ip == hop && it.interface == way.interface)?;
    let links = links().unwrap_or_default();
    let link = links.iter().find(|it| it.index == way.interface);
    let interface = link.map_or("?", |it| &*it.name);
    wrong(&entry, interface, mac.filter(|_| hop == ip))
}

fn wrong(entry: &Neighbour, interface: &str, mac: Option<Mac>) -> Option<Cause> {
    let ip = entry.ip;
    let is_failed = entry.state.0 & State::FAILED.0 != 0;
    // NUD_INCOMPLETE: the kernel asks and has no answer yet.
    let is_asked = entry.mac.is_none() && entry.state.0 & 0x01 != 0;
    if is_failed || is_asked {
        let state = if is_failed { "FAILED" } else { "INCOMPLETE" };
        let why =
            format!("no machine says that it is {ip} on {interface} (neighbour entry {state})");
        let mend = format!(
            "ip neigh show {ip} dev {interface}; does the machine or pod with {ip} exist, and is its interface up?"
        );
        return Some(Cause::new(why, mend));
    }
    let (known, own) = (entry.mac?, mac?);
    if known == own {
        return None;
    }
    let permanent = if entry.state == State::PERMANENT {
        ", and the entry is permanent: somebody set it"
    } else {
        ""
    };
    let why = format!(
        "the neighbour entry of {ip} on {interface} has the MAC address {known}, the pod has {own}{permanent}"
    );
    Some(Cause::new(
        why,
        format!("ip neigh del {ip} dev {interface}"),
    ))
}

#[cfg(test)]
mod tests;
