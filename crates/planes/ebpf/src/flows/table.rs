//! Connections as the agent lists and deletes them.

use std::net::IpAddr;

use sluice_bpf::Table;
use sluice_bpf_abi::{Addr, Flow, FlowKind, Tuple};
use sluice_netlink::Family;
use sluice_netlink::conntrack;
use sluice_netlink::conntrack::FlowFilter;
use sluice_plane::{FlowTable, NetfilterFlows};

use super::{keys, rewritten};

/// The connections that the programs translate, and those that netfilter does for an earlier proxy.
#[derive(Debug)]
pub(crate) struct ProgramFlows {
    table: Table<Tuple, Flow>,
    netfilter: NetfilterFlows,
}

impl ProgramFlows {
    pub(crate) fn new(table: Table<Tuple, Flow>) -> Self {
        Self {
            table,
            netfilter: NetfilterFlows::default(),
        }
    }
}

impl FlowTable for ProgramFlows {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<conntrack::Flow>, String> {
        let entries = self.table.entries().map_err(|error| error.to_string())?;
        let requests = entries
            .iter()
            .filter(|(_, it)| it.kind == FlowKind::Request as u8);
        let flows = requests.map(|(key, request)| conntrack::Flow {
            original: tuple(key),
            reply: tuple(&rewritten(key, request).reversed()),
            id: None,
            zone: 0,
        });
        let mut flows: Vec<_> = flows.filter(|it| filter.matches(it)).collect();
        // A kernel without netfilter's table has no connections in it.
        flows.extend(self.netfilter.flows(filter).unwrap_or_default());
        Ok(flows)
    }

    fn delete(&mut self, flow: &conntrack::Flow) -> Result<(), String> {
        // Netfilter's have an id.
        if flow.id.is_some() {
            return self.netfilter.delete(flow);
        }
        let key = entry(&flow.original);
        let request = self.table.get(&key).map_err(|error| error.to_string())?;
        let Some(request) = request else {
            return Ok(());
        };
        let table = &self.table;
        let all = keys(&key, &request, |it| table.get(it).ok().flatten());
        for key in all.collect::<Vec<_>>() {
            self.table.remove(&key).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn tuple(tuple: &Tuple) -> conntrack::Tuple {
    conntrack::Tuple {
        src: tuple.source.into(),
        dst: tuple.destination.into(),
        protocol: u8::try_from(tuple.protocol).unwrap_or_default(),
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
