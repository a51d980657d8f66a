//! The connections that netfilter translates: rules of an earlier proxy opened them.
//!
//! They stay with netfilter until they end. A connection's packets pass two hooks of netfilter and two of the programs, so
//! there is no moment at which all of them could change hands. Their entries in FLOWS have
//! [`flow_flags::NETFILTER`]: the programs leave the packets alone, and choose no port that such a connection has. What
//! begins anew is the programs'.
//!
//! What has ended goes, and so does what netfilter remembers without any rule of NAT. Netfilter remembers it for minutes,
//! and gives another source port to a connection with the same reply (`nf_nat_setup_info`), whose answers would no longer
//! be those of an entry.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;
use sluice_bpf::BpfError;
use sluice_bpf_abi::{
    Addr, AddressKey, AddressKind, Flow, FlowKind, FrontendKey, FrontendKind, Tuple,
};
use sluice_bpf_abi::{SCTP, TCP, UDP, flow_flags};
use sluice_netlink::conntrack::{self, Conntrack, FlowState};
use sluice_netlink::{Family, RequestError};
use tracing::debug;

use super::keys;
use super::sweep::now;
use super::table::{all_of, entry};
use crate::maps::Maps;
use crate::netfilter;

/// Whose new connections the rules of an earlier proxy still open. Such a connection may have taken the place of one that
/// had ended when the kernel listed it, and even its id (`nf_ct_get_id`), so nothing of theirs is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulesOpen {
    /// All clients': the eBPF programs do nothing yet.
    All,
    /// The node's own.
    Nodes,
    /// No connection: the rules are deleted.
    Nothing,
}

impl RulesOpen {
    const fn for_client(self, is_node: bool) -> bool {
        match self {
            Self::All => true,
            Self::Nodes => is_node,
            Self::Nothing => false,
        }
    }
}

/// A connection to a frontend of ours that rules have translated.
pub(crate) struct Translated {
    state: FlowState,
    /// Netfilter still translates connections of this family.
    is_live: bool,
    /// The node is its client.
    is_node: bool,
}

impl Translated {
    /// The key of its request.
    fn key(&self) -> Tuple {
        entry(&self.state.flow.original)
    }
}

/// The keys of the requests of those that are open.
pub(crate) fn open(listed: &[Translated]) -> BTreeSet<Tuple> {
    let open = listed
        .iter()
        .filter(|it| it.is_live && flags(&it.state).is_some());
    open.map(Translated::key).collect()
}

/// Every connection to a frontend of ours that rules have translated. A kernel that does not track connections, or lists
/// none, has none.
///
/// # Errors
///
/// Another failure of the listing: which connections there are is not known.
pub(crate) fn list(maps: &Maps) -> Result<Vec<Translated>, BpfError> {
    let mut listed = Vec::new();
    if conntrack::Table::now().is_none() {
        return Ok(listed);
    }
    let mut conntrack = Conntrack::open().map_err(unlisted)?;
    let own = sluice_route::addresses().map_err(unlisted)?;
    let own: BTreeSet<IpAddr> = own.into_iter().map(|it| it.ip).collect();
    for family in [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Ipv6Addr::UNSPECIFIED.into(),
    ] {
        let states = match conntrack.states(&all_of(family)) {
            Ok(states) => states,
            Err(error) if lists_none(&error) => continue,
            Err(error) => return Err(unlisted(error)),
        };
        let mut states = states
            .into_iter()
            .filter(|it| is_translated(&it.flow))
            .peekable();
        let is_live = states.peek().is_some() && netfilter::translates(Family::of(family));
        for state in states {
            if is_ours(maps, &state.flow.original)? {
                listed.push(Translated {
                    is_node: own.contains(&state.flow.original.src),
                    is_live,
                    state,
                });
            }
        }
    }
    Ok(listed)
}

/// Whether a kernel without `CONFIG_NF_CT_NETLINK` answered (`nfnetlink_rcv_msg`).
fn lists_none(error: &RequestError) -> bool {
    matches!(error, RequestError::Refused { errno, .. } if *errno == Errno::EINVAL)
}

fn unlisted(error: impl std::error::Error + Send + Sync + 'static) -> BpfError {
    BpfError::Machine {
        operation: "list the connections that netfilter translates",
        source: error.into(),
    }
}

/// Enters every connection that is [listed](list), and returns the keys of their requests.
///
/// # Errors
///
/// As [`list`] and [`enter_all`].
pub(crate) fn import(maps: &mut Maps, rules: RulesOpen) -> Result<BTreeSet<Tuple>, BpfError> {
    let listed = list(maps)?;
    enter_all(maps, &listed, rules)
}

/// Enters connections, and removes from conntrack those that have ended, but for those that rules open again. Returns the
/// keys of the requests of those that netfilter keeps.
///
/// # Errors
///
/// FLOWS has no room.
pub(crate) fn enter_all(
    maps: &mut Maps,
    listed: &[Translated],
    rules: RulesOpen,
) -> Result<BTreeSet<Tuple>, BpfError> {
    let mut kept = BTreeSet::new();
    let mut conntrack = None;
    for it in listed {
        if it.is_live && enter(maps, &it.state, it.is_node)? {
            kept.insert(it.key());
        } else if !rules.for_client(it.is_node) {
            let conntrack = match &mut conntrack {
                Some(conntrack) => conntrack,
                None => conntrack.insert(Conntrack::open().map_err(unlisted)?),
            };
            if let Err(error) = conntrack.delete(&it.state.flow) {
                debug!(%error, "an ended connection of an earlier proxy");
            }
        }
    }
    Ok(kept)
}

/// Enters a connection. False for one that has ended: its client may have begun another one with the programs.
fn enter(maps: &mut Maps, state: &FlowState, is_node: bool) -> Result<bool, BpfError> {
    let Some(flags) = flags(state) else {
        let entries = entries(&state.flow, is_node, [0, 0]).into_iter();
        remove(maps, entries.map(|(key, _)| key))?;
        return Ok(false);
    };
    let request = maps.flows.get(&entry(&state.flow.original))?;
    if request.is_some_and(|it| !is_netfilters(&it)) {
        return Ok(false);
    }
    for (key, value) in entries(&state.flow, is_node, flags) {
        maps.flows.insert_new(&key, &value)?;
    }
    Ok(true)
}

/// Whether an entry is of a connection that netfilter translates.
fn is_netfilters(flow: &Flow) -> bool {
    flow.flags & flow_flags::NETFILTER != 0
}

/// Removes the entries of a connection that netfilter translated. Keys may have entries of the programs' own by now.
fn remove(maps: &mut Maps, keys: impl IntoIterator<Item = Tuple>) -> Result<(), BpfError> {
    for key in keys {
        if maps.flows.get(&key)?.is_some_and(|it| is_netfilters(&it)) {
            maps.flows.remove(&key)?;
        }
    }
    Ok(())
}

/// Removes the entries of connections that netfilter translates, but for those that stay, by the key of their request.
pub(crate) fn forget_netfilters(
    maps: &mut Maps,
    stays: impl Fn(&Tuple) -> bool,
) -> Result<(), BpfError> {
    let mut requests = Vec::new();
    maps.flows.each(|key, it| {
        if it.kind == FlowKind::Request as u8 && is_netfilters(&it) && !stays(&key) {
            requests.push((key, it));
        }
    })?;
    for (key, request) in &requests {
        let all = keys(key, request, |it| maps.flows.get(it).ok().flatten());
        remove(maps, all.collect::<Vec<_>>())?;
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
            | flow_flags::NETFILTER
            | match kind {
                FlowKind::Request | FlowKind::Forwarded | FlowKind::Direct => client,
                FlowKind::Unmasquerade | FlowKind::Reply => endpoint,
            },
        seen_seconds: now(),
        ..Flow::default()
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
        entries.push((unmasquerade, value(&reply, FlowKind::Unmasquerade)));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: Errno, expected: bool) {
        let error = RequestError::Refused {
            operation: "list",
            object: "connections".to_owned(),
            errno,
            message: None,
        };
        assert_eq!(lists_none(&error), expected, "{errno}");
    }

    #[test]
    fn a_listing_that_fails_is_not_empty() {
        check(Errno::EINVAL, true);
        check(Errno::EPERM, false);
        check(Errno::ENOMEM, false);
        check(Errno::ENOBUFS, false);
    }
}
