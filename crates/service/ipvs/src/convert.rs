//! Our objects as values of netlink, and back.

use sluice_model::{IpFamily, Protocol};
use sluice_netlink::Family as KernelFamily;
use sluice_netlink::ipset::{Fields, HASH_SIZE, Kind, Mark, Member, Set};
use sluice_netlink::ipvs::{self, Flags, Forwarding, VirtualServer};

use crate::object::{Balancing, Hashing, Server, Triple};
use crate::set::{Entry, MOST_MEMBERS, SetKind, SetName};

/// Every bit of a mark counts.
const WHOLE_MARK: u32 = u32::MAX;

pub(crate) fn family(family: IpFamily) -> KernelFamily {
    match family {
        IpFamily::V4 => KernelFamily::Ipv4,
        IpFamily::V6 => KernelFamily::Ipv6,
    }
}

fn core_family(family: KernelFamily) -> IpFamily {
    match family {
        KernelFamily::Ipv4 => IpFamily::V4,
        KernelFamily::Ipv6 => IpFamily::V6,
    }
}

fn protocol(number: u8) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|it| it.number() == number)
}

/// The kernel's key of a virtual server.
pub(crate) fn key(server: &Server) -> ipvs::Key {
    match server {
        Server::Address(triple) | Server::NodePort(triple) => ipvs::Key::Address(VirtualServer {
            ip: triple.ip,
            protocol: triple.protocol.number(),
            port: triple.port,
        }),
        Server::Mark(family, _, mark) => ipvs::Key::Mark {
            family: self::family(*family),
            mark: *mark,
        },
    }
}

/// The key of a virtual server; `None` for a protocol that no Service has.
pub(crate) fn dialled(key: &ipvs::Key) -> Option<Dialled> {
    match key {
        ipvs::Key::Address(it) => Some(Dialled::Address(Triple {
            ip: it.ip,
            port: it.port,
            protocol: protocol(it.protocol)?,
        })),
        ipvs::Key::Mark { family, mark } => Some(Dialled::Mark(core_family(*family), *mark)),
    }
}

/// The kernel's key of a virtual server, which does not tell a virtual IP from a NodePort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialled {
    Address(Triple),
    Mark(IpFamily, u32),
}

pub(crate) fn virtual_server(server: &Server, balancing: &Balancing) -> ipvs::Virtual {
    let Balancing {
        scheduler,
        hashing,
        persistence,
    } = balancing;
    let mut flags = Flags::default();
    for (is_set, flag) in [
        (persistence.is_some(), Flags::PERSISTENT),
        (hashing.fallback, Flags::HASH_FALLBACK),
        (hashing.port, Flags::HASH_PORT),
    ] {
        if is_set {
            flags = flags | flag;
        }
    }
    ipvs::Virtual {
        key: key(server),
        scheduler: scheduler.clone(),
        flags,
        timeout: persistence.unwrap_or(0),
        prefix: family(server.family()).bits(),
    }
}

/// `None` for one with options that we never set.
pub(crate) fn balancing(state: &ipvs::Virtual) -> Option<Balancing> {
    let flags = state.flags;
    let balancing = Balancing {
        scheduler: state.scheduler.clone(),
        hashing: Hashing {
            fallback: flags.contains(Flags::HASH_FALLBACK),
            port: flags.contains(Flags::HASH_PORT),
        },
        persistence: flags.contains(Flags::PERSISTENT).then_some(state.timeout),
    };
    let same = !flags.contains(Flags::ONE_PACKET) && state.prefix == state.key.family().bits();
    same.then_some(balancing)
}

pub(crate) fn real_server(address: std::net::SocketAddr, weight: u32) -> ipvs::Real {
    ipvs::Real {
        address,
        forwarding: Forwarding::Masquerade,
        weight,
        upper_threshold: 0,
        lower_threshold: 0,
    }
}

/// The weight of a real server; `None` for one with options that we never set.
pub(crate) fn weight(real: &ipvs::Real) -> Option<u32> {
    (*real == real_server(real.address, real.weight)).then_some(real.weight)
}

/// A set as we create it.
pub(crate) fn set(family: IpFamily, set: SetName) -> Set {
    let hash = |fields| Kind::Hash {
        fields,
        family: self::family(family),
        size: HASH_SIZE,
        max_elements: MOST_MEMBERS,
    };
    let kind = match set.kind() {
        SetKind::Address => hash(Fields::Ip),
        SetKind::AddressPort | SetKind::MarkedAddressPort => hash(Fields::IpPort),
        SetKind::AddressPortAddress => hash(Fields::IpPortIp),
        SetKind::AddressPortNet => hash(Fields::IpPortNet),
        SetKind::Port => Kind::Ports {
            first: 0,
            last: u16::MAX,
        },
    };
    Set {
        kind,
        has_marks: set.kind() == SetKind::MarkedAddressPort,
    }
}

/// A member for netlink.
pub(crate) fn member(entry: &Entry, mark: Option<u32>) -> Member {
    let mut member = Member {
        mark: mark.map(|value| Mark {
            value,
            mask: WHOLE_MARK,
        }),
        ..Member::default()
    };
    match entry {
        Entry::Address(ip) => member.ip = Some(*ip),
        Entry::Port(port) => member.port = Some(*port),
        Entry::AddressPort(ip, protocol, port)
        | Entry::AddressPortAddress(ip, protocol, port, _)
        | Entry::AddressPortNet(ip, protocol, port, _) => {
            member.ip = Some(*ip);
            member.port = Some(*port);
            member.protocol = Some(protocol.number());
        }
        Entry::Foreign(member) => return *member,
    }
    match entry {
        Entry::AddressPortAddress(.., source) => member.second = Some(*source),
        Entry::AddressPortNet(.., source) => {
            member.second = Some(source.addr());
            member.second_prefix = Some(source.prefix_len());
        }
        _ => {}
    }
    member
}

/// A member as the kernel lists it, with its mark.
pub(crate) fn entry(kind: SetKind, member: &Member) -> (Entry, Option<u32>) {
    let found = known_entry(kind, member);
    let entry = found.unwrap_or(Entry::Foreign(*member));
    let mark = member.mark.map(|it| match it.mask {
        WHOLE_MARK => it.value,
        // No mark of ours: differs from whatever is wanted.
        _ => 0,
    });
    (entry, mark)
}

fn known_entry(kind: SetKind, member: &Member) -> Option<Entry> {
    let front = || Some((member.ip?, protocol(member.protocol?)?, member.port?));
    Some(match kind {
        SetKind::Address => Entry::Address(member.ip?),
        SetKind::AddressPort | SetKind::MarkedAddressPort => {
            let (ip, protocol, port) = front()?;
            Entry::AddressPort(ip, protocol, port)
        }
        SetKind::AddressPortAddress => {
            let (ip, protocol, port) = front()?;
            Entry::AddressPortAddress(ip, protocol, port, member.second?)
        }
        SetKind::AddressPortNet => {
            let (ip, protocol, port) = front()?;
            let net = ipnet::IpNet::new(member.second?, member.second_prefix?).ok()?;
            Entry::AddressPortNet(ip, protocol, port, net)
        }
        SetKind::Port => Entry::Port(member.port?),
    })
}
