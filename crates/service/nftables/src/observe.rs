//! Reads our tables back from the kernel.
//!
//! Everything is listed, but not the endpoint maps of a large ruleset: see [`crate::slots`].

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_netlink::request::uninterrupted;
use sluice_netlink::{Errno, RequestError, octets};
use sluice_nft::{Kernel, Range, Ranges, Set};
use sluice_reconcile::BackendError;

use crate::bytes::decode_element;
use crate::definition;
use crate::layout;
use crate::name::{ChainName, STICKY_PREFIX, netlink, scope};
use crate::object::{Chain, Key, Object, Objects, Rules};
use crate::set::{Counting, Element, ElementKey, ElementValue, KeyKind, SetName, ValueKind};
use crate::slots;
use crate::source_list::SourceList;
use crate::tables::{failed, ours};

/// Elements in the endpoint maps of a table up to which these are listed. Listing 16,384 elements
/// takes as long as asking for them by key (10 ms); 500,000 take 8 s and 0.4 s.
const LISTED: usize = 16_384;

/// Endpoint maps that were asked for by key, and the number of their elements that were not found in this way; `None`
/// when the kernel does not say how many there are (before 6.16).
pub(crate) type Unlisted = BTreeMap<(IpFamily, SetName), Option<usize>>;

/// All objects of our table of a family. A table with sets that we would declare otherwise, such as a table that counts
/// when this one is not to, and a table that is dormant are reported as one [`Object::Foreign`], so that it is replaced as a whole.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours.
pub(crate) fn table(
    kernel: &mut impl Kernel,
    family: IpFamily,
    counting: Counting,
) -> Result<(Objects, Unlisted), BackendError> {
    match ours(kernel, family)? {
        None => return Ok((Objects::new(), Unlisted::new())),
        Some(it) if it.is_dormant => return Ok(foreign(family)),
        Some(_) => {}
    }
    let listed = uninterrupted(|| list(kernel, family, counting));
    listed.map_err(|error| failed(family, error))
}

/// The generation of the ruleset.
///
/// # Errors
///
/// The kernel could not be asked.
pub(crate) fn generation(kernel: &mut impl Kernel) -> Result<u32, BackendError> {
    let asked = kernel.generation().map(|it| it.id);
    asked.map_err(|error| BackendError::new("ask for the generation of the ruleset", error))
}

fn list(
    kernel: &mut impl Kernel,
    family: IpFamily,
    counting: Counting,
) -> Result<(Objects, Unlisted), RequestError> {
    let mut objects = Objects::from([(Key::Table(family), Object::Table)]);
    let mut endpoint_maps = Vec::new();
    for (set, count) in kernel.sets(scope(family))? {
        let Some((key, object)) = declared(family, &set, counting) else {
            return Ok(foreign(family));
        };
        match key {
            Key::Set(_, name) if name.value() == ValueKind::Endpoint => {
                endpoint_maps.push((name, count.map(|it| it as usize)));
            }
            Key::Set(_, name) => elements(kernel, family, name, &mut objects)?,
            Key::Sources(_, list) => {
                let object = sources(kernel, family, list)?;
                objects.insert(key, object);
                continue;
            }
            _ => {}
        }
        objects.insert(key, object);
    }
    let unlisted = endpoints(kernel, family, &endpoint_maps, &mut objects)?;
    chains(kernel, family, &mut objects)?;
    // The kernel cannot move a base chain: the table has to go.
    let moved = objects.iter().any(|(key, object)| match (key, object) {
        (Key::Chain(_, ChainName::Standing(name)), Object::Chain(chain)) => {
            chain.hook != layout::hook_of(*name)
        }
        _ => false,
    });
    if moved {
        Ok(foreign(family))
    } else {
        Ok((objects, unlisted))
    }
}

/// A table that is to be replaced as a whole.
fn foreign(family: IpFamily) -> (Objects, Unlisted) {
    let table = Objects::from([(Key::Table(family), Object::Foreign)]);
    (table, Unlisted::new())
}

/// Reads endpoint maps, given with their numbers of elements: lists small maps, else asks for the keys that the
/// frontends lead to. Where the kernel does not tell the number of elements, the number of these keys takes its
/// place, unless there are no frontends.
fn endpoints(
    kernel: &mut impl Kernel,
    family: IpFamily,
    maps: &[(SetName, Option<usize>)],
    objects: &mut Objects,
) -> Result<Unlisted, RequestError> {
    let reachable = slots::reachable(objects);
    let count: Option<usize> = maps.iter().map(|(_, count)| *count).sum();
    let expected: usize = reachable.values().map(Vec::len).sum();
    let is_small = count.map_or(expected > 0 && expected <= LISTED, |it| it <= LISTED);
    let mut unlisted = Unlisted::new();
    for &(map, count) in maps {
        if is_small {
            elements(kernel, family, map, objects)?;
        } else {
            let keys = reachable.get(&map).into_iter().flatten();
            let found = slots::find(kernel, family, map, keys, objects)?;
            unlisted.insert((family, map), count.map(|it| it.saturating_sub(found)));
            // The kernel does not count it (`nft_add_set_elem`).
            slots::find(kernel, family, map, [&ElementKey::catch_all()], objects)?;
        }
    }
    Ok(unlisted)
}

/// A set as we would have declared it; `None` when it is declared otherwise.
fn declared(family: IpFamily, set: &Set, counting: Counting) -> Option<(Key, Object)> {
    if let Some(name) = SetName::parse(&set.name) {
        let counting = name.counting(counting);
        let same = definition::standing(family, name, counting) == *set;
        return same.then_some((Key::Set(family, name), Object::Set(counting)));
    }
    if let Some(list) = SourceList::parse(&set.name) {
        let same = definition::sources(family, list) == *set;
        return same.then_some((Key::Sources(family, list), Object::Foreign));
    }
    let comment = set.comment.as_deref().unwrap_or_default();
    let name: Arc<str> = set.name.as_str().into();
    let same = definition::sticky(family, &name, comment) == *set;
    // Another program's set, under a name that we would not use, is removed by the delta.
    let object = if same {
        Object::Sticky(comment.into())
    } else if name.starts_with(STICKY_PREFIX) {
        return None;
    } else {
        Object::Foreign
    };
    Some((Key::NamedSet(family, name), object))
}

fn chains(
    kernel: &mut impl Kernel,
    family: IpFamily,
    objects: &mut Objects,
) -> Result<(), RequestError> {
    let mut rules: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for rule in kernel.rules(scope(family), None)? {
        rules.entry(rule.chain).or_default().push(rule.exprs);
    }
    for chain in kernel.chains(scope(family))? {
        let key = Key::Chain(family, ChainName::parse(&chain.name));
        let observed = Chain {
            hook: chain.hook,
            comment: chain.comment.unwrap_or_default().into(),
            rules: Rules::Observed(rules.remove(&chain.name).unwrap_or_default()),
        };
        objects.insert(key, Object::Chain(observed));
    }
    Ok(())
}

/// Lists a list of sources. A range that is no prefix makes the set one that we did not write.
fn sources(
    kernel: &mut impl Kernel,
    family: IpFamily,
    list: SourceList,
) -> Result<Object, RequestError> {
    let mut ranges = Ranges::new(netlink(family));
    kernel.for_each_element(scope(family), &list.to_string(), |it| ranges.add(&it))?;
    let ranges: Option<Arc<[IpNet]>> = ranges.finish().map(|it| it.prefix()).collect();
    Ok(ranges.map_or(Object::Foreign, Object::Sources))
}

/// Lists a set.
///
/// # Errors
///
/// As of [`Kernel::for_each_element`].
pub(crate) fn elements(
    kernel: &mut impl Kernel,
    family: IpFamily,
    set: SetName,
    objects: &mut Objects,
) -> Result<(), RequestError> {
    let mut ranges = Ranges::new(netlink(family));
    kernel.for_each_element(scope(family), set.as_str(), |element| {
        if set.key() == KeyKind::Range && !element.key.is_empty() {
            ranges.add(&element);
            return;
        }
        let (key, object) = decode_element(family, set, &element);
        objects.insert(key, object);
    })?;
    for range in ranges.finish() {
        let key = Key::Element(family, set, range_key(&range));
        let element = Element {
            value: ElementValue::Member,
            comment: range.comment,
        };
        objects.insert(key, Object::Element(element));
    }
    Ok(())
}

/// Whether a listing showed everything: no transaction interrupted it. A set that is gone is empty.
pub(crate) fn is_complete(listed: Result<(), RequestError>) -> Result<bool, RequestError> {
    match listed {
        Err(RequestError::Interrupted { .. }) => Ok(false),
        Err(error) if error.errno() != Some(Errno::ENOENT) => Err(error),
        _ => Ok(true),
    }
}

/// The key of a range. A range that is no prefix gets a key that we would not write.
fn range_key(range: &Range) -> ElementKey {
    match range.prefix() {
        Some(net) => ElementKey::Range(net),
        None => {
            let end = range.end.map(|it| octets(it).into());
            ElementKey::Foreign(octets(range.first).into(), end)
        }
    }
}
