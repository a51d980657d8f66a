//! What the kernel lacks of what our rules need, and whom that hurts.

use std::collections::BTreeSet;

use sluice_model::{IpFamily, Protocol};
use sluice_plan::backend::RefusedObject;
use sluice_plan::delta::Delta;
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

    /// Of everything of which nothing is known.
    pub(crate) fn samples(&self, family: IpFamily) -> Vec<Sample> {
        let samples = self.unknown(family).map(|it| Sample::of(it, family));
        samples.flatten().collect()
    }

    fn unknown(&self, family: IpFamily) -> impl Iterator<Item = Extension> {
        let is_known = move |it: &Extension| {
            let key = (family, *it);
            self.has.contains(&key) || self.lacks.contains(&key)
        };
        NEEDED.into_iter().filter(move |it| !is_known(it))
    }

    /// Of what the kernel lacked and a delta needs: a module may be loaded by now.
    pub(crate) fn doubts(&self, delta: &Delta<Key, Object>, family: IpFamily) -> Vec<Sample> {
        let missing = self.missing(delta);
        let of_family = missing.filter(|(key, _)| key.place().family == family);
        let doubts: BTreeSet<Extension> = of_family.flat_map(|(_, missing)| missing).collect();
        let samples = doubts.into_iter().map(|it| Sample::of(it, family));
        samples.flatten().collect()
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

    /// Objects of a delta that need what the kernel lacks.
    pub(crate) fn refused(&self, delta: &Delta<Key, Object>) -> Vec<RefusedObject<Key>> {
        let refused = self.missing(delta).filter_map(|(key, missing)| {
            let (family, missing) = (key.place().family, missing.first()?);
            Some(RefusedObject {
                key: key.clone(),
                reason: format!(
                    "the kernel lacks {missing} of {family} (module {}), which {} need",
                    missing.module(),
                    cost(*missing)
                ),
            })
        });
        refused.collect()
    }

    /// What objects of a delta need and the kernel lacks.
    fn missing<'a>(
        &'a self,
        delta: &'a Delta<Key, Object>,
    ) -> impl Iterator<Item = (&'a Key, Vec<Extension>)> {
        let written = delta.add.iter().chain(&delta.replace);
        let written = written.filter(|_| !self.lacks.is_empty());
        written.filter_map(|(key, object)| {
            let family = key.place().family;
            let rules = rules(key, object).into_iter();
            let needed = rules.flat_map(|it| Extension::of(&it));
            let missing = needed.filter(|it| self.lacks.contains(&(family, *it)));
            let missing: Vec<Extension> = missing.collect();
            (!missing.is_empty()).then_some((key, missing))
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_plan::Planner;
    use sluice_plan::backend::{Scale, Scene};
    use sluice_plan::settings::Settings;
    use sluice_plan::testing::{endpoints, service};

    use super::*;
    use crate::accounts::Accounting;
    use crate::backend::render_port;

    /// Everything of these Services, as a first sync writes it.
    fn delta() -> Delta<Key, Object> {
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
        let ports = planner.plan().ports.values();
        Delta {
            add: ports
                .flat_map(|it| render_port(&scene, it, Accounting::Off))
                .collect(),
            ..Delta::default()
        }
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
        let delta = delta();
        let hurt = |lacks: &Lacks| -> BTreeSet<String> {
            let refused = lacks.refused(&delta);
            let objects = refused.iter().map(|it| {
                let mut all = delta.add.iter();
                let (key, object) = all.find(|(key, _)| *key == it.key).expect("it is refused");
                rules(key, object).iter().map(Rule::to_string).collect()
            });
            let texts: Vec<String> = objects.collect();
            let names = ["plain", "affine", "stream", "two"].into_iter();
            let names = names.filter(|it| texts.iter().any(|text| text.contains(it)));
            names.map(str::to_owned).collect()
        };
        let named = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
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
            let expected: BTreeSet<String> = named(names);
            assert_eq!(hurt(&without(missing)), expected, "{missing:?}");
        }
        let refused = without(&[Extension::Recent]).refused(&delta);
        assert_eq!(
            refused[0].reason,
            "the kernel lacks match recent of IPv4 (module xt_recent), which Services with session \
             affinity need"
        );
    }

    #[test]
    fn what_is_missing_is_asked_for_again_by_who_needs_it() {
        let mut lacks = without(&[Extension::Recent, Extension::Statistic]);
        let mut delta = delta();
        let asked = |lacks: &Lacks, delta: &Delta<Key, Object>| -> BTreeSet<Extension> {
            let samples = lacks.doubts(delta, IpFamily::V4).into_iter();
            samples.map(|it| it.extension).collect()
        };
        let both = [Extension::Recent, Extension::Statistic].into();
        assert_eq!(asked(&lacks, &delta), both);
        assert!(lacks.doubts(&delta, IpFamily::V6).is_empty());
        assert!(lacks.samples(IpFamily::V4).is_empty(), "no look asks");
        assert_eq!(lacks.samples(IpFamily::V6).len(), NEEDED.len());

        let refused = lacks.refused(&delta);
        let samples = lacks.doubts(&delta, IpFamily::V4);
        lacks.learn(IpFamily::V4, &samples, &Findings::default());
        assert_eq!(asked(&lacks, &delta), both, "nobody knows");
        let findings = Findings {
            is_complete: true,
            ..Findings::default()
        };
        lacks.learn(IpFamily::V4, &samples, &findings);
        assert!(asked(&lacks, &delta).is_empty() && lacks.refused(&delta).is_empty());

        let lacks = without(&[Extension::Recent, Extension::Statistic]);
        let is_refused = |key: &Key| refused.iter().any(|it| it.key == *key);
        delta.add.retain(|(key, _)| !is_refused(key));
        assert!(asked(&lacks, &delta).is_empty(), "nobody needs it");
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
