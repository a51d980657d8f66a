//! What the kernel lacks of what our rules need, and whom that hurts.

use std::collections::BTreeSet;

use sluice_model::{IpFamily, Protocol};
use sluice_reconcile::Refusal;
use sluice_xtables::extension::Extension;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{Rule, Table};
use sluice_xtables::trial::{CHAIN, Candidate, Findings};
use tracing::{info, warn};

use crate::object::{Key, Object, rules};

/// Everything that our rules need.
const NEEDED: [Extension; 13] = [
    Extension::Comment,
    Extension::Ports(Protocol::Tcp),
    Extension::Ports(Protocol::Udp),
    Extension::Ports(Protocol::Sctp),
    Extension::Mark,
    Extension::AddrType,
    Extension::Conntrack,
    Extension::Statistic,
    Extension::Recent,
    Extension::Reject,
    Extension::SetMark,
    Extension::Dnat,
    Extension::Masquerade,
];

/// What a Service loses that cannot have this.
fn cost(extension: Extension) -> &'static str {
    match extension {
        Extension::Ports(Protocol::Tcp) => "TCP Services",
        Extension::Ports(Protocol::Udp) => "UDP Services",
        Extension::Ports(Protocol::Sctp) => "SCTP Services",
        Extension::Statistic => "Services with more than one endpoint",
        Extension::Recent => "Services with session affinity",
        Extension::Reject => "Services with a ClusterIP, which refuse other ports",
        _ => "any Service",
    }
}

/// A rule that tells whether the kernel has something.
#[derive(Debug)]
pub(crate) struct Sample {
    extension: Extension,
    table: Table,
    rule: Rule,
}

impl Sample {
    /// A name that no Service has is the chain's.
    fn of(extension: Extension, family: IpFamily) -> Option<Self> {
        let (table, rule) = extension.sample(family, CHAIN)?;
        Some(Self {
            extension,
            table,
            rule,
        })
    }

    /// To be tried, by its number among all samples.
    pub(crate) fn candidate((number, sample): (usize, &Self)) -> Candidate {
        Candidate {
            owner: number,
            table: sample.table,
            rule: sample.rule.clone(),
        }
    }
}

/// What is known of the kernel.
#[derive(Debug, Default)]
pub(crate) struct Lacks {
    has: BTreeSet<(IpFamily, Extension)>,
    lacks: BTreeSet<(IpFamily, Extension)>,
}

impl Lacks {
    /// What is in use, the kernel has.
    pub(crate) fn see(&mut self, family: IpFamily, ruleset: &Ruleset) {
        if self.unknown(family).next().is_none() {
            return;
        }
        let rules = ruleset.values().flatten();
        let seen = rules.flat_map(Extension::of);
        self.has.extend(seen.map(|it| (family, it)));
    }

    /// Of everything that the kernel is not known to have.
    pub(crate) fn samples(&self, family: IpFamily) -> Vec<Sample> {
        let samples = self.unknown(family).map(|it| Sample::of(it, family));
        samples.flatten().collect()
    }

    fn unknown(&self, family: IpFamily) -> impl Iterator<Item = Extension> {
        let is_known = move |it: &Extension| self.has.contains(&(family, *it));
        NEEDED.into_iter().filter(move |it| !is_known(it))
    }

    /// What became of the samples.
    pub(crate) fn learn(&mut self, family: IpFamily, samples: &[Sample], findings: &Findings) {
        for (number, sample) in samples.iter().enumerate() {
            let extension = sample.extension;
            let key = (family, extension);
            let module = extension.module();
            let mut culprits = findings.culprits.iter();
            if let Some(culprit) = culprits.find(|it| it.owner == number) {
                let reason = &culprit.reason;
                if self.lacks.insert(key) {
                    let cost = cost(extension);
                    warn!(%family, %extension, module, cost, reason, "the kernel lacks a part of iptables");
                }
            } else if findings.is_complete {
                self.has.insert(key);
                if self.lacks.remove(&key) {
                    info!(%family, %extension, module, "the kernel has it now");
                }
            }
        }
    }

    /// How much the kernel lacks.
    pub(crate) fn len(&self) -> usize {
        self.lacks.len()
    }

    /// What these objects need and the kernel lacks; `None` when it lacks nothing of it.
    pub(crate) fn refusal<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a (Key, Object)>,
    ) -> Option<Refusal> {
        let mut objects = objects.into_iter();
        objects.find_map(|(key, object)| {
            let family = key.place().family;
            let rules = rules(key, object).into_iter();
            let mut needed = rules.flat_map(|it| Extension::of(&it));
            let missing = needed.find(|it| self.lacks.contains(&(family, *it)))?;
            Some(Refusal {
                reason: format!(
                    "the kernel lacks {missing} of {family} (module {}), which {} need",
                    missing.module(),
                    cost(missing)
                ),
                is_served: false,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_plan::Planner;
    use sluice_plan::settings::Settings;
    use sluice_plan::testing::{endpoints, service};
    use sluice_plane::{Scale, Scene};

    use super::*;
    use crate::accounts::Accounting;
    use crate::backend::render_port;

    /// Everything of these Services, as a first sync writes it, by Service.
    fn objects() -> Vec<(String, Vec<(Key, Object)>)> {
        let mut planner = Planner::new(Settings::for_node("node-a"));
        let services = [
            ("default/plain 10.96.0.1 :80", "10.244.0.1:80@"),
            ("default/affine 10.96.0.2 :80 affinity=60", "10.244.0.2:80@"),
            ("default/stream 10.96.0.3 :80/sctp", "10.244.0.3:80@"),
            ("default/two 10.96.0.4 :80", "10.244.0.4:80@ 10.244.0.5:80@"),
        ];
        for (text, pool) in services {
            planner.absorb(service(text));
            let name = text.split(' ').next().unwrap_or_default();
            endpoints(name, pool)
                .into_iter()
                .for_each(|it| planner.absorb(it));
        }
        planner.replan();
        let scene = Scene {
            node: planner.plan().node.clone(),
            scale: Scale::Small,
        };
        let ports = planner.plan().ports.iter();
        let rendered = ports.map(|(key, it)| {
            let name = key.name.service.name.to_string();
            (name, render_port(&scene, it, Accounting::Off))
        });
        rendered.collect()
    }

    /// Of IPv4, without these.
    fn without(missing: &[Extension]) -> Lacks {
        let mut lacks = Lacks::default();
        let samples = lacks.samples(IpFamily::V4);
        assert_eq!(samples.len(), NEEDED.len());
        let refused = samples.iter().enumerate();
        let refused = refused.filter(|(_, it)| missing.contains(&it.extension));
        let refused: Vec<_> = refused
            .map(|(owner, _)| sluice_xtables::trial::Culprit {
                owner,
                reason: "no".into(),
            })
            .collect();
        let findings = Findings {
            culprits: refused,
            is_complete: true,
        };
        lacks.learn(IpFamily::V4, &samples, &findings);
        lacks
    }

    #[test]
    fn only_who_needs_what_is_missing_is_refused() {
        let all = objects();
        let hurt = |lacks: &Lacks| -> BTreeSet<&str> {
            let refused = all.iter().filter(|(_, it)| lacks.refusal(it).is_some());
            refused.map(|(name, _)| name.as_str()).collect()
        };
        for (missing, names) in [
            (&[][..], &[][..]),
            (&[Extension::Recent], &["affine"]),
            (&[Extension::Ports(Protocol::Sctp)], &["stream"]),
            (&[Extension::Statistic], &["two"]),
            (
                &[Extension::Statistic, Extension::Recent],
                &["affine", "two"],
            ),
            (&[Extension::Reject], &["plain", "affine", "stream", "two"]),
        ] {
            let expected: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(hurt(&without(missing)), expected, "{missing:?}");
        }
        let lacks = without(&[Extension::Recent]);
        let refusal = all.iter().find_map(|(_, it)| lacks.refusal(it));
        assert_eq!(
            refusal.expect("one needs it").reason,
            "the kernel lacks match recent of IPv4 (module xt_recent), which Services with session \
             affinity need"
        );
    }

    #[test]
    fn what_is_missing_is_asked_for_by_each_look() {
        let mut lacks = without(&[Extension::Recent, Extension::Statistic]);
        let samples = lacks.samples(IpFamily::V4);
        let asked: BTreeSet<Extension> = samples.iter().map(|it| it.extension).collect();
        assert_eq!(asked, [Extension::Recent, Extension::Statistic].into());
        lacks.learn(IpFamily::V4, &samples, &Findings::default());
        assert_eq!(lacks.len(), 2, "nobody knows");
        let findings = Findings {
            is_complete: true,
            ..Findings::default()
        };
        lacks.learn(IpFamily::V4, &samples, &findings);
        assert_eq!(lacks.len(), 0);
    }

    #[test]
    fn what_is_in_use_need_not_be_asked_for() {
        let mut lacks = Lacks::default();
        let text = "*nat\n-A X -m comment --comment x -m recent --set --name A --mask \
                    255.255.255.255 --rsource -j RETURN\nCOMMIT\n";
        lacks.see(IpFamily::V4, &sluice_xtables::parse::parse(text));
        let samples = lacks.samples(IpFamily::V4);
        assert_eq!(samples.len(), NEEDED.len() - 2);
    }
}
