//! The node's own DNS server: packets between it and its clients pass unchanged.
//!
//! A query passes while the server's process wants it: while a socket is bound to the owner's port of its destination.
//! The kernel closes that socket with the process, also after `kill -9`, and the next query is led to the cluster's
//! DNS.

use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Client, Hook, MAX_DNS_ADDRESSES, TCP, UDP};

use crate::lookup::{self, BOUND, LISTENS};
use crate::maps::{DNS, node};
use crate::origin::{LOOPBACK, client, ifindex};
use crate::packet::Packet;
use crate::service;

/// Whether this address and port are the DNS server's.
#[inline(always)]
pub fn is_served(addr: &Addr, port: u16) -> bool {
    DNS.get(0)
        .is_some_and(|it| it.index_of(addr, port).is_some())
}

/// Whether a packet comes from the server, or is one that the server wants.
///
/// A reply to the node itself may go to a ClusterIP: the kernel takes the address of a query as its source, too.
#[inline(always)]
pub fn passes(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    is_served(&packet.tuple.source, packet.tuple.source_port) || gets(ctx, packet, hook)
}

/// Whether a packet is to the server, and the server wants it.
#[inline(always)]
fn gets(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    let tuple = &packet.tuple;
    let Some(dns) = DNS.get(0) else {
        return false;
    };
    let Some(index) = dns.index_of(&tuple.destination, tuple.destination_port) else {
        return false;
    };
    if dns.for_this_node[index & (MAX_DNS_ADDRESSES - 1)] != 0
        && !is_of_this_node(ctx, packet, hook)
    {
        return false;
    }
    match packet.protocol() {
        TCP if !packet.opens() => {
            let ports = lookup::ports(tuple.source_port, tuple.destination_port);
            let state = lookup::find(ctx, tuple, ports, TCP);
            if state == LISTENS | BOUND {
                return is_wanted(ctx, packet, dns.owner_port);
            }
            // Connections go on until they end, also when the queries were given back.
            state & BOUND != 0
        }
        TCP | UDP => is_wanted(ctx, packet, dns.owner_port),
        _ => false,
    }
}

#[inline(always)]
fn is_of_this_node(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    let Some(node) = node() else {
        return false;
    };
    let family = service::family(node, &packet.tuple.destination);
    ifindex(ctx) == LOOPBACK || client(ctx, packet, hook, family) != Client::Other
}

/// Whether a process wants queries to the destination: it has a socket of UDP at this port of it.
#[inline(always)]
fn is_wanted(ctx: &TcContext, packet: &Packet, owner_port: u32) -> bool {
    // With source port 0 no connected socket matches.
    let ports = lookup::ports(0, owner_port as u16);
    lookup::find(ctx, &packet.tuple, ports, UDP) & BOUND != 0
}
