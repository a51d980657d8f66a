//! Takes over the connections that netfilter translates for an earlier proxy.
//!
//! When that proxy's rules go, the kernel stops the translation of their connections as well (it removes the
//! hooks with the last rule of NAT). From then on the programs translate them. Each connection moves by itself:
//! its entries are written, then netfilter forgets it; a packet in between is translated by the programs, and
//! netfilter sees a connection without translation.
//!
//! A connection may end while the list of all is read. So there is a pass before packets see the programs, one after
//! that for what began meanwhile, and one more: what netfilter knows then of a connection is the last that it saw.
//!
//! What has ended goes as well. Netfilter remembers it for minutes, and gives another source port to a connection
//! with the same reply (`nf_nat_setup_info`): one of ours, from the same port of the same client, would break
//! with the next change of netfilter's NAT.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_bpf::BpfError;
use sluice_bpf_abi::{
    Addr, AddressKey, AddressKind, Flow, FlowKind, FrontendKey, FrontendKind, Tuple,
};
use sluice_bpf_abi::{SCTP, TCP, UDP, flow_flags};
use sluice_netlink::conntrack::{self, Conntrack, FlowState};
use tracing::{debug, warn};

use super::sweep::now;
use super::table::{all_of, entry};
use crate::maps::Maps;

/// What to do with netfilter's entries for open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Netfilters {
    /// Keep them: the programs see no packet yet.
    Stay,
    /// Delete them: they would translate packets a second time.
    Go,
}

/// Moves every connection to a frontend of ours; returns how many. A kernel that does not track connections
/// has none.
pub(crate) fn import(maps: &mut Maps, netfilters: Netfilters) -> Result<usize, BpfError> {
    let Ok(mut netfilter) = Conntrack::open() else {
        return Ok(0);
    };
    let own = sluice_route::addresses().unwrap_or_default();
    let own: BTreeSet<IpAddr> = own.into_iter().map(|it| it.ip).collect();
    let mut count = 0;
    for family in [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Ipv6Addr::UNSPECIFIED.into(),
    ] {
        let flows = match netfilter.states(&all_of(family)) {
            Ok(flows) => flows,
            Err(error) => {
                debug!(%error, "connections of an earlier proxy");
                continue;
            }
        };
        for state in &flows {
            let flow = &state.flow;
            if !is_translated(flow) || !is_ours(maps, &flow.original)? {
                continue;
            }
            let is_node = own.contains(&flow.original.src);
            let Some(flags) = flags(state) else {
                forget(maps, &entries(flow, is_node, [0, 0]))?;
                if let Err(error) = netfilter.delete(flow) {
                    debug!(%error, "an ended connection of an earlier proxy");
                }
                continue;
            };
            for (key, value) in entries(flow, is_node, flags) {
                maps.flows.insert_new(&key, &value)?;
            }
            if netfilters == Netfilters::Stay {
                count += 1;
                continue;
            }
            match netfilter.delete(flow) {
                Ok(()) => count += 1,
                Err(error) => warn!(%error, "a connection of an earlier proxy may break"),
            }
        }
    }
    Ok(count)
}

/// Removes what an earlier pass entered: the connection ended before the programs saw its packets.
fn forget(maps: &mut Maps, entries: &[(Tuple, Flow)]) -> Result<(), BpfError> {
    for (key, imported) in entries {
        // The programs' own have the id of a service port.
        if maps
            .flows
            .get(key)?
            .is_some_and(|it| it.service == imported.service)
        {
            maps.flows.remove(key)?;
        }
    }
    Ok(())
}

/// What is known of a connection's state; `None` for one that has ended, which netfilter remembers for a while.
fn flags(state: &FlowState) -> Option<[u8; 2]> {
    let open = flow_flags::ESTABLISHED;
    let closed = open | flow_flags::FIN;
    Some(match state.state {
        Some("TIME_WAIT" | "CLOSE" | "CLOSED" | "NONE") => return None,
        Some("SYN_SENT" | "SYN_RECV" | "SYN_SENT2") => [0, 0],
        Some("FIN_WAIT" | "CLOSE_WAIT") => [closed, open],
        Some("LAST_ACK") => [closed, closed],
        _ if state.answered => [open, open],
        _ => [open, 0],
    })
}

fn is_translated(flow: &conntrack::Flow) -> bool {
    let (dialled, chosen) = (&flow.original, &flow.reply);
    let has_ports = matches!(dialled.protocol, TCP | UDP | SCTP);
    has_ports && (dialled.dst, dialled.dst_port) != (chosen.src, chosen.src_port)
}

/// Whether a client dialled a frontend of ours.
fn is_ours(maps: &Maps, dialled: &conntrack::Tuple) -> Result<bool, BpfError> {
    let addr = Addr::from(dialled.dst);
    let key = |addr, kind: FrontendKind| FrontendKey {
        addr,
        port: dialled.dst_port,
        protocol: dialled.protocol,
        kind: kind as u8,
    };
    if maps
        .frontends
        .get(&key(addr, FrontendKind::Address))?
        .is_some()
    {
        return Ok(true);
    }
    let any = if addr.is_v4() {
        Addr::ANY_V4
    } else {
        Addr::ANY_V6
    };
    let answers = AddressKey {
        addr,
        kind: AddressKind::NodePorts as u32,
    };
    let has_port = maps
        .frontends
        .get(&key(any, FrontendKind::NodePort))?
        .is_some();
    Ok(has_port && maps.addresses.get(&answers)?.is_some())
}

/// The entries of a connection that netfilter translates, with these flags of client and endpoint.
fn entries(
    flow: &conntrack::Flow,
    is_node: bool,
    [client, endpoint]: [u8; 2],
) -> Vec<(Tuple, Flow)> {
    let request = entry(&flow.original);
    let unmasquerade = entry(&flow.reply);
    let forwarded = Tuple {
        source: request.source,
        source_port: request.source_port,
        ..unmasquerade.reversed()
    };
    let reply = forwarded.reversed();
    let node = if is_node { flow_flags::NODE_CLIENT } else { 0 };
    let value = |to: &Tuple, kind: FlowKind| Flow {
        source: to.source,
        destination: to.destination,
        source_port: to.source_port,
        destination_port: to.destination_port,
        kind: kind as u8,
        flags: node
            | match kind {
                FlowKind::Request | FlowKind::Forwarded => client,
                FlowKind::Unmasquerade | FlowKind::Reply => endpoint,
            },
        padding: 0,
        service: 0,
        seen_seconds: now(),
    };
    let answered = request.reversed();
    let mut entries = vec![
        (request, value(&forwarded, FlowKind::Request)),
        (
            forwarded,
            value(&unmasquerade.reversed(), FlowKind::Forwarded),
        ),
        (reply, value(&answered, FlowKind::Reply)),
    ];
    if unmasquerade != reply {
        // Replies to the node are rewritten at once.
        let to = if is_node { answered } else { reply };
        entries.push((unmasquerade, value(&to, FlowKind::Unmasquerade)));
    }
    entries
}
