//! Sets that we make are what `ipset` makes, and what it lists is what we list.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_netlink::ipset::{Change, Fields, HASH_SIZE, Kind, Mark, Member, Set, Sets};
use sluice_netlink::{Errno, Family};

use crate::netns::{self, program};

const PORTS: Set = Set {
    kind: Kind::Ports {
        first: 0,
        last: 65535,
    },
    has_marks: false,
};

fn hash(fields: Fields, family: Family) -> Set {
    Set {
        kind: Kind::Hash {
            fields,
            family,
            size: HASH_SIZE,
            max_elements: 65536,
        },
        has_marks: false,
    }
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

const PORT: Member = Member {
    ip: None,
    prefix: None,
    port: Some(80),
    protocol: None,
    second: None,
    second_prefix: None,
    mark: None,
};

/// A member of a hash with these fields.
fn member(fields: Fields, first: &str, second: &str) -> Member {
    let ip_port = Member {
        ip: ip(first),
        protocol: Some(6),
        ..PORT
    };
    match fields {
        Fields::Ip => Member {
            ip: ip(first),
            ..Member::default()
        },
        Fields::IpPort => ip_port,
        Fields::IpPortIp => Member {
            second: ip(second),
            ..ip_port
        },
        Fields::IpPortNet => Member {
            second: ip(second),
            second_prefix: Some(16),
            ..ip_port
        },
        Fields::Net => Member {
            ip: ip(second),
            prefix: Some(16),
            ..Member::default()
        },
    }
}

fn add(sets: &mut Sets, set: &str, members: &[Member]) {
    let changes: Vec<Change> = members.iter().copied().map(Change::Add).collect();
    let refused = sets.apply(set, &changes).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
}

/// What `ipset` says about a set, without what depends on chance and on its version.
fn listed(set: &str) -> String {
    let all = program("ipset", &["list", set], "");
    let lines = all.lines().filter(|it| !it.starts_with("Size in memory"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_kind_is_made_filled_and_listed() {
    netns::run(|| {
        let mut sets = Sets::open().unwrap();
        let kinds = [
            (Fields::Ip, 0, ["10.0.0.1", "fd00::1"]),
            (Fields::IpPort, 1, ["10.0.0.1,tcp:80", "fd00::1,tcp:80"]),
            (
                Fields::IpPortIp,
                1,
                ["10.0.0.1,tcp:80,192.168.0.0", "fd00::1,tcp:80,fd01::"],
            ),
            (
                Fields::IpPortNet,
                1,
                ["10.0.0.1,tcp:80,192.168.0.0/16", "fd00::1,tcp:80,fd01::/16"],
            ),
            (Fields::Net, 0, ["192.168.0.0/16", "fd01::/16"]),
        ];
        for (fields, revision, texts) in kinds {
            for ((family, first, second), text) in [
                (Family::Ipv4, "10.0.0.1", "192.168.0.0"),
                (Family::Ipv6, "fd00::1", "fd01::"),
            ]
            .into_iter()
            .zip(texts)
            {
                let set = hash(fields, family);
                let member = member(fields, first, second);
                sets.create("s", &set).unwrap();
                add(&mut sets, "s", &[member]);
                assert_eq!(sets.members("s").unwrap(), [member]);
                let name = set.kind.type_name();
                let inet = if family == Family::Ipv4 {
                    "inet"
                } else {
                    "inet6"
                };
                let expected = format!(
                    "Name: s\nType: {name}\nRevision: {revision}\n\
                     Header: family {inet} hashsize 1024 maxelem 65536\n\
                     References: 0\nNumber of entries: 1\nMembers:\n{text}"
                );
                assert_eq!(listed("s"), expected);
                let header = sets.header("s").unwrap().unwrap();
                assert_eq!(header.set, Some(set));
                assert_eq!(header.references, 0);
                let refused = sets.apply("s", &[Change::Delete(member); 2]).unwrap();
                assert!(refused.is_empty(), "{refused:?}");
                assert_eq!(sets.members("s").unwrap(), []);
                sets.destroy("s").unwrap();
            }
        }
        sets.create("s", &PORTS).unwrap();
        add(&mut sets, "s", &[PORT]);
        assert_eq!(sets.members("s").unwrap(), [PORT]);
        assert_eq!(
            listed("s"),
            "Name: s\nType: bitmap:port\nRevision: 0\nHeader: range 0-65535\n\
             References: 0\nNumber of entries: 1\nMembers:\n80"
        );
        assert_eq!(sets.header("s").unwrap().unwrap().set, Some(PORTS));
    });
}

#[test]
fn what_ipset_makes_is_what_we_would_make() {
    netns::run(|| {
        let made = "create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\n\
                    create KUBE-NODE-PORT-TCP bitmap:port range 0-65535\n\
                    create marks hash:net family inet6 skbinfo\n\
                    create other list:set\n";
        program("ipset", &["restore"], made);
        let mut sets = Sets::open().unwrap();
        let cluster = hash(Fields::IpPort, Family::Ipv4);
        let marks = Set {
            has_marks: true,
            ..hash(Fields::Net, Family::Ipv6)
        };
        for (name, set) in [
            ("KUBE-CLUSTER-IP", cluster),
            ("KUBE-NODE-PORT-TCP", PORTS),
            ("marks", marks),
        ] {
            let header = sets.header(name).unwrap().unwrap();
            assert!(header.set.unwrap().is_like(&set), "{header:?}");
            sets.create(name, &set).unwrap();
        }
        let other = sets.header("other").unwrap().unwrap();
        assert_eq!(other.set, None);
        assert_eq!(sets.header("none").unwrap(), None);
        let error = sets.create("KUBE-CLUSTER-IP", &PORTS).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EEXIST));
        assert_eq!(
            error.to_string(),
            "create ipset KUBE-CLUSTER-IP: File exists"
        );
        let long = "a-name-of-more-than-thirty-one-bytes";
        assert!(sets.create(long, &PORTS).is_err());
    });
}

#[test]
fn marks_are_kept_and_changed() {
    netns::run(|| {
        let mut sets = Sets::open().unwrap();
        let set = Set {
            has_marks: true,
            ..hash(Fields::IpPort, Family::Ipv4)
        };
        sets.create("s", &set).unwrap();
        let plain = member(Fields::IpPort, "10.0.0.1", "");
        for (value, mask) in [(0x4000, 0x4000), (0x10, 0xffff_ffff)] {
            let mark = Some(Mark { value, mask });
            let marked = Member { mark, ..plain };
            add(&mut sets, "s", &[marked]);
            assert_eq!(sets.members("s").unwrap(), [marked]);
        }
        assert!(listed("s").ends_with("10.0.0.1,tcp:80 skbmark 0x10"));
        let mark = Some(Mark { value: 1, mask: 1 });
        let refused = sets.apply("s", &[Change::Delete(Member { mark, ..plain })]);
        assert!(refused.unwrap().is_empty());
        assert_eq!(sets.members("s").unwrap(), []);
        sets.create("unmarked", &hash(Fields::IpPort, Family::Ipv4))
            .unwrap();
        let change = Change::Add(Member { mark, ..plain });
        let refused = sets.apply("unmarked", &[change]).unwrap();
        assert_eq!(
            refused[0].error.to_string(),
            "add to ipset unmarked 10.0.0.1,6:80: the set has no marks"
        );
    });
}

/// Two halves stand for everything.
#[test]
fn a_network_of_length_zero_is_refused() {
    netns::run(|| {
        let mut sets = Sets::open().unwrap();
        for (fields, prefix, second_prefix) in [
            (Fields::Net, Some(0), None),
            (Fields::IpPortNet, None, Some(0)),
        ] {
            sets.create("s", &hash(fields, Family::Ipv4)).unwrap();
            let member = Member {
                prefix,
                second_prefix,
                ..member(fields, "10.0.0.1", "0.0.0.0")
            };
            let refused = sets.apply("s", &[Change::Add(member)]).unwrap();
            let error = refused[0].error.to_string();
            let wanted = ": the prefix length is out of range";
            assert!(error.ends_with(wanted), "{error}");
            sets.destroy("s").unwrap();
        }
    });
}

/// Many datagrams of members, and a hash that grows meanwhile.
#[test]
fn a_set_is_filled_to_the_last_member_it_takes() {
    netns::run(|| {
        // A table of up to 1,024 buckets counts its members exactly; a larger one counts by regions
        // and takes a few more (`mtype_add` in net/netfilter/ipset/ip_set_hash_gen.h).
        const MOST: u32 = 1000;
        let mut sets = Sets::open().unwrap();
        let kind = Kind::Hash {
            fields: Fields::Ip,
            family: Family::Ipv4,
            size: 64,
            max_elements: MOST,
        };
        let set = Set {
            kind,
            has_marks: false,
        };
        sets.create("s", &set).unwrap();
        let members: Vec<Member> = (1..=MOST + 700)
            .map(|it| Member {
                ip: Some(IpAddr::from((0x0a00_0000 + it).to_be_bytes())),
                ..Member::default()
            })
            .collect();
        let mut changes: Vec<Change> = members.iter().copied().map(Change::Add).collect();
        // One that is refused for itself does not keep the others out.
        changes[7] = Change::Add(Member {
            ip: ip("fd00::1"),
            ..Member::default()
        });
        let refused = sets.apply("s", &changes).unwrap();
        let at: Vec<usize> = refused.iter().map(|it| it.index).collect();
        let last = changes.len();
        let full = MOST as usize + 1..last;
        assert_eq!(at, [7].into_iter().chain(full).collect::<Vec<_>>());
        let error = refused[699].error.to_string();
        assert!(
            error.ends_with("the set is full, or the member out of its range"),
            "{error}"
        );
        let found: BTreeSet<Member> = sets.members("s").unwrap().into_iter().collect();
        let mut expected: BTreeSet<Member> = members[..=MOST as usize].iter().copied().collect();
        expected.remove(&members[7]);
        assert_eq!(found, expected);
        let header = sets.header("s").unwrap().unwrap();
        let found = header.set.unwrap();
        assert!(found.is_like(&set) && found != set, "{header:?}");
    });
}

#[test]
fn sets_change_places_under_a_rule() {
    netns::run(|| {
        let mut sets = Sets::open().unwrap();
        let small = hash(Fields::Ip, Family::Ipv4);
        let marked = Set {
            has_marks: true,
            ..small
        };
        sets.create("used", &small).unwrap();
        use_set("used");
        sets.create("new", &marked).unwrap();
        let member = member(Fields::Ip, "10.0.0.1", "");
        add(&mut sets, "new", &[member]);
        sets.swap("used", "new").unwrap();
        sets.destroy("new").unwrap();
        assert_eq!(sets.members("used").unwrap(), [member]);
        assert_eq!(sets.header("used").unwrap().unwrap().references, 1);
        let error = sets.swap("used", "none").unwrap_err().to_string();
        assert_eq!(error, "swap ipsets used and none: there is no second set");
    });
}

/// Adds a rule that asks an ipset.
#[track_caller]
pub(crate) fn use_set(name: &str) {
    let rule = format!("-A INPUT -m set --match-set {name} src -j DROP");
    let rule: Vec<&str> = rule.split(' ').collect();
    program("iptables-nft", &rule, "");
}
