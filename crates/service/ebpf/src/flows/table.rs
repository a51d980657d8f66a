//! Connections as the agent lists and deletes them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_bpf::Pins;
use sluice_bpf_abi::{Addr, FlowKind, Tuple};
use sluice_netlink::Family;
use sluice_netlink::conntrack;
use sluice_netlink::conntrack::FlowFilter;
use sluice_plane::{FlowTable, NetfilterFlows, Sockets};
use tracing::info;

use super::{keys, rewritten};
use crate::destroy::{Led, destroy_sockets};
use crate::maps::Maps;

/// The connections that the programs translate, sockets that they led, and what netfilter translates for an
/// earlier proxy.
#[derive(Debug)]
pub(crate) struct ProgramFlows {
    pins: Pins,
    /// As of the last listing: the tables may be replaced by larger ones.
    maps: Option<Maps>,
    /// The sockets that are ended.
    ended: Sockets,
    netfilter: NetfilterFlows,
}

impl ProgramFlows {
    pub(crate) fn new(pins: Pins, ended: Sockets) -> Self {
        Self {
            pins,
            maps: None,
            ended,
            netfilter: NetfilterFlows::default(),
        }
    }

    /// Sockets that were led alike are one flow, without a client.
    fn sockets(&self, maps: &Maps) -> Result<BTreeSet<Led>, String> {
        if self.ended == Sockets::Off {
            return Ok(BTreeSet::new());
        }
        let entries = maps.peers.entries().map_err(|error| error.to_string())?;
        let led = entries.iter().map(|(key, frontend)| Led::of(key, frontend));
        let ends = |it: &Led| match it.protocol {
            sluice_bpf_abi::TCP => self.ended.has_tcp(),
            _ => self.ended.has_udp(),
        };
        Ok(led.filter(ends).collect())
    }

    /// Those of packets that a filter wants: the table may be large.
    fn packets(maps: &Maps, filter: &FlowFilter) -> Result<Vec<conntrack::Flow>, String> {
        let mut flows = Vec::new();
        let listed = maps.flows.each(|key, request| {
            let flow = conntrack::Flow {
                original: tuple(&key),
                reply: tuple(&rewritten(&key, &request).reversed()),
                id: None,
                zone: 0,
            };
            if request.kind == FlowKind::Request as u8 && filter.matches(&flow) {
                flows.push(flow);
            }
        });
        listed.map_err(|error| error.to_string())?;
        Ok(flows)
    }
}

impl FlowTable for ProgramFlows {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<conntrack::Flow>, String> {
        let maps = Maps::open(&self.pins).map_err(|error| error.to_string())?;
        let mut flows: Vec<_> = self.sockets(&maps)?.iter().map(of_sockets).collect();
        // A kernel without netfilter's table has no connections in it.
        let mut netfilter = self.netfilter.flows(filter).unwrap_or_default();
        match filter.protocol {
            Some(sluice_bpf_abi::UDP) => flows.extend(Self::packets(&maps, filter)?),
            // Packets of TCP go on to an endpoint that serves no more, whatever becomes of sockets.
            _ => netfilter.retain(|it| it.reply.src == it.original.dst),
        }
        flows.retain(|it| filter.matches(it));
        flows.extend(netfilter);
        self.maps = Some(maps);
        Ok(flows)
    }

    fn delete(&mut self, flow: &conntrack::Flow) -> Result<(), String> {
        // Netfilter's have an id.
        if flow.id.is_some() {
            return self.netfilter.delete(flow);
        }
        let Some(maps) = &mut self.maps else {
            return Ok(());
        };
        if flow.original.src.is_unspecified() {
            let led = Led {
                frontend: SocketAddr::new(flow.original.dst, flow.original.dst_port),
                endpoint: SocketAddr::new(flow.reply.src, flow.reply.src_port),
                protocol: flow.original.protocol,
            };
            let ended =
                destroy_sockets(&mut maps.peers, &led).map_err(|error| error.to_string())?;
            if ended > 0 {
                info!(frontend = %led.frontend, endpoint = %led.endpoint, ended, "sockets ended");
            }
            return Ok(());
        }
        let key = entry(&flow.original);
        let request = maps.flows.get(&key).map_err(|error| error.to_string())?;
        let Some(request) = request else {
            return Ok(());
        };
        let table = &mut maps.flows;
        let all = keys(&key, &request, |it| table.get(it).ok().flatten());
        for key in all.collect::<Vec<_>>() {
            table.remove(&key).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The flow of sockets: from the unspecified address.
fn of_sockets(led: &Led) -> conntrack::Flow {
    let client: SocketAddr = match led.frontend {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let tuple = |from: SocketAddr, to: SocketAddr| conntrack::Tuple {
        src: from.ip(),
        dst: to.ip(),
        protocol: led.protocol,
        src_port: from.port(),
        dst_port: to.port(),
    };
    conntrack::Flow {
        original: tuple(client, led.frontend),
        reply: tuple(led.endpoint, client),
        id: None,
        zone: 0,
    }
}

fn tuple(tuple: &Tuple) -> conntrack::Tuple {
    conntrack::Tuple {
        src: tuple.source.into(),
        dst: tuple.destination.into(),
        protocol: u8::try_from(tuple.protocol & Tuple::PROTOCOL).unwrap_or_default(),
        src_port: tuple.source_port,
        dst_port: tuple.destination_port,
    }
}

/// The key of packets with netfilter's tuple.
pub(super) fn entry(tuple: &conntrack::Tuple) -> Tuple {
    Tuple {
        source: Addr::from(tuple.src),
        destination: Addr::from(tuple.dst),
        source_port: tuple.src_port,
        destination_port: tuple.dst_port,
        protocol: tuple.protocol.into(),
    }
}

/// A filter for all connections of a family.
pub(super) fn all_of(example: IpAddr) -> FlowFilter {
    FlowFilter {
        family: Family::of(example),
        destination: None,
        protocol: None,
        destination_port: None,
    }
}
