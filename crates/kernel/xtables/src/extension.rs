//! What rules ask of the kernel beside addresses and chains: modules of its own, each of which a
//! kernel may lack.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_model::{IpFamily, Protocol};

use crate::rule::{Match, Rule, Sense, States, Table, Target};

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
    /// `-m set`.
    Set,
    /// `-m ipvs`.
    Ipvs,
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
    /// `-j SET`.
    MapSet,
}

impl Extension {
    /// Those that a rule needs.
    pub fn of(rule: &Rule) -> BTreeSet<Self> {
        let Rule::Known { matches, target } = rule else {
            return BTreeSet::new();
        };
        let with_port = |it: &Match| matches!(it, Match::DestinationPort(_));
        let has_ports = matches!(target, Some(Target::Dnat(_))) || matches.iter().any(with_port);
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
            Match::Set { .. } => Self::Set,
            Match::Ipvs(_) => Self::Ipvs,
            Match::Nfacct(_) => Self::Nfacct,
            Match::Protocol(_)
            | Match::Source(..)
            | Match::Destination(..)
            | Match::DestinationPort(_)
            | Match::InInterface(..) => return None,
        })
    }

    fn of_target(target: &Target) -> Option<Self> {
        Some(match target {
            Target::Reject => Self::Reject,
            Target::Mark { .. } => Self::SetMark,
            Target::Dnat(_) => Self::Dnat,
            Target::Masquerade { .. } => Self::Masquerade,
            Target::MapMark { .. } => Self::MapSet,
            Target::Jump(_) | Target::Accept | Target::Drop | Target::Return => return None,
        })
    }

    /// A rule that needs it, and the table that takes it; `None` where that takes an ipset or
    /// an object of nfacct. `list` is a name that nobody uses.
    pub fn sample(self, family: IpFamily, list: &str) -> Option<(Table, Rule)> {
        let counted = |condition: Match| (Table::Filter, Rule::count([condition]));
        let done = |table: Table, target: Target| (table, Rule::always(target));
        Some(match self {
            Self::Comment => counted(Match::comment("what the kernel has")),
            Self::Ports(protocol) => {
                let matches = [Match::Protocol(protocol), Match::DestinationPort(1)];
                (Table::Filter, Rule::count(matches))
            }
            Self::Mark => counted(Match::Mark {
                sense: Sense::Is,
                value: 1,
                mask: 1,
            }),
            Self::AddrType => counted(Match::DestinationIsLocal(Sense::Is)),
            Self::Conntrack => counted(Match::State(Sense::Is, States::NEW)),
            Self::Statistic => counted(Match::one_in(2)),
            Self::Recent => counted(Match::Remember { list: list.into() }),
            Self::Ipvs => counted(Match::Ipvs(Sense::Is)),
            Self::Set | Self::MapSet | Self::Nfacct => return None,
            Self::Reject => done(Table::Filter, Target::Reject),
            Self::SetMark => done(Table::Filter, Target::Mark { clear: 1, flip: 1 }),
            Self::Dnat => {
                let to = SocketAddr::new(loopback(family), 1);
                let tcp = Match::Protocol(Protocol::Tcp);
                (Table::Nat, Rule::when([tcp], Target::Dnat(to)))
            }
            Self::Masquerade => done(Table::Nat, Target::Masquerade { random_fully: true }),
        })
    }

    /// The kernel's module.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Comment => "xt_comment",
            Self::Ports(Protocol::Tcp | Protocol::Udp) => "xt_tcpudp",
            Self::Ports(Protocol::Sctp) => "xt_sctp",
            Self::Mark | Self::SetMark => "xt_mark",
            Self::AddrType => "xt_addrtype",
            Self::Conntrack => "xt_conntrack",
            Self::Statistic => "xt_statistic",
            Self::Recent => "xt_recent",
            Self::Set | Self::MapSet => "xt_set",
            Self::Ipvs => "xt_ipvs",
            Self::Nfacct => "xt_nfacct",
            Self::Reject => "ipt_REJECT, ip6t_REJECT",
            Self::Dnat => "xt_nat",
            Self::Masquerade => "xt_MASQUERADE",
        }
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment => f.write_str("match comment"),
            Self::Ports(protocol) => write!(f, "match {protocol}"),
            Self::Mark => f.write_str("match mark"),
            Self::AddrType => f.write_str("match addrtype"),
            Self::Conntrack => f.write_str("match conntrack"),
            Self::Statistic => f.write_str("match statistic"),
            Self::Recent => f.write_str("match recent"),
            Self::Set => f.write_str("match set"),
            Self::Ipvs => f.write_str("match ipvs"),
            Self::Nfacct => f.write_str("match nfacct"),
            Self::Reject => f.write_str("target REJECT"),
            Self::SetMark => f.write_str("target MARK"),
            Self::Dnat => f.write_str("target DNAT"),
            Self::Masquerade => f.write_str("target MASQUERADE"),
            Self::MapSet => f.write_str("target SET"),
        }
    }
}

fn loopback(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => Ipv4Addr::LOCALHOST.into(),
        IpFamily::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_rule;

    #[test]
    fn a_sample_needs_what_it_stands_for() {
        use Extension::{
            AddrType, Comment, Conntrack, Dnat, Ipvs, Mark, Masquerade, Ports, Recent, Reject,
            SetMark, Statistic,
        };
        let ports = Protocol::ALL.map(Ports);
        let others = [
            Comment, Mark, AddrType, Conntrack, Statistic, Recent, Ipvs, Reject, SetMark, Dnat,
            Masquerade,
        ];
        for extension in ports.into_iter().chain(others) {
            for family in IpFamily::ALL {
                let (_, rule) = extension.sample(family, "LIST").expect("it has a sample");
                let needed = Extension::of(&rule);
                assert!(needed.contains(&extension), "{extension}: {rule}");
                assert!(needed.len() == 1 || extension == Dnat, "{needed:?}");
            }
        }
    }

    #[test]
    fn what_rules_need() {
        use Extension::{Comment, Dnat, Nfacct, Ports, Set, Statistic};
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
            ("-m set --match-set A dst -j B", &[Set]),
            ("-m nfacct --nfacct-name a -j B", &[Nfacct]),
            ("-m somebody --elses -j B", &[]),
        ] {
            let needed = Extension::of(&parse_rule(rule));
            assert_eq!(needed, expected.iter().copied().collect(), "{rule}");
        }
    }
}
