//! One packet, traced through the hooks.

use sluice_plane::Witness;

use super::report::Finding;
use crate::trace::{End, Owner, Request, trace};

/// Sends a packet and looks where it ends. `witness` watches it where programs lead packets; or why none can.
pub(super) fn way(request: &Request, witness: Result<Option<Box<dyn Witness>>, String>) -> Finding {
    let mut witness = match witness {
        Ok(witness) => witness,
        Err(error) => return Finding::skip("trace", error),
    };
    let trace = match trace(request, witness.as_deref_mut().map(|it| it as _)) {
        Ok(trace) => trace,
        Err(error) => return Finding::skip("trace", error.to_string()),
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
        End::Delivered { .. } if causes.is_empty() => Finding::ok("trace", evidence),
        End::Programs { act, .. } if !act.is_denial() => Finding::ok("trace", evidence),
        End::Unknown => Finding::skip("trace", evidence),
        End::Dropped { hop, .. } => {
            let finding = Finding::fail("trace", evidence);
            let chain = format!("{} {} {}", hop.family, hop.table, hop.chain);
            match hop.owner {
                Owner::Foreign => finding.mend(format!(
                    "another program's rule: nft -a list chain {chain}; let packets to Services pass \
                     before it"
                )),
                _ => finding.mend(format!("nft -a list chain {chain}")),
            }
        }
        _ => Finding::fail("trace", evidence),
    }
}
