//! Packets that rules count for kube-proxy's two metrics, in objects of nfacct. Nobody needs them to be
//! served: where the kernel has no such objects, or takes no rule that mentions one, rules are
//! written without.

use sluice_netlink::nfacct::Accounts;
use sluice_plane::kube_proxy::{ACCOUNTS, CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use sluice_xtables::rule::{Match, Rule};
use tracing::debug;

/// Whether rules count packets for kube-proxy's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// They mention no object.
    #[default]
    Off,
    /// They mention kube-proxy's objects, which are there.
    On,
}

/// Makes the objects that are missing: a rule that mentions a missing object is refused. Returns
/// whether all of them are there.
pub(crate) fn ensure(accounts: &mut Accounts) -> bool {
    let made = ACCOUNTS.into_iter().try_for_each(|it| accounts.ensure(it));
    made.inspect_err(|error| debug!(%error, "objects of nfacct may be missing"))
        .is_ok()
}

/// Counts what conntrack finds invalid. The last condition of a rule, as the other one.
pub(crate) fn count_invalid() -> Match {
    Match::Nfacct(CT_STATE_INVALID_DROPPED.into())
}

/// Counts packets to NodePorts on loopback.
pub(crate) fn count_localhost() -> Match {
    Match::Nfacct(LOCALHOST_NODE_PORTS_ACCEPTED.into())
}

/// Whether a rule counts packets in an object.
fn counts(rule: &Rule) -> bool {
    let is_account = |it: &Match| matches!(it, Match::Nfacct(_));
    matches!(rule, Rule::Known { matches, .. } if matches.iter().any(is_account))
}

/// The rule that a rule counts packets for, and that stands behind it; `None` when it counts none.
pub(crate) fn counted(rule: &Rule) -> Option<Rule> {
    match rule {
        Rule::Known {
            matches,
            target: Some(target),
        } if counts(rule) => {
            let narrows = |it: &&Match| matches!(it, Match::Destination(..) | Match::Nfacct(_));
            let wider = matches.iter().filter(|it| !narrows(it)).cloned();
            Some(Rule::when(wider.collect::<Vec<_>>(), target.clone()))
        }
        _ => None,
    }
}
