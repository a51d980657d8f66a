//! Matches and targets that are modules of the kernel, each of which a kernel may lack.

use std::collections::BTreeSet;
use std::fmt;

use sluice_model::{IpFamily, Protocol};

use crate::parse::parse_rule;
use crate::rule::{Match, Rule, Table, Target};
use crate::text::uses_ports;

/// A match or a target of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extension {
    /// `-m comment`.
    Comment,
    /// Ports of this protocol: `-m tcp`, `-m udp`, `-m sctp`.
    Ports(Protocol),
    /// `-m mark`.
    Mark,
    /// `-m addrtype`.
    AddrType,
    /// `-m conntrack`.
    Conntrack,
    /// `-m statistic`.
    Statistic,
    /// `-m recent`.
    Recent,
    /// `-m nfacct`.
    Nfacct,
    /// `-j REJECT`.
    Reject,
    /// `-j MARK`.
    SetMark,
    /// `-j DNAT`.
    Dnat,
    /// `-j MASQUERADE`.
    Masquerade,
}

impl Extension {
    /// The extensions that a rule needs.
    pub fn of(rule: &Rule) -> BTreeSet<Self> {
        let Rule::Known { matches, target } = rule else {
            return BTreeSet::new();
        };
        let has_ports = uses_ports(matches, target.as_ref());
        let mut needed: BTreeSet<Self> = matches
            .iter()
            .filter_map(|it| Self::of_match(it, has_ports))
            .collect();
        needed.extend(target.as_ref().and_then(Self::of_target));
        needed
    }

    fn of_match(condition: &Match, has_ports: bool) -> Option<Self> {
        Some(match condition {
            Match::Comment(_) => Self::Comment,
            Match::Protocol(protocol) if has_ports => Self::Ports(*protocol),
            Match::Mark { .. } => Self::Mark,
            Match::SourceIsLocal(_) | Match::DestinationIsLocal(_) => Self::AddrType,
            Match::State(..) => Self::Conntrack,
            Match::Random(_) => Self::Statistic,
            Match::SeenWithin { .. } | Match::Remember { .. } => Self::Recent,
            Match::Nfacct(_) => Self::Nfacct,
            Match::Protocol(_)
            | Match::Source(..)
            | Match::Destination(..)
            | Match::DestinationPort(_)
            | Match::InInterface(..)
            // The rules that have these are not probed.
            | Match::Set { .. }
            | Match::Ipvs(_) => return None,
        })
    }

    fn of_target(target: &Target) -> Option<Self> {
        Some(match target {
            Target::Reject => Self::Reject,
            Target::Mark { .. } => Self::SetMark,
            Target::Dnat(_) => Self::Dnat,
            Target::Masquerade { .. } => Self::Masquerade,
            Target::Jump(_)
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::MapMark { .. } => return None,
        })
    }

    /// A rule that needs it, and a table for the rule; `None` for [`Nfacct`](Self::Nfacct), which needs an
    /// object of the kernel.
    pub fn sample(self, family: IpFamily) -> Option<(Table, Rule)> {
        let text = match (self, family) {
            (Self::Dnat, IpFamily::V4) => "-p tcp -j DNAT --to-destination 127.0.0.1:1",
            (Self::Dnat, IpFamily::V6) => "-p tcp -j DNAT --to-destination [::1]:1",
            _ => self.row().2?,
        };
        let table = match self {
            Self::Dnat | Self::Masquerade => Table::Nat,
            _ => Table::Filter,
        };
        Some((table, parse_rule(text)))
    }

    /// The kernel's module.
    pub const fn module(self) -> &'static str {
        self.row().1
    }

    /// The name, the kernel's module, and the text of a rule that needs nothing else.
    const fn row(self) -> (&'static str, &'static str, Option<&'static str>) {
        let (name, module, sample) = match self {
            Self::Comment => ("match comment", "xt_comment", "-m comment --comment x"),
            Self::Ports(Protocol::Tcp) => ("match tcp", "xt_tcpudp", "-m tcp -p tcp --dport 1"),
            Self::Ports(Protocol::Udp) => ("match udp", "xt_tcpudp", "-m udp -p udp --dport 1"),
            Self::Ports(Protocol::Sctp) => ("match sctp", "xt_sctp", "-m sctp -p sctp --dport 1"),
            Self::Mark => ("match mark", "xt_mark", "-m mark --mark 0x1/0x1"),
            Self::AddrType => (
                "match addrtype",
                "xt_addrtype",
                "-m addrtype --dst-type LOCAL",
            ),
            Self::Conntrack => (
                "match conntrack",
                "xt_conntrack",
                "-m conntrack --ctstate NEW",
            ),
            Self::Statistic => (
                "match statistic",
                "xt_statistic",
                "-m statistic --mode random --probability 0.5",
            ),
            // No other rule has a list of this name.
            Self::Recent => (
                "match recent",
                "xt_recent",
                "-m recent --name SLUICE-TRIAL --set",
            ),
            Self::Reject => ("target REJECT", "ipt_REJECT, ip6t_REJECT", "-j REJECT"),
            Self::SetMark => ("target MARK", "xt_mark", "-j MARK --or-mark 0x1"),
            Self::Masquerade => (
                "target MASQUERADE",
                "xt_MASQUERADE",
                "-j MASQUERADE --random-fully",
            ),
            Self::Dnat => return ("target DNAT", "xt_nat", None),
            Self::Nfacct => return ("match nfacct", "xt_nfacct", None),
        };
        (name, module, Some(sample))
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_needs_its_extension() {
        use Extension::{
            AddrType, Comment, Conntrack, Dnat, Mark, Masquerade, Ports, Recent, Reject, SetMark,
            Statistic,
        };
        let ports = Protocol::ALL.map(Ports);
        let others = [
            Comment, Mark, AddrType, Conntrack, Statistic, Recent, Reject, SetMark, Dnat,
            Masquerade,
        ];
        for extension in ports.into_iter().chain(others) {
            for family in IpFamily::ALL {
                let (_, rule) = extension.sample(family).expect("it has a sample");
                let needed = Extension::of(&rule);
                assert!(needed.contains(&extension), "{extension}: {rule}");
                assert!(needed.len() == 1 || extension == Dnat, "{needed:?}");
            }
        }
    }

    #[test]
    fn what_rules_need() {
        use Extension::{Comment, Dnat, Nfacct, Ports, Statistic};
        let sctp = Ports(Protocol::Sctp);
        for (rule, expected) in [
            ("-p sctp -j A", &[][..]),
            ("-s 10.0.0.0/8 -i eth0 -j RETURN", &[]),
            ("-p sctp -m sctp --dport 7 -j A", &[sctp]),
            (
                "-p sctp -m sctp -j DNAT --to-destination 10.0.0.1:7",
                &[sctp, Dnat],
            ),
            (
                "-m comment --comment x -m statistic --mode random --probability 0.5 -j A",
                &[Comment, Statistic],
            ),
            ("-m nfacct --nfacct-name a -j B", &[Nfacct]),
            ("-m somebody --elses -j B", &[]),
        ] {
            let needed = Extension::of(&parse_rule(rule));
            assert_eq!(needed, expected.iter().copied().collect(), "{rule}");
        }
    }
}
