//! What the maps decide about one packet, for `sluice explain --live`.

use std::net::SocketAddr;
use std::path::Path;

use sluice_bpf_abi as abi;
use sluice_plan::explain::Explanation;
use sluice_plan::lookup::Packet;
use sluice_plane::Live;
use sluice_plane::live::{End, Evidence, Findings, Question};
use sluice_reconcile::BackendError;

use crate::backend::failed;
use crate::evaluate::{self, Evaluation, Fate};
use crate::leftovers::PINS;
use crate::maps::Maps;
use crate::placement::protocol_number;
use crate::programs;
use crate::text;

/// Connections that are shown.
const SHOWN: usize = 20;

/// The entries that carry the decision, and the connections of the client.
pub(crate) fn live(explanation: &Explanation) -> Result<Live, BackendError> {
    let pins = programs::pins(Path::new(PINS)).map_err(failed)?;
    if !pins.exist() {
        return Live::without_rules(explanation);
    }
    let question = Question::of(explanation)?;
    let packet = &question.packet;
    let maps = Maps::open(&pins).map_err(failed)?;
    let node = maps.node().map_err(failed)?;
    let packet = &Packet {
        interface: packet
            .interface
            .clone()
            .filter(|_| !question.is_sent_here()),
        ..packet.clone()
    };
    let is_pod = is_pod_interface(&maps, packet)?;
    let client = evaluate::client(&node, packet, is_pod);
    let evaluation = evaluate::evaluate(&maps, packet, client).map_err(failed)?;
    let mut findings = findings(&evaluation);
    connections(&maps, packet, &mut findings)?;
    Live::of(explanation, &question, findings)
}

fn is_pod_interface(maps: &Maps, packet: &Packet) -> Result<bool, BackendError> {
    let Some(name) = &packet.interface else {
        return Ok(false);
    };
    let link = sluice_route::link(name);
    let link = link.map_err(|error| BackendError::new("find an interface", error))?;
    let Some(link) = link else {
        return Ok(false);
    };
    let known = maps.interfaces.get(&link.index).map_err(failed)?;
    Ok(known.is_some_and(|it| it.flags & abi::interface_flags::POD != 0))
}

fn findings(evaluation: &Evaluation) -> Findings {
    let mut findings = Findings::default();
    if let Some((key, value)) = &evaluation.frontend {
        let evidence = Evidence::new("entry of map FRONTENDS", text::frontend(key, value));
        findings.evidence.push(evidence);
    }
    for fate in &evaluation.fates {
        let end = match fate {
            Fate::Endpoint { to, slot, .. } => {
                let what = format!("slot {slot} of map ENDPOINTS");
                findings.evidence.push(Evidence::new(what, to.to_string()));
                End::Translated(*to)
            }
            Fate::EmptySlot(slot) => {
                let wrong = format!("the frontend leads to slot {slot}, which has no endpoint");
                findings.wrong.push(wrong);
                End::Drop
            }
            Fate::Dropped => End::Drop,
            Fate::Rejected => End::Reject,
            Fate::Untouched => End::Past,
        };
        findings.ends.insert(end);
    }
    findings
}

fn connections(maps: &Maps, packet: &Packet, findings: &mut Findings) -> Result<(), BackendError> {
    let (source, destination) = (packet.source.into(), packet.destination.into());
    let protocol = u32::from(protocol_number(packet.protocol));
    let mut asked = Vec::new();
    let listed = maps.flows.each(|key, flow| {
        let is_asked = key.source == source
            && key.destination == destination
            && key.destination_port == packet.port
            && key.protocol == protocol
            && flow.kind == abi::FlowKind::Request as u8;
        if is_asked && asked.len() < SHOWN {
            asked.push((key, flow));
        }
    });
    listed.map_err(failed)?;
    for (key, flow) in asked {
        let from = SocketAddr::new(key.source.into(), key.source_port);
        let to = SocketAddr::new(flow.destination.into(), flow.destination_port);
        let text = format!("{from} goes to {to}");
        findings
            .evidence
            .push(Evidence::new("connection in map FLOWS", text));
    }
    Ok(())
}
