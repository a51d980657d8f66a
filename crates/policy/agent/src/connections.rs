//! Connections that exist, as policies see them.

use sluice_netlink::Family;
use sluice_netlink::conntrack::{Conntrack, Flow, FlowFilter};
use sluice_policy_plan::Plan;
use sluice_policy_plan::lookup::{Packet, lookup};
use sluice_reconcile::BackendError;

/// The tracked connections of the calling thread's network namespace that one plan allows to begin and another one does
/// not, each as its first packet.
///
/// # Errors
///
/// Connection tracking cannot be read: the caller needs `CAP_NET_ADMIN`.
pub fn forbidden(before: &Plan, after: &Plan) -> Result<Vec<Packet>, BackendError> {
    let failed = |error| BackendError::new("list connections", error);
    let mut table =
        Conntrack::open().map_err(|error| BackendError::new("open connection tracking", error))?;
    let mut found = Vec::new();
    for family in [Family::Ipv4, Family::Ipv6] {
        let filter = FlowFilter {
            family,
            destination: None,
            protocol: None,
            destination_port: None,
        };
        let flows = table.flows(&filter).map_err(failed)?;
        let packets = flows.iter().map(first_packet);
        found.extend(
            packets.filter(|it| lookup(before, it).is_allowed() && !lookup(after, it).is_allowed()),
        );
    }
    Ok(found)
}

/// The source is not masqueraded yet where rules see the packet, and the destination is translated.
fn first_packet(flow: &Flow) -> Packet {
    let mut protocols = sluice_model::Protocol::ALL.into_iter();
    let protocol = protocols.find(|it| it.number() == flow.original.protocol);
    Packet {
        source: flow.original.src,
        destination: flow.reply.src,
        port: protocol.map(|it| (it, flow.reply.src_port)),
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::Protocol;
    use sluice_netlink::conntrack::Tuple;

    use super::*;

    /// A client pod asks a Service, and its address is masqueraded.
    #[test]
    fn a_connection_is_seen_as_rules_see_it() {
        let tuple = |src: [u8; 4], dst: [u8; 4], src_port, dst_port| Tuple {
            src: src.into(),
            dst: dst.into(),
            protocol: 6,
            src_port,
            dst_port,
        };
        let flow = Flow {
            original: tuple([10, 0, 0, 1], [10, 96, 0, 1], 40_000, 80),
            reply: tuple([10, 0, 0, 2], [192, 0, 2, 1], 8080, 50_000),
            id: None,
            zone: 0,
        };
        let expected = Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            port: Some((Protocol::Tcp, 8080)),
        };
        assert_eq!(first_packet(&flow), expected);
    }
}
