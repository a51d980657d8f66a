//! Rules that count packets for kube-proxy's two metrics, in objects of nfacct. Where the kernel has no
//! such objects, or accepts no rule that mentions one, rules are written without them.

use sluice_netlink::nfacct::Accounts;
use sluice_plane::kube_proxy::{ACCOUNTS, CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use sluice_xtables::rule::{Match, Rule};
use tracing::debug;

/// Whether rules count packets for kube-proxy's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// Rules without nfacct objects.
    #[default]
    Off,
    /// Rules with kube-proxy's nfacct objects, which exist.
    On,
}

/// Creates the missing objects: a rule that mentions a missing object is refused. Returns whether all of
/// them exist.
pub(crate) fn ensure(accounts: &mut Accounts) -> bool {
    let made = ACCOUNTS.into_iter().try_for_each(|it| accounts.ensure(it));
    made.inspect_err(|error| debug!(%error, "objects of nfacct may be missing"))
        .is_ok()
}

/// Counts packets that conntrack finds invalid. The last condition of a rule, as the other one.
pub(crate) fn count_invalid() -> Match {
    Match::Nfacct(CT_STATE_INVALID_DROPPED.into())
}

/// Counts packets to NodePorts on loopback.
pub(crate) fn count_localhost() -> Match {
    Match::Nfacct(LOCALHOST_NODE_PORTS_ACCEPTED.into())
}

/// The rule behind a rule that counts packets for it; `None` for a rule that counts none.
pub(crate) fn counted(rule: &Rule) -> Option<Rule> {
    let Rule::Known {
        matches,
        target: Some(target),
    } = rule
    else {
        return None;
    };
    let counts = matches.iter().any(|it| matches!(it, Match::Nfacct(_)));
    let narrows = |it: &&Match| matches!(it, Match::Destination(..) | Match::Nfacct(_));
    let wider: Vec<Match> = matches.iter().filter(|it| !narrows(it)).cloned().collect();
    counts.then(|| Rule::when(wider, target.clone()))
}
