//! Evaluates our table, or that of a kube-proxy, for one packet: follows the rules through their chains, and reads
//! only the elements that the packet finds.
//!
//! ```text
//! base chains of prerouting or output ─▶ services ─▶ element of frontends ─▶ its chain ─▶ endpoints
//!                  of input or forward ─▶ element of no-endpoints ─▶ drop, reject
//! ```
//!
//! `machine.rs` runs the instructions of a rule as the kernel does (`nf_tables_core.c`), all values of a random
//! number at once. So it needs no knowledge of the names that an agent chose.

mod elements;
mod machine;
mod words;

use std::collections::BTreeSet;

use sluice_model::IpFamily;
use sluice_netlink::request::uninterrupted;
use sluice_nft::{Chain, ChainKind, Connection, HookPoint, Kernel, Scope};
use sluice_plan::explain::{Decision, Explanation};
use sluice_plane::Live;
use sluice_plane::kube_proxy;
use sluice_plane::live::{End, Findings, Question, Walk};
use sluice_reconcile::BackendError;

use crate::name::{TABLE, scope};
use crate::tables::{connect, has_table};
use machine::Machine;

/// Compares the kernel's decision about the packet of an explanation with the plan's.
///
/// # Errors
///
/// The kernel cannot be read.
pub(crate) fn live(explanation: &Explanation) -> Result<Live, BackendError> {
    let question = Question::of(explanation)?;
    let mut connection = connect()?;
    let findings = match table(&mut connection, question.family())? {
        Some(scope) => findings(explanation, &question, connection, scope)?,
        None => Findings {
            wrong: vec![format!(
                "table {} {TABLE} is not there: somebody deleted it, or no agent has written it",
                question.family().nft_name()
            )],
            ends: [End::Past].into(),
            ..Findings::default()
        },
    };
    Live::of(explanation, &question, findings)
}

/// Our table, else that of a kube-proxy.
fn table(
    connection: &mut Connection,
    family: IpFamily,
) -> Result<Option<Scope<'static>>, BackendError> {
    for table in [TABLE, kube_proxy::TABLE] {
        let found = has_table(connection, family, table);
        if found.map_err(|error| BackendError::new("list tables of nf_tables", error))? {
            let scope = scope(family);
            return Ok(Some(Scope { table, ..scope }));
        }
    }
    Ok(None)
}

fn findings(
    explanation: &Explanation,
    question: &Question,
    mut connection: Connection,
    scope: Scope<'_>,
) -> Result<Findings, BackendError> {
    let chains = uninterrupted(|| connection.chains(scope));
    let chains = chains.map_err(|error| failed(scope, error))?;
    let mut walk = Walk::new(Machine::new(connection, scope, question));
    let (mut missing, mut ends) = (Vec::new(), [End::Past].into());
    for (base, kind) in bases(question, &chains) {
        let found = walk.chain(&base.name)?;
        // Endpoints are found in chains that translate, everything else in the others.
        let translates = kind == ChainKind::Nat;
        let unfound = std::mem::take(&mut walk.chains.missing);
        if translates == (explanation.verdict == Decision::Balance) {
            missing.extend(unfound);
        }
        if found.iter().any(is_decision) {
            ends = found;
            break;
        }
    }
    Ok(Findings {
        evidence: walk.chains.evidence,
        wrong: walk.chains.wrong,
        ends,
        missing: missing
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    })
}

/// The base chains that the packet meets until it leaves this machine or is delivered, in their order.
fn bases<'a>(question: &Question, chains: &'a [Chain]) -> Vec<(&'a Chain, ChainKind)> {
    let to_us = question.is_ours(question.packet.destination);
    let hooks: &[HookPoint] = match (question.is_sent_here(), to_us) {
        // Packets of the node to itself arrive through loopback. They keep their connection, so no
        // chain of type nat sees them again.
        (true, true) => &[HookPoint::Output, HookPoint::Input],
        (true, false) => &[HookPoint::Output],
        (false, true) => &[HookPoint::Prerouting, HookPoint::Input],
        (false, false) => &[HookPoint::Prerouting, HookPoint::Forward],
    };
    let at = |point: &HookPoint| {
        let hooked = chains.iter().filter_map(|it| Some((it, it.hook?)));
        let mut here: Vec<_> = hooked.filter(|(_, hook)| hook.point == *point).collect();
        here.sort_by_key(|(_, hook)| hook.priority);
        here.into_iter().map(|(chain, hook)| (chain, hook.kind))
    };
    hooks.iter().flat_map(at).collect()
}

fn is_decision(end: &End) -> bool {
    !matches!(end, End::Past | End::Accept)
}

/// The error of a table that could not be read.
fn failed(scope: Scope<'_>, error: sluice_netlink::RequestError) -> BackendError {
    BackendError::new(format!("read table {}", place(scope)), error)
}

/// Family and name of a table: `ip sluice`.
fn place(scope: Scope<'_>) -> String {
    let family = match scope.family {
        sluice_nft::Family::Ipv4 => IpFamily::V4,
        sluice_nft::Family::Ipv6 => IpFamily::V6,
    };
    format!("{} {}", family.nft_name(), scope.table)
}
