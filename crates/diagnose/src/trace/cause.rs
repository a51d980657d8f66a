//! Possible causes, with evidence, for the loss of a packet that no rule of nftables dropped.

use std::net::{IpAddr, UdpSocket};

use nix::errno::Errno;
use sluice_model::Protocol;
use sluice_netlink::conntrack::Table;

use super::way::{Addresses, End, Stage};
use super::{Answer, LegacyRule, Request, Trace};
use crate::{any_like, sysctl};

/// Causes of the end, in the order of their weight. `refusal` is the error of sending.
pub(super) fn of(trace: &Trace, request: &Request, refusal: Option<Errno>) -> Vec<String> {
    let stage = trace.stages.last();
    match (&trace.end, stage) {
        (End::Delivered { .. }, Some(stage)) if trace.answer == Some(Answer::Silence) => {
            past_this_node(trace, stage).into_iter().collect()
        }
        (End::Vanished { .. }, Some(stage)) => in_hook(stage, &trace.legacy),
        (End::Unrouted { packet, .. }, Some(stage)) => {
            of_routing(packet, stage.incoming.as_deref())
        }
        (End::Unseen { .. }, _) => vec![of_absence(request, refusal)],
        _ => Vec::new(),
    }
}

/// The endpoint answers the client directly when both are ports of one bridge, and the client knows
/// nothing of the endpoint. `br_netfilter` shows such packets to netfilter, which translates them back.
fn past_this_node(trace: &Trace, stage: &Stage) -> Option<String> {
    let incoming = trace.stages.first()?.incoming.as_deref()?;
    let key = if trace.destination.is_ipv4() {
        "net/bridge/bridge-nf-call-iptables"
    } else {
        "net/bridge/bridge-nf-call-ip6tables"
    };
    // Without br_netfilter there is no such key.
    let is_off = sysctl(key) != Some(1);
    let is_kept = trace.stages.first()?.arrived?.source == stage.left?.source;
    (is_off && is_kept && stage.outgoing.as_deref() == Some(incoming)).then(|| {
        format!(
            "client and endpoint are both behind {incoming}, and {} is not 1: the answer takes no way through \
             this node's rules",
            dotted(key)
        )
    })
}

fn in_hook(stage: &Stage, legacy: &[LegacyRule]) -> Vec<String> {
    let mut causes = Vec::new();
    if stage.hops.last().is_some_and(|it| it.verdict == "queue") {
        causes.push("a program has the packet, and did not give it back".to_owned());
    }
    let dropping = legacy.iter().filter(|it| it.drops());
    causes.extend(dropping.map(|it| {
        let LegacyRule { table, text, .. } = it;
        format!("a rule of legacy iptables counted a packet: {table} {text}")
    }));
    causes.extend(conntrack_is_full());
    causes.extend(stage.arrived.and_then(|it| no_route(it.destination.ip())));
    causes
}

fn of_absence(request: &Request, refusal: Option<Errno>) -> String {
    match (refusal, request.wait) {
        (Some(errno), _) => {
            let reason = no_route(request.destination.ip());
            let reason = reason.unwrap_or_else(|| errno.desc().to_owned());
            format!("the kernel sent no packet: {reason}")
        }
        (None, None) => {
            "the packet was lost on the way to this node's network namespace: the pod's own rules \
            and routes, tc, XDP"
                .to_owned()
        }
        (None, Some(time)) => {
            let kind = match request.protocol {
                Protocol::Tcp => "no packet that opens such a connection",
                Protocol::Udp | Protocol::Sctp => "no such packet",
            };
            format!("{kind} came in {} s", time.as_secs())
        }
    }
}

/// What the kernel's routing looks at (`ip_route_input_slow`, `ip6_forward`).
fn of_routing(packet: &Addresses, incoming: Option<&str>) -> Vec<String> {
    let mut causes = Vec::new();
    let version = match packet.destination {
        std::net::SocketAddr::V4(_) => "ipv4",
        std::net::SocketAddr::V6(_) => "ipv6",
    };
    let is = |key: &str, value| sysctl(key) == Some(value);
    if let Some(interface) = incoming.filter(|it| *it != super::way::LOOPBACK) {
        let key = match version {
            "ipv4" => format!("net/ipv4/conf/{interface}/forwarding"),
            _ => "net/ipv6/conf/all/forwarding".to_owned(),
        };
        if is(&key, 0) {
            causes.push(format!(
                "{} is 0: this node forwards no packets",
                dotted(&key)
            ));
        }
        // The higher of the two counts (ip-sysctl.rst). An interface that is not there is not strict.
        let keys = ["all", interface].map(|it| format!("net/ipv4/conf/{it}/rp_filter"));
        let highest = keys.iter().filter_map(|it| Some((sysctl(it)?, it))).max();
        if let Some((1, key)) = highest.filter(|_| version == "ipv4") {
            causes.push(format!(
                "{} is 1: packets from {} are dropped unless the route to it leads through {interface}",
                dotted(key),
                packet.source.ip()
            ));
        }
        let to = packet.destination.ip();
        if to.is_loopback() && is(&format!("net/ipv4/conf/{interface}/route_localnet"), 0) {
            let key = format!("net.ipv4.conf.{interface}.route_localnet");
            causes.push(format!(
                "{key} is 0: {to} is for packets of this node alone"
            ));
        }
    }
    causes.extend(no_route(packet.destination.ip()));
    causes
}

/// The kernel's word when it has no route. Connecting a UDP socket looks one up and sends nothing.
fn no_route(to: IpAddr) -> Option<String> {
    let error = UdpSocket::bind(any_like(to)).ok()?.connect((to, 9)).err()?;
    let reason = match error.raw_os_error().map(Errno::from_raw)? {
        Errno::EINVAL => "the route is of type blackhole".to_owned(),
        Errno::EACCES => "the route is of type prohibit".to_owned(),
        errno => errno.desc().to_lowercase(),
    };
    Some(format!("no route to {to}: {reason} (`ip route get {to}`)"))
}

fn conntrack_is_full() -> Option<String> {
    let Table {
        entries: count,
        limit: most,
        ..
    } = Table::now()?;
    // 0 stands for no limit (nf_conntrack_core.c).
    (most > 0 && count >= most).then(|| {
        format!("the conntrack table is full: {count} of net.netfilter.nf_conntrack_max = {most}")
    })
}

/// As sysctl(8) takes it: with dots, unless the name of an interface has one.
fn dotted(key: &str) -> String {
    if key.contains('.') {
        key.to_owned()
    } else {
        key.replace('/', ".")
    }
}
