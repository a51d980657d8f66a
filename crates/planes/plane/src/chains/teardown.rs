//! What to remove from one table of iptables. Pure: the same for rules of nf_tables and legacy.

use std::collections::BTreeSet;

use crate::Removal;
use crate::kube_proxy::{FORWARD, MARK_MASQ};

/// The chains that every packet meets. Names of iptables, not hooks: a base chain of another name
/// is not iptables'.
const BUILTIN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// A rule that leads from one chain to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link<Rule> {
    /// The chain that holds the rule.
    pub(super) chain: String,
    /// Where it leads.
    pub(super) target: String,
    /// How to name the rule when it is deleted.
    pub(super) rule: Rule,
}

/// What to do to a table, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Teardown<Rule> {
    /// Rules to delete from chains that stay.
    pub(super) unlink: Vec<Link<Rule>>,
    /// Chains to empty, before any is deleted: they lead to each other.
    pub(super) flush: Vec<String>,
    /// Chains to delete.
    pub(super) delete: Vec<String>,
    /// Chains that stay because rules of others lead to them, all but one of them empty.
    pub(super) kept: Vec<String>,
}

/// Plans the removal of the chains that go, which are kube-proxy's, from a table with these chains
/// and links; `None` when it has none.
///
/// A rule in a built-in chain that leads to one of its chains is its own work. Rules elsewhere are
/// of somebody else, and so is one that leads from a built-in chain to the mark: kube-proxy never
/// does that. Both stay, and so does the chain that they need. It loses its rules, which are about
/// Services; only the mark keeps its own: whoever asks for it counts on it, and we masquerade what
/// carries it.
pub(super) fn plan<Rule>(
    chains: &[String],
    links: Vec<Link<Rule>>,
    goes: impl Fn(&str) -> bool,
) -> Option<Teardown<Rule>> {
    let theirs: Vec<&String> = chains.iter().filter(|it| goes(it)).collect();
    if theirs.is_empty() {
        return None;
    }
    let (mut unlink, mut wanted) = (Vec::new(), BTreeSet::new());
    for link in links {
        if goes(&link.chain) || !goes(&link.target) {
            continue;
        }
        match BUILTIN.contains(&&*link.chain) && link.target != MARK_MASQ {
            true => unlink.push(link),
            false => {
                wanted.insert(link.target);
            }
        }
    }
    let is_wanted = |it: &&&String| wanted.contains(**it);
    let is_spared = |it: &&&String| is_wanted(it) && **it == MARK_MASQ;
    let all = || theirs.iter().copied();
    Some(Teardown {
        unlink,
        flush: all().filter(|it| !is_spared(&it)).cloned().collect(),
        delete: all().filter(|it| !is_wanted(&it)).cloned().collect(),
        kept: all().filter(|it| is_wanted(&it)).cloned().collect(),
    })
}

/// What was done to a table.
#[derive(Debug)]
pub(super) struct Cleared<Rule> {
    /// What was carried out.
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
                "chains of kube-proxy in table {table} stay, rules of others lead to them: {chains}"
            ));
        }
        let forward = FORWARD;
        if self.forward_drops && delete.iter().any(|it| it == forward) {
            removal.notes.push(format!(
                "table {table}: the policy of FORWARD is DROP, and {forward} with what it accepted \
                 is gone: permit traffic to pods, or Services are not reached from outside this \
                 node"
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
