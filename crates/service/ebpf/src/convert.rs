//! Keys of objects as keys of maps, and back.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use sluice_bpf::Prefix;
use sluice_bpf_abi as abi;
use sluice_model::{IpFamily, Protocol};
use sluice_plan::{Frontend, Scope};

use crate::object::{AddressKind, ListId};
use crate::placement::protocol_number;

pub(crate) fn frontend_key(frontend: &Frontend) -> abi::FrontendKey {
    let (addr, kind) = match frontend {
        Frontend::Address { addr, .. } => ((*addr).into(), abi::FrontendKind::Address),
        Frontend::NodePort { family, .. } => (any(*family), abi::FrontendKind::NodePort),
    };
    abi::FrontendKey {
        addr,
        port: frontend.port(),
        protocol: protocol_number(frontend.protocol()),
        kind: kind as u8,
    }
}

/// `None` for a key that we did not write.
pub(crate) fn frontend(key: &abi::FrontendKey) -> Option<Frontend> {
    let protocol = match key.protocol {
        abi::TCP => Protocol::Tcp,
        abi::UDP => Protocol::Udp,
        abi::SCTP => Protocol::Sctp,
        _ => return None,
    };
    let port = key.port;
    let addr = IpAddr::from(key.addr);
    if key.kind == abi::FrontendKind::NodePort as u8 {
        return Some(Frontend::NodePort {
            family: IpFamily::of(&addr),
            port,
            protocol,
        });
    }
    Some(Frontend::Address {
        addr,
        port,
        protocol,
    })
}

fn any(family: IpFamily) -> abi::Addr {
    match family {
        IpFamily::V4 => abi::Addr::ANY_V4,
        IpFamily::V6 => abi::Addr::ANY_V6,
    }
}

/// The range of a list.
pub(crate) fn source_key(list: ListId, net: &IpNet) -> Prefix<abi::SourceKey> {
    let length = abi::SOURCE_PREFIX + crate::render::prefix_length(net);
    let addr = net.network().into();
    Prefix::new(length, abi::SourceKey { list, addr })
}

/// `None` for a range that we did not write.
pub(crate) fn source(prefix: &Prefix<abi::SourceKey>) -> Option<(ListId, IpNet)> {
    let (length, key) = (prefix.prefix_len(), prefix.data());
    let addr = IpAddr::from(key.addr);
    let mapped = match addr {
        IpAddr::V4(_) => 96,
        IpAddr::V6(_) => 0,
    };
    let length = length.checked_sub(abi::SOURCE_PREFIX + mapped)?;
    let net = IpNet::new(addr, u8::try_from(length).ok()?).ok()?;
    Some((key.list, net))
}

pub(crate) fn address_key(kind: AddressKind, ip: IpAddr) -> abi::AddressKey {
    let kind = match kind {
        AddressKind::ClusterIp => abi::AddressKind::ClusterIp,
        AddressKind::NodePorts => abi::AddressKind::NodePorts,
    };
    abi::AddressKey {
        addr: ip.into(),
        kind: kind as u32,
    }
}

/// `None` for an address that we did not write.
pub(crate) fn address(key: &abi::AddressKey) -> Option<(AddressKind, IpAddr)> {
    let kinds = [AddressKind::ClusterIp, AddressKind::NodePorts];
    let ip = key.addr.into();
    let kind = kinds.into_iter().find(|it| address_key(*it, ip) == *key)?;
    Some((kind, ip))
}

/// The number of a pool in maps.
pub(crate) fn pool_number(scope: Scope) -> u16 {
    match scope {
        Scope::Cluster => abi::Verdict::Cluster as u16,
        Scope::Local => abi::Verdict::Local as u16,
    }
}

/// `None` for a number of no pool.
pub(crate) fn scope(pool: u16) -> Option<Scope> {
    let both = [Scope::Cluster, Scope::Local];
    both.into_iter().find(|it| pool_number(*it) == pool)
}

pub(crate) fn member_key(service: u32, scope: Scope, addr: SocketAddr) -> abi::MemberKey {
    abi::MemberKey {
        addr: addr.ip().into(),
        service,
        port: addr.port(),
        pool: pool_number(scope),
    }
}

pub(crate) fn maglev_key(service: u32, scope: Scope, chunk: u32) -> abi::MaglevKey {
    abi::MaglevKey {
        service,
        pool: pool_number(scope).into(),
        chunk,
    }
}
