//! Reads the endpoint maps of a large ruleset by key.
//!
//! The time to list a hash grows with the square of its size (`nft_rhash_walk`), the time to ask for keys does not.
//! The frontends determine the keys that an endpoint map should have: a frontend that goes to `cluster-ip-3` has the
//! slots 0 to 2.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_nft::{Kernel, KeyBytes};

use crate::bytes::{decode_element, encode_key};
use crate::name::{ChainName, scope};
use crate::object::{Key, Object, Objects};
use crate::pool::endpoints_of;
use crate::set::{ElementKey, ElementValue, KeyKind, SetName};

/// The keys of each endpoint map that the frontends among these objects lead to.
pub(crate) fn reachable(objects: &Objects) -> BTreeMap<SetName, Vec<ElementKey>> {
    let mut reachable: BTreeMap<SetName, Vec<ElementKey>> = BTreeMap::new();
    for (key, object) in objects {
        if let (Key::Element(_, _, frontend), Object::Element(element)) = (key, object)
            && let ElementValue::Goto(ChainName::Pool(kind, size)) = element.value
        {
            let map = endpoints_of(kind);
            let keys = (0..size).map_while(|slot| slot_of(map, frontend, slot));
            reachable.entry(map).or_default().extend(keys);
        }
    }
    reachable
}

/// The key of a frontend's slot in an endpoint map; `None` when the map has keys of another kind:
/// another program may lead a NodePort to the pool of an address.
fn slot_of(map: SetName, frontend: &ElementKey, slot: u32) -> Option<ElementKey> {
    match (map.key(), frontend) {
        (KeyKind::FrontendSlot, ElementKey::Frontend(addr, protocol, port)) => {
            Some(ElementKey::FrontendSlot(*addr, *protocol, *port, slot))
        }
        (KeyKind::NodePortSlot, ElementKey::NodePort(protocol, port)) => {
            Some(ElementKey::NodePortSlot(*protocol, *port, slot))
        }
        _ => None,
    }
}

/// The frontend of a slot's key; `None` for a key without a slot.
pub(crate) fn frontend_of(slot: &ElementKey) -> Option<ElementKey> {
    match slot {
        ElementKey::FrontendSlot(addr, protocol, port, _) => {
            Some(ElementKey::Frontend(*addr, *protocol, *port))
        }
        ElementKey::NodePortSlot(protocol, port, _) => Some(ElementKey::NodePort(*protocol, *port)),
        _ => None,
    }
}

/// Adds the elements of a map that have one of these keys to `objects`; returns their number.
///
/// # Errors
///
/// The kernel could not be asked.
pub(crate) fn find<'a>(
    kernel: &mut impl Kernel,
    family: IpFamily,
    map: SetName,
    keys: impl IntoIterator<Item = &'a ElementKey>,
    objects: &mut Objects,
) -> Result<usize, RequestError> {
    let encode = |key: &ElementKey| {
        let mut bytes = KeyBytes::default();
        encode_key(key, &mut bytes);
        bytes.start
    };
    let keys: Vec<Vec<u8>> = keys.into_iter().map(encode).collect();
    let mut found = Vec::new();
    kernel.find_elements(scope(family), map.as_str(), &keys, |it| {
        found.push(decode_element(family, map, &it));
    })?;
    // Sorted and merged: half a million single inserts take three times as long.
    let mut found: Objects = found.into_iter().collect();
    let count = found.len();
    objects.append(&mut found);
    Ok(count)
}
