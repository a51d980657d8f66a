//! One packet, traced through the hooks.

use sluice_plane::Witness;

use super::report::{Finding, State};
use crate::trace::{End, Owner, Request, trace};

/// Sends a packet and looks where it ends. `witness` watches it where programs lead packets.
#[must_use]
pub fn way(request: &Request, witness: Option<&mut (dyn Witness + '_)>) -> Finding {
    let trace = match trace(request, witness) {
        Ok(trace) => trace,
        Err(error) => return Finding::new("trace", State::Skip, error.to_string()),
    };
    let to = format!("{}/{}", trace.destination, trace.protocol);
    let causes = trace.end.causes();
    let because = if causes.is_empty() {
        String::new()
    } else {
        format!(": {}", causes.join("; "))
    };
    let evidence = format!("a packet to {to} is {}{because}", trace.end);
    match &trace.end {
        End::Delivered { .. } if causes.is_empty() => Finding::new("trace", State::Ok, evidence),
        End::Programs { act, .. } if !act.is_denial() => Finding::new("trace", State::Ok, evidence),
        End::Unknown => Finding::new("trace", State::Skip, evidence),
        End::Dropped { hop, .. } => {
            let finding = Finding::new("trace", State::Fail, evidence);
            let chain = format!("{} {} {}", hop.family, hop.table, hop.chain);
            match hop.owner {
                Owner::Foreign => finding.mend(format!(
                    "another program's rule: nft -a list chain {chain}; let packets to Services pass \
                     before it"
                )),
                _ => finding.mend(format!("nft -a list chain {chain}")),
            }
        }
        _ => Finding::new("trace", State::Fail, evidence),
    }
}
