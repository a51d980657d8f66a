//! Random rules.

use ipnet::IpNet;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use sluice_model::{IpFamily, Protocol};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, Side, States, Target};

/// Chains that a rule may lead to.
pub(crate) fn chains() -> Vec<ChainName> {
    [
        "KUBE-SVC-XPGD46QRK7WJZT7O",
        "KUBE-SEP-SXIVWICOYRO3J4NJ",
        "X",
    ]
    .map(ChainName::new)
    .into()
}

/// The object of nfacct that rules mention.
pub(crate) const ACCOUNT: &str = "some_packets";

/// Rules that the kernel of a test takes in table nat if it has [`ACCOUNT`], without ipsets and
/// IPVS.
pub(crate) fn arbitrary_rule(family: IpFamily) -> impl Strategy<Value = Rule> {
    let target = prop::option::of(target(family));
    (protocol_and_target(), conditions(family), target).prop_flat_map(
        move |(protocol, conditions, target)| {
            let protocol = match target {
                Some(Target::Dnat(_)) => vec![Match::Protocol(Protocol::Tcp)],
                _ => protocol,
            };
            let shuffled = Just(conditions).prop_shuffle();
            (shuffled, any::<bool>()).prop_map(move |(conditions, is_first)| {
                // A port comes after its protocol.
                let all = if is_first {
                    [protocol.clone(), conditions].concat()
                } else {
                    [conditions, protocol.clone()].concat()
                };
                match &target {
                    Some(target) => Rule::when(all, target.clone()),
                    None => Rule::count(all),
                }
            })
        },
    )
}

fn protocol_and_target() -> impl Strategy<Value = Vec<Match>> {
    prop_oneof![
        Just(vec![]),
        protocol().prop_map(|it| vec![Match::Protocol(it)]),
        (protocol(), 1..=u16::MAX)
            .prop_map(|(it, port)| vec![Match::Protocol(it), Match::DestinationPort(port)]),
    ]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    select(Protocol::ALL.to_vec())
}

fn sense() -> impl Strategy<Value = Sense> {
    select(vec![Sense::Is, Sense::Not])
}

/// Each kind of condition at most once.
fn conditions(family: IpFamily) -> impl Strategy<Value = Vec<Match>> {
    let all: Vec<BoxedStrategy<Match>> = vec![
        any::<String>().prop_map(|it| Match::comment(&it)).boxed(),
        "[ -~]{0,300}".prop_map(|it| Match::comment(&it)).boxed(),
        (sense(), net(family))
            .prop_map(|(sense, net)| Match::Source(sense, net))
            .boxed(),
        (sense(), net(family))
            .prop_map(|(sense, net)| Match::Destination(sense, net))
            .boxed(),
        (sense(), "[a-z][a-z0-9]{0,8}[+]?")
            .prop_map(|(sense, name)| Match::InInterface(sense, name.into()))
            .boxed(),
        (sense(), any::<u32>(), any::<u32>())
            .prop_map(|(sense, value, mask)| {
                let mask = mask | 1;
                let value = value & mask;
                Match::Mark { sense, value, mask }
            })
            .boxed(),
        sense().prop_map(Match::SourceIsLocal).boxed(),
        sense().prop_map(Match::DestinationIsLocal).boxed(),
        (sense(), states())
            .prop_map(|(sense, states)| Match::State(sense, states))
            .boxed(),
        prop_oneof![
            (0..=1_u32 << 31).prop_map(Match::Random),
            (1..5000_u32).prop_map(Match::one_in),
        ]
        .boxed(),
        ("[A-Z-]{1,20}", 1..100_000_u32)
            .prop_map(|(list, seconds)| Match::SeenWithin {
                list: list.into(),
                seconds,
            })
            .boxed(),
        "[A-Z-]{1,20}"
            .prop_map(|list| Match::Remember { list: list.into() })
            .boxed(),
        Just(Match::Nfacct(ACCOUNT.into())).boxed(),
    ];
    let count = all.len();
    (all, subsequence((0..count).collect::<Vec<_>>(), 0..5)).prop_map(|(all, chosen)| {
        let mut kept: Vec<Match> = Vec::new();
        for it in chosen {
            let is_second_comment = matches!(all[it], Match::Comment(_))
                && kept.iter().any(|it| matches!(it, Match::Comment(_)));
            if !is_second_comment {
                kept.push(all[it].clone());
            }
        }
        kept
    })
}

fn states() -> impl Strategy<Value = States> {
    let all = [
        States::INVALID,
        States::NEW,
        States::ESTABLISHED,
        States::RELATED,
        States::DNAT,
    ];
    subsequence(all.to_vec(), 1..=5)
        .prop_map(|it| it.into_iter().fold(States::default(), States::or))
}

fn net(family: IpFamily) -> BoxedStrategy<IpNet> {
    match family {
        IpFamily::V4 => (any::<[u8; 4]>(), 1..=32_u8)
            .prop_map(|(addr, length)| IpNet::new(addr.into(), length).unwrap())
            .boxed(),
        IpFamily::V6 => (any::<[u8; 16]>(), 1..=128_u8)
            .prop_map(|(addr, length)| IpNet::new(addr.into(), length).unwrap())
            .boxed(),
    }
}

fn target(family: IpFamily) -> impl Strategy<Value = Target> {
    let addr: BoxedStrategy<std::net::IpAddr> = match family {
        // The broadcast address is none that can be translated to.
        IpFamily::V4 => any::<[u8; 4]>().prop_map(Into::into).boxed(),
        IpFamily::V6 => any::<[u8; 16]>().prop_map(Into::into).boxed(),
    };
    prop_oneof![
        select(chains()).prop_map(Target::Jump),
        Just(Target::Accept),
        Just(Target::Return),
        (any::<u32>(), any::<u32>()).prop_map(|(clear, flip)| Target::Mark { clear, flip }),
        any::<u32>().prop_map(|it| Target::Mark {
            clear: it,
            flip: it
        }),
        any::<u32>().prop_map(|flip| Target::Mark { clear: 0, flip }),
        (addr, 1..=u16::MAX).prop_map(|(addr, port)| Target::Dnat((addr, port).into())),
        any::<bool>().prop_map(|random_fully| Target::Masquerade { random_fully }),
    ]
}

/// Rules of every kind, most of which no test kernel would take.
pub(crate) fn any_rule() -> impl Strategy<Value = Rule> {
    let lists: Vec<&'static [Side]> = vec![
        &[Side::Dst],
        &[Side::Dst, Side::Dst],
        &[Side::Dst, Side::Dst, Side::Src],
    ];
    let set =
        (sense(), "[A-Z0-9-]{1,31}", select(lists.clone())).prop_map(|(sense, set, fields)| {
            let set = set.into();
            Match::Set { sense, set, fields }
        });
    let more = prop::collection::vec(prop_oneof![set, sense().prop_map(Match::Ipvs)], 0..2);
    let map = ("[A-Z0-9-]{1,31}", select(lists)).prop_map(|(set, fields)| Target::MapMark {
        set: set.into(),
        fields,
    });
    let family = select(IpFamily::ALL.to_vec());
    let own = family.prop_flat_map(arbitrary_rule);
    let targets = prop_oneof![Just(Target::Drop), Just(Target::Reject), map];
    (own, more, prop::option::of(targets)).prop_map(|(rule, more, other)| match rule {
        Rule::Known { matches, target } => {
            let all: Vec<Match> = matches.iter().cloned().chain(more).collect();
            match other.or(target) {
                Some(target) => Rule::when(all, target),
                None => Rule::count(all),
            }
        }
        foreign => foreign,
    })
}
