//! Reads the maps.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_bpf::BpfError;
use sluice_bpf_abi as abi;

use crate::convert;
use crate::maps::Maps;
use crate::object::{Key, Object};

/// Every element of ours. Elements with keys that nobody of us writes are left alone.
pub(crate) fn all(maps: &Maps) -> Result<BTreeMap<Key, Object>, BpfError> {
    let mut objects = BTreeMap::new();
    let node = settings(maps)?;
    if node.masquerade_ports != [abi::PortRange::default(); 2] {
        objects.insert(Key::Node, Object::Node(Box::new(node)));
    }
    for (prefix, _) in maps.sources.entries()? {
        if let Some((list, net)) = convert::source(&prefix) {
            objects.insert(Key::Source(list, net), Object::Present);
        }
    }
    for (key, endpoint) in maps.endpoints.entries()? {
        let key = Key::Endpoint(key.service, key.slot);
        objects.insert(key, Object::Endpoint(endpoint));
    }
    for (key, slot) in maps.members.entries()? {
        if let Some(scope) = convert::scope(key.pool) {
            let addr = SocketAddr::new(key.addr.into(), key.port);
            objects.insert(Key::Member(key.service, scope, addr), Object::Member(slot));
        }
    }
    for (key, chunk) in maps.maglev.entries()? {
        let scope = u16::try_from(key.pool).ok().and_then(convert::scope);
        if let Some(scope) = scope {
            let key = Key::Maglev(key.service, scope, key.chunk);
            objects.insert(key, Object::Maglev(Box::new(chunk)));
        }
    }
    for (key, _) in maps.addresses.entries()? {
        if let Some((kind, ip)) = convert::address(&key) {
            objects.insert(Key::Address(kind, ip), Object::Present);
        }
    }
    for (key, frontend) in maps.frontends.entries()? {
        if let Some(key) = convert::frontend(&key) {
            objects.insert(Key::Frontend(key), Object::Frontend(frontend));
        }
    }
    Ok(objects)
}

/// The settings, without what does not come from the plan.
fn settings(maps: &Maps) -> Result<abi::Node, BpfError> {
    let mut node = maps.node()?;
    node.flags &= !abi::node_flags::KEPT;
    node.trace = abi::Addr::ANY_V6;
    node.trace_until_ns = 0;
    Ok(node)
}
