//! Packets that rules count for kube-proxy's two metrics, in objects of nfacct.
//!
//! Nobody needs them to be served: where the kernel has no such objects, or takes no rule that
//! mentions one, rules are written without, and nobody asks again until a restart. An error that
//! may pass changes no rule, and the next look at the kernel asks again.

use std::collections::BTreeSet;

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::nfacct;
use sluice_plane::kube_proxy::{ACCOUNTS, CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{Match, Rule};
use sluice_xtables::trial::Findings;
use tracing::{debug, info};

/// Whether rules count packets for kube-proxy's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// They mention no object.
    #[default]
    Off,
    /// They mention kube-proxy's objects, which are there.
    On,
}

/// What is known of the kernel's objects.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// `None` once it is known that rules cannot mention them.
    kernel: Option<nfacct::Accounts>,
    /// Whether the last look found or made all of them: without, no rule can be tried.
    are_there: bool,
    /// Families whose rules can.
    taken: BTreeSet<IpFamily>,
}

impl Accounts {
    /// Of the calling thread's network namespace. Nothing is made yet.
    pub(crate) fn open() -> Self {
        let mut accounts = Self {
            kernel: None,
            are_there: false,
            taken: BTreeSet::new(),
        };
        match nfacct::Accounts::open() {
            Ok(kernel) => accounts.kernel = Some(kernel),
            Err(error) => accounts.give_up(&error.to_string()),
        }
        accounts
    }

    /// Makes what is missing of the objects: a rule that mentions one that is not there is refused.
    pub(crate) fn ensure(&mut self) {
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        let made = ACCOUNTS.into_iter().try_for_each(|it| kernel.ensure(it));
        self.ensured(made);
    }

    fn ensured(&mut self, made: Result<(), RequestError>) {
        self.are_there = made.is_ok();
        match made {
            Ok(()) => {}
            Err(error) if nfacct::is_final(&error) => self.give_up(&error.to_string()),
            Err(error) => debug!(%error, "nfacct objects may be missing until the next look"),
        }
    }

    /// A rule of filter that tells whether rules of a family can mention them; `None` when that is
    /// known, or they may be missing. What is in use works.
    pub(crate) fn sample(&mut self, family: IpFamily, ruleset: &Ruleset) -> Option<Rule> {
        if self.kernel.is_none() || self.taken.contains(&family) {
            return None;
        }
        if ruleset.values().flatten().any(counts) {
            self.taken.insert(family);
            return None;
        }
        if !self.are_there {
            return None;
        }
        Some(Rule::count([count_invalid()]))
    }

    /// What became of the sample with this number.
    pub(crate) fn learn(&mut self, family: IpFamily, owner: usize, findings: &Findings) {
        let mut culprits = findings.culprits.iter();
        match culprits.find(|it| it.owner == owner) {
            Some(culprit) => self.give_up(&culprit.reason),
            None if findings.is_complete => {
                self.taken.insert(family);
            }
            None => {}
        }
    }

    /// For the rules of a family.
    pub(crate) fn accounting(&self, family: IpFamily) -> Accounting {
        match self.kernel.is_some() && self.taken.contains(&family) {
            true => Accounting::On,
            false => Accounting::Off,
        }
    }

    fn give_up(&mut self, reason: &str) {
        self.kernel = None;
        info!(
            reason,
            "no nfacct: the metrics of packets dropped as invalid and of packets to localhost \
             NodePorts stay as they are"
        );
    }
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

#[cfg(test)]
mod tests {
    use sluice_netlink::Errno;
    use sluice_xtables::parse::parse;
    use sluice_xtables::trial::Culprit;

    use super::*;

    const V4: IpFamily = IpFamily::V4;

    /// As when the objects are there.
    fn accounts() -> Accounts {
        let mut accounts = Accounts::open();
        assert!(accounts.kernel.is_some() && accounts.accounting(V4) == Accounting::Off);
        accounts.ensured(Ok(()));
        accounts
    }

    fn sample(accounts: &mut Accounts, family: IpFamily) -> Option<Rule> {
        accounts.sample(family, &Ruleset::new())
    }

    #[test]
    fn a_refusal_is_for_good_and_for_both_families() {
        let mut accounts = accounts();
        accounts.taken.insert(IpFamily::V6);
        assert!(sample(&mut accounts, V4).is_some());
        let findings = |owner| Findings {
            culprits: vec![Culprit {
                owner,
                reason: "no such match".into(),
            }],
            is_complete: true,
        };
        accounts.learn(V4, 7, &findings(7));
        for family in IpFamily::ALL {
            assert_eq!(sample(&mut accounts, family), None);
            assert_eq!(accounts.accounting(family), Accounting::Off);
        }
        // Nothing is asked of the kernel any more.
        accounts.ensure();
        assert!(accounts.kernel.is_none());
    }

    #[test]
    fn what_is_not_known_is_asked_again() {
        let mut accounts = accounts();
        accounts.learn(V4, 7, &Findings::default());
        assert!(sample(&mut accounts, V4).is_some());
        let findings = Findings {
            is_complete: true,
            ..Findings::default()
        };
        accounts.learn(V4, 7, &findings);
        assert_eq!(sample(&mut accounts, V4), None);
        assert_eq!(accounts.accounting(V4), Accounting::On);
        assert_eq!(accounts.accounting(IpFamily::V6), Accounting::Off);
    }

    fn refused(errno: Errno) -> Result<(), RequestError> {
        Err(RequestError::Refused {
            operation: "create nfacct object",
            object: CT_STATE_INVALID_DROPPED.to_owned(),
            errno,
            message: None,
        })
    }

    /// A rule that mentions a missing object would be refused, which says nothing of the match.
    #[test]
    fn nothing_is_tried_while_objects_may_be_missing() {
        let mut accounts = accounts();
        accounts.ensured(refused(Errno::ENOMEM));
        assert_eq!(sample(&mut accounts, V4), None);
        assert_eq!(accounts.accounting(V4), Accounting::Off);
        accounts.ensured(Ok(()));
        assert!(sample(&mut accounts, V4).is_some());
    }

    #[test]
    fn what_may_pass_changes_no_rule_and_what_is_final_does() {
        let mut accounts = accounts();
        accounts.taken.insert(V4);
        accounts.ensured(refused(Errno::ENOMEM));
        assert_eq!(accounts.accounting(V4), Accounting::On);
        accounts.ensured(refused(Errno::EPERM));
        assert_eq!(accounts.accounting(V4), Accounting::Off);
    }

    #[test]
    fn what_is_in_use_works() {
        let mut accounts = accounts();
        let rules = parse("*filter\n-A X -m nfacct --nfacct-name  theirs -j DROP\nCOMMIT\n");
        assert_eq!(accounts.sample(V4, &rules), None);
        assert_eq!(accounts.accounting(V4), Accounting::On);
    }
}
