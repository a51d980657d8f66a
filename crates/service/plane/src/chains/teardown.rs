//! Plans the removal from one table of iptables. Pure: the same for nf_tables and legacy.

use std::collections::BTreeSet;

use crate::Removal;
use crate::kube_proxy::{FORWARD, MARK_MASQ};

/// Built-in chains. By name, not by hook: a base chain with another name is not of iptables.
const BUILTIN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// A rule that jumps from one chain to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link<Rule> {
    /// The chain that holds the rule.
    pub(super) chain: String,
    /// The chain to which it jumps.
    pub(super) target: String,
    /// The rule, as deleting it needs.
    pub(super) rule: Rule,
}

/// Changes of a table, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Teardown<Rule> {
    /// Rules to delete from chains that stay.
    pub(super) unlink: Vec<Link<Rule>>,
    /// Chains to empty before one is deleted, because they jump to each other.
    pub(super) flush: Vec<String>,
    /// Chains to delete.
    pub(super) delete: Vec<String>,
    /// Chains that stay because rules of others jump to them; all but that of the mark are emptied.
    pub(super) kept: Vec<String>,
}

/// Plans the removal of the chains for which `goes` holds, which are kube-proxy's, from a table with these
/// chains and links; `None` when it has none of them.
///
/// A rule in a built-in chain that jumps to one of them is kube-proxy's. Other rules are of other programs,
/// and so is a jump from a built-in chain to the mark, which kube-proxy never has. They stay, and so do the
/// chains that they need. Those are emptied, because their rules are about Services, except the mark: other
/// programs rely on its rule, and we masquerade packets with it.
pub(super) fn plan<Rule>(
    chains: &[String],
    links: Vec<Link<Rule>>,
    goes: impl Fn(&str) -> bool,
) -> Option<Teardown<Rule>> {
    let chains: Vec<&String> = chains.iter().filter(|it| goes(it)).collect();
    if chains.is_empty() {
        return None;
    }
    let (mut unlink, mut needed) = (Vec::new(), BTreeSet::new());
    for link in links {
        if goes(&link.chain) || !goes(&link.target) {
            continue;
        }
        if BUILTIN.contains(&&*link.chain) && link.target != MARK_MASQ {
            unlink.push(link)
        } else {
            needed.insert(link.target);
        }
    }
    let is_needed = |it: &&&String| needed.contains(**it);
    let keeps_rules = |it: &&&String| is_needed(it) && **it == MARK_MASQ;
    let all = || chains.iter().copied();
    Some(Teardown {
        unlink,
        flush: all().filter(|it| !keeps_rules(&it)).cloned().collect(),
        delete: all().filter(|it| !is_needed(&it)).cloned().collect(),
        kept: all().filter(|it| is_needed(&it)).cloned().collect(),
    })
}

/// The removal from a table.
#[derive(Debug)]
pub(super) struct Cleared<Rule> {
    /// The changes that were made.
    pub(super) done: Teardown<Rule>,
    /// Whether the policy of `FORWARD` is to drop.
    pub(super) forward_drops: bool,
}

impl<Rule> Cleared<Rule> {
    /// Tells the operator; `table` as in `ip nat`.
    pub(super) fn report(&self, table: &str, removal: &mut Removal) {
        let Teardown {
            unlink,
            delete,
            kept,
            ..
        } = &self.done;
        if !delete.is_empty() || !unlink.is_empty() {
            let count = delete.len();
            let chains = format!("{count} iptables chains of table {table}");
            removal.removed.push(chains);
        }
        if !kept.is_empty() {
            let chains = kept.join(", ");
            removal.notes.push(format!(
                "chains of kube-proxy in table {table} stay, rules of others jump to them: {chains}"
            ));
        }
        if self.forward_drops && delete.iter().any(|it| it == FORWARD) {
            removal.notes.push(format!(
                "table {table}: the policy of FORWARD is DROP, and {FORWARD}, which accepted \
                 packets, is deleted: permit traffic to pods, or Services are not reached from \
                 outside this node"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube_proxy::is_chain;

    /// `links` as `FROM>TO`; the rule's name is its position.
    #[track_caller]
    fn check(chains: &str, links: &str, wanted: &str) {
        let chains: Vec<String> = chains.split_whitespace().map(str::to_owned).collect();
        let links = links.split_whitespace().enumerate().map(|(rule, it)| {
            let (chain, target) = it.split_once('>').unwrap();
            Link {
                chain: chain.to_owned(),
                target: target.to_owned(),
                rule,
            }
        });
        let found = plan(&chains, links.collect(), is_chain).map_or("nothing".to_owned(), |it| {
            let unlink: Vec<usize> = it.unlink.iter().map(|it| it.rule).collect();
            let [flush, delete, kept] = [it.flush, it.delete, it.kept].map(|it| it.join(" "));
            format!("unlink {unlink:?} flush [{flush}] delete [{delete}] kept [{kept}]")
        });
        assert_eq!(found, wanted);
    }

    #[test]
    fn tables_of_others_are_left_alone() {
        check("", "", "nothing");
        check(
            "PREROUTING KUBE-FIREWALL KUBE-KUBELET-CANARY DOCKER",
            "PREROUTING>DOCKER INPUT>KUBE-FIREWALL",
            "nothing",
        );
    }

    #[test]
    fn its_own_jumps_go_and_others_stay() {
        check(
            "PREROUTING KUBE-SERVICES KUBE-SVC-XPGD46QRK7WJZT7O KUBE-FIREWALL",
            "PREROUTING>KUBE-SERVICES PREROUTING>DOCKER INPUT>KUBE-FIREWALL \
             KUBE-SERVICES>KUBE-SVC-XPGD46QRK7WJZT7O OUTPUT>KUBE-SERVICES",
            "unlink [0, 4] flush [KUBE-SERVICES KUBE-SVC-XPGD46QRK7WJZT7O] \
             delete [KUBE-SERVICES KUBE-SVC-XPGD46QRK7WJZT7O] kept []",
        );
    }

    #[test]
    fn what_others_need_stays_and_only_the_mark_keeps_its_rule() {
        check(
            "KUBE-SERVICES KUBE-MARK-MASQ HOSTPORTS",
            "HOSTPORTS>KUBE-MARK-MASQ OUTPUT>KUBE-SERVICES",
            "unlink [1] flush [KUBE-SERVICES] delete [KUBE-SERVICES] kept [KUBE-MARK-MASQ]",
        );
        check(
            "KUBE-SERVICES KUBE-MARK-MASQ",
            "POSTROUTING>KUBE-MARK-MASQ MINE>KUBE-SERVICES",
            "unlink [] flush [KUBE-SERVICES] delete [] kept [KUBE-SERVICES KUBE-MARK-MASQ]",
        );
    }

    #[test]
    fn a_policy_that_drops_is_told_once_the_accepting_chain_is_gone() {
        for (chain, forward_drops, notes) in [
            ("KUBE-FORWARD", true, 1),
            ("KUBE-FORWARD", false, 0),
            ("KUBE-SERVICES", true, 0),
        ] {
            let done = plan::<()>(&[chain.to_owned()], Vec::new(), is_chain).unwrap();
            let mut removal = Removal::default();
            let cleared = Cleared {
                done,
                forward_drops,
            };
            cleared.report("ip filter", &mut removal);
            assert_eq!(removal.removed, ["1 iptables chains of table ip filter"]);
            assert_eq!(removal.notes.len(), notes, "{chain} {forward_drops}");
        }
    }
}
