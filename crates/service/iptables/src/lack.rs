//! Extensions that our rules need and the kernel lacks, and which Services need them.

use std::collections::BTreeMap;

use sluice_model::{IpFamily, Protocol};
use sluice_reconcile::Refusal;
use sluice_xtables::extension::Extension;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::probe;
use sluice_xtables::programs::RestoreError;
use sluice_xtables::rule::{Rule, Table};
use sluice_xtables::script::Script;
use tracing::{info, warn};

use crate::accounts;
use crate::object::{Key, Object, rules};

/// The extensions that our rules use. Without nfacct they count no packets; without another one some
/// Services cannot be served.
const USED: [Extension; 14] = [
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
    Extension::Nfacct,
];

/// The Services or metrics that need an extension.
fn cost(extension: Extension) -> &'static str {
    match extension {
        Extension::Ports(Protocol::Tcp) => "TCP Services",
        Extension::Ports(Protocol::Udp) => "UDP Services",
        Extension::Ports(Protocol::Sctp) => "SCTP Services",
        Extension::Statistic => "Services with more than one endpoint",
        Extension::Recent => "Services with session affinity",
        Extension::Reject => "Services with a ClusterIP, which refuse other ports",
        Extension::Nfacct => {
            "the metrics of packets dropped as invalid and of packets to localhost NodePorts"
        }
        _ => "any Service",
    }
}

/// A rule that the kernel accepts if it has an extension, and its table.
fn sample(extension: Extension, family: IpFamily) -> Option<(Table, Rule)> {
    match extension {
        Extension::Nfacct => Some((Table::Filter, Rule::count([accounts::count_invalid()]))),
        extension => extension.sample(family),
    }
}

/// Whether the kernel has each extension that was probed.
#[derive(Debug, Default)]
pub(crate) struct Lacks(BTreeMap<(IpFamily, Extension), bool>);

impl Lacks {
    /// The kernel has the extensions of its rules. A probe would cost a legacy kernel two writes of its
    /// tables, of 3 s each with 10,000 Services.
    pub(crate) fn see(&mut self, family: IpFamily, ruleset: &Ruleset) {
        if USED.iter().all(|it| self.has(family, *it)) {
            return;
        }
        let rules = ruleset.values().flatten();
        let seen = rules.flat_map(Extension::of);
        self.0.extend(seen.map(|it| ((family, it), true)));
    }

    /// The next probe asks for this extension.
    pub(crate) fn forget(&mut self, family: IpFamily, extension: Extension) {
        self.0.remove(&(family, extension));
    }

    /// Asks for every extension that the kernel is not known to have. `restore` runs the program. Returns
    /// whether the kernel has one that it lacked before.
    ///
    /// # Errors
    ///
    /// The program failed.
    pub(crate) fn probe(
        &mut self,
        family: IpFamily,
        restore: impl FnMut(&Script<'_>) -> Result<(), RestoreError>,
    ) -> Result<bool, RestoreError> {
        let unknown = USED.into_iter().filter(|it| !self.has(family, *it));
        let unknown = unknown.filter_map(|it| Some((it, sample(it, family)?)));
        let (unknown, samples): (Vec<Extension>, Vec<(Table, Rule)>) = unknown.unzip();
        let refused = probe::refused(&samples, restore)?;
        let mut any_new = false;
        for (place, extension) in unknown.into_iter().enumerate() {
            let reason = refused.get(&place);
            let before = self.0.insert((family, extension), reason.is_none());
            let module = extension.module();
            match (before, reason) {
                (Some(false), None) => {
                    any_new = true;
                    info!(%family, %extension, module, "the kernel has it now");
                }
                (None | Some(true), Some(reason)) => {
                    let cost = cost(extension);
                    match extension {
                        Extension::Nfacct => info!(%family, module, cost, reason, "no nfacct"),
                        _ => warn!(
                            %family, %extension, module, cost, reason,
                            "the kernel lacks a part of iptables"
                        ),
                    }
                }
                _ => {}
            }
        }
        Ok(any_new)
    }

    /// Whether the kernel is known to have an extension.
    pub(crate) fn has(&self, family: IpFamily, extension: Extension) -> bool {
        self.0.get(&(family, extension)) == Some(&true)
    }

    /// Whether the kernel lacks an extension that Services need.
    pub(crate) fn any_for_services(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|((_, extension), has)| !has && *extension != Extension::Nfacct)
    }

    /// The refusal for an extension that these objects need and the kernel lacks; `None` if it has all.
    pub(crate) fn refusal<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a (Key, Object)>,
    ) -> Option<Refusal> {
        let mut objects = objects.into_iter();
        objects.find_map(|(key, object)| {
            let family = key.place().family;
            let rules = rules(key, object).into_iter();
            let mut needed = rules.flat_map(|it| Extension::of(&it));
            let missing = needed.find(|it| self.0.get(&(family, *it)) == Some(&false))?;
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
    use std::collections::BTreeSet;

    use sluice_plan::Planner;
    use sluice_plan::settings::Settings;
    use sluice_plan::testing::{endpoints, service};
    use sluice_plane::{Scale, Scene};
    use sluice_xtables::parse::parse_rule;

    use super::*;
    use crate::accounts::Accounting;
    use crate::render;

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
            (name, render::port(&scene, it, Accounting::Off))
        });
        rendered.collect()
    }

    /// A restore program of a kernel that lacks these.
    fn kernel<'a>(
        missing: &'a [Extension],
    ) -> impl Fn(&Script<'_>) -> Result<(), RestoreError> + 'a {
        move |script| {
            let text = script.text();
            let rules = text
                .lines()
                .filter_map(|it| it.strip_prefix("-A SLUICE-TRIAL "));
            let mut needed = rules.flat_map(|it| Extension::of(&parse_rule(it)));
            if !needed.any(|it| missing.contains(&it)) {
                Ok(())
            } else {
                Err(RestoreError::Refused {
                    family: IpFamily::V4,
                    line: 1,
                    text: String::new(),
                    reason: "no".to_owned(),
                })
            }
        }
    }

    /// Of IPv4, without these.
    fn without(missing: &[Extension]) -> Lacks {
        let mut lacks = Lacks::default();
        assert!(!lacks.probe(IpFamily::V4, kernel(missing)).unwrap());
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
    fn what_is_missing_is_asked_for_again() {
        let mut lacks = without(&[Extension::Recent, Extension::Nfacct]);
        assert!(lacks.any_for_services());
        let mut asked = Vec::new();
        let found = lacks.probe(IpFamily::V4, |script| {
            let text = script.text();
            let rules = text.lines().filter(|it| it.starts_with("-A"));
            asked.extend(rules.map(str::to_owned));
            kernel(&[Extension::Nfacct])(script)
        });
        assert!(found.unwrap(), "recent is there now");
        let recent = "-A SLUICE-TRIAL -m recent --name SLUICE-TRIAL --set";
        let nfacct = "-A SLUICE-TRIAL -m nfacct --nfacct-name ct_state_invalid_dropped_pkts";
        assert_eq!(asked, [recent, nfacct, recent, nfacct]);
        assert!(!lacks.any_for_services(), "nobody needs nfacct");
        assert!(!lacks.has(IpFamily::V4, Extension::Nfacct));
        assert!(lacks.probe(IpFamily::V4, kernel(&[])).unwrap());
        assert!(lacks.has(IpFamily::V4, Extension::Nfacct));
    }

    #[test]
    fn what_is_in_use_is_not_asked_for() {
        let mut lacks = without(&[Extension::Recent]);
        let text = "*nat\n-A X -m comment --comment x -m recent --set --name A --mask \
                    255.255.255.255 --rsource -j RETURN\nCOMMIT\n";
        lacks.see(IpFamily::V4, &sluice_xtables::parse::parse(text));
        assert!(!lacks.any_for_services());
        let nobody = |_: &Script<'_>| -> Result<(), RestoreError> { panic!("asked") };
        assert!(!lacks.probe(IpFamily::V4, nobody).unwrap());
    }
}
