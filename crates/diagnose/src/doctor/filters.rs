//! Rules of other programs that may drop packets at the hooks that packets of a Service pass.

use std::collections::BTreeSet;

use sluice_nft::{Action, AnyChain, Connection};

use super::listed;
use super::report::Finding;

/// Most chains that are read behind one base chain.
const CHAINS: usize = 64;

/// Lists chains of nftables, and of iptables on top of it, that drop or reject. `is_ours` tells tables and
/// chains of the proxy by table and chain.
///
/// Whether a packet of a Service meets one of these rules is not known from the list: a trace tells.
pub(super) fn filters(is_ours: impl Fn(&str, &str) -> bool) -> Vec<Finding> {
    match found(&is_ours) {
        Ok(found) if found.is_empty() => {
            vec![Finding::ok(
                "filters",
                "no other program's nftables rule drops at these hooks",
            )]
        }
        Ok(found) => {
            let evidence = format!("rules that drop or reject: {}", listed(&found));
            vec![
                Finding::warn("filters", evidence).mend(
                    "sluice explain FROM TO --trace: whether such a rule meets these packets",
                ),
            ]
        }
        Err(error) => {
            let evidence = format!("{error} (CAP_NET_ADMIN is needed)");
            vec![Finding::skip("filters", evidence)]
        }
    }
}

/// Chains and rules that drop or reject, in the network namespace of the calling thread.
pub(super) fn found(
    is_ours: &dyn Fn(&str, &str) -> bool,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut connection = Connection::open()?;
    let all = connection.all_chains()?;
    let mut found = Vec::new();
    for base in all
        .iter()
        .filter(|it| it.hook.is_some() && !is_ours(&it.table, &it.name))
    {
        if base.drops_by_policy() {
            found.push(format!("{base} (policy drop)"));
        }
        behind(&mut connection, &all, base, is_ours, &mut found)?;
    }
    Ok(found)
}

/// The chains that packets may reach from a base chain.
fn behind(
    connection: &mut Connection,
    all: &[AnyChain],
    base: &AnyChain,
    is_ours: &dyn Fn(&str, &str) -> bool,
    found: &mut Vec<String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![base.name.clone()];
    while let Some(name) = ahead.pop() {
        if seen.len() == CHAINS || is_ours(&base.table, &name) || !seen.insert(name.clone()) {
            continue;
        }
        let same_table = |it: &&AnyChain| it.table == base.table && it.family == base.family;
        let Some(chain) = all.iter().filter(same_table).find(|it| it.name == name) else {
            continue;
        };
        for rule in connection.numbered_rules(chain.family, &chain.table, Some(&chain.name))? {
            let verb = match rule.action {
                Some(Action::Drop) => "drops",
                Some(Action::Reject) => "rejects",
                Some(Action::Continue(next)) => {
                    ahead.push(next);
                    continue;
                }
                None => continue,
            };
            let comment = rule.comment.map(|it| format!(", {it:?}"));
            let comment = comment.unwrap_or_default();
            found.push(format!("{chain} (handle {} {verb}{comment})", rule.handle));
        }
    }
    Ok(())
}
