//! Rules that kube-proxy's iptables and ipvs modes share.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_model::LocalTraffic;
use sluice_xtables::rule::{Match, Rule, Sense, States, Target};

/// Loopback addresses of a family.
pub fn loopback(family: IpFamily) -> IpNet {
    match family {
        IpFamily::V4 => IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        IpFamily::V6 => IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
    }
}

/// Matches packets of pods of this node.
pub fn from_pods(pods: &LocalTraffic, sense: Sense) -> Match {
    match pods {
        LocalTraffic::From(net) => Match::Source(sense, *net),
        LocalTraffic::Interface(name) => Match::InInterface(sense, name.clone()),
        LocalTraffic::InterfacePrefix(prefix) => {
            Match::InInterface(sense, format!("{prefix}+").into())
        }
    }
}

/// The rule of `KUBE-MARK-MASQ`: sets the masquerade mark.
pub fn mark_masquerade(mark: u32) -> Rule {
    Rule::always(Target::Mark {
        clear: mark,
        flip: mark,
    })
}

/// The last rules of `KUBE-FORWARD`: accept packets with the masquerade mark, and known connections.
pub fn forward(mark: u32) -> [Rule; 2] {
    let marked = [
        Match::comment("kubernetes forwarding rules"),
        is_marked(Sense::Is, mark),
    ];
    let known = [
        Match::comment("kubernetes forwarding conntrack rule"),
        Match::State(Sense::Is, States::RELATED.or(States::ESTABLISHED)),
    ];
    [
        Rule::when(marked, Target::Accept),
        Rule::when(known, Target::Accept),
    ]
}

/// The last rules of `KUBE-POSTROUTING`: masquerade packets with the mark. The mark is removed first, so
/// that a packet that passes twice is masqueraded once.
pub fn masquerade(mark: u32) -> [Rule; 3] {
    let unmark = Target::Mark {
        clear: 0,
        flip: mark,
    };
    let comment = Match::comment("kubernetes service traffic requiring SNAT");
    [
        Rule::when([is_marked(Sense::Not, mark)], Target::Return),
        Rule::always(unmark),
        Rule::when([comment], Target::Masquerade { random_fully: true }),
    ]
}

fn is_marked(sense: Sense, mark: u32) -> Match {
    Match::Mark {
        sense,
        value: mark,
        mask: mark,
    }
}
