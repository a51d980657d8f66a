//! The connections of a client to a frontend, from connection tracking.

use sluice_netlink::Family;
use sluice_netlink::conntrack::{Conntrack, FlowFilter, FlowState};
use sluice_plan::explain::{self, Explanation};
use sluice_reconcile::BackendError;

use super::{Evidence, Live, Question};

/// Connections that are shown.
const SHOWN: usize = 20;

/// States of TCP and SCTP in which no more data goes to the endpoint.
const ENDED: [&str; 6] = [
    "TIME_WAIT",
    "CLOSE",
    "LAST_ACK",
    "FIN_WAIT",
    "CLOSED",
    "SHUTDOWN_ACK_SENT",
];

/// Adds the connections, and those that go to no endpoint of the service port as differences.
pub(super) fn add(
    explanation: &Explanation,
    question: &Question,
    live: &mut Live,
) -> Result<(), BackendError> {
    let packet = &question.packet;
    let filter = FlowFilter {
        family: Family::of(packet.destination),
        destination: Some(packet.destination),
        protocol: Some(packet.protocol.number()),
        destination_port: Some(packet.port),
    };
    let failed = |error| BackendError::new("list connections", error);
    let mut conntrack =
        Conntrack::open().map_err(|error| BackendError::new("open conntrack", error))?;
    let mut flows = conntrack.states(&filter).map_err(failed)?;
    flows.retain(|it| is_of_client(question, it));
    live.evidence.extend(flows.iter().take(SHOWN).map(evidence));
    if let Some(more) = flows.len().checked_sub(SHOWN + 1) {
        let text = format!("and {} more", more + 1);
        live.evidence.push(Evidence::new("connections", text));
    }
    let stale = flows.iter().filter(|it| is_stale(explanation, it));
    let stale: Vec<_> = stale.map(route).collect();
    live.differences.extend(
        stale
            .iter()
            .take(SHOWN)
            .map(|route| format!("connection {route} is stale: no such endpoint is in the plan")),
    );
    if let Some(more) = stale.len().checked_sub(SHOWN + 1) {
        live.differences
            .push(format!("{} more connections are stale", more + 1));
    }
    Ok(())
}

/// Whether a connection is of the client that the question is about. The node has several addresses, and
/// `outside` stands for every other machine.
fn is_of_client(question: &Question, flow: &FlowState) -> bool {
    let (client, source) = (question.packet.source, flow.flow.original.src);
    if explain::is_anybody_outside(client) {
        !question.is_ours(source)
    } else if question.is_sent_here() {
        question.is_ours(source)
    } else {
        source == client
    }
}

/// Whether a connection goes to an address that is no endpoint of the service port, ready or not.
fn is_stale(explanation: &Explanation, flow: &FlowState) -> bool {
    let Some(service) = &explanation.service else {
        return false;
    };
    let reply = flow.flow.reply;
    let is_endpoint =
        |it: &explain::Member| (it.address.ip(), it.address.port()) == (reply.src, reply.src_port);
    let has_ended = flow.state.is_some_and(|it| ENDED.contains(&it));
    !has_ended && !service.endpoints.iter().any(is_endpoint)
}

fn route(flow: &FlowState) -> String {
    let (original, reply) = (flow.flow.original, flow.flow.reply);
    let socket = |ip, port| std::net::SocketAddr::new(ip, port);
    let client = socket(original.src, original.src_port);
    format!("{client} → {}", socket(reply.src, reply.src_port))
}

fn evidence(flow: &FlowState) -> Evidence {
    let mut text = route(flow);
    if let Some(state) = flow.state {
        text += &format!(", {state}");
    }
    if !flow.answered {
        text += ", no answer yet";
    }
    if let Some(seconds) = flow.seconds {
        text += &format!(", expires in {seconds} s");
    }
    let sum = |both: [u64; 2]| both.iter().sum();
    Evidence {
        packets: flow.packets.map(sum),
        bytes: flow.bytes.map(sum),
        ..Evidence::new("connection", text)
    }
}
