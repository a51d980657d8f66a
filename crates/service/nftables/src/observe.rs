//! Reads our tables back from the kernel.
//!
//! Everything is listed, but not the endpoint maps of a large ruleset: see [`crate::slots`].

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_netlink::{Errno, RequestError, octets};
use sluice_nft::{DataRef, ElementRef, Kernel, Range, Ranges, Set, Verdict};
use sluice_reconcile::BackendError;

use crate::bytes::{decode_endpoint, decode_key};
use crate::definition;
use crate::layout;
use crate::name::{ChainName, STICKY_PREFIX, TABLE, netlink, scope};
use crate::object::{Chain, Key, Object, Rules, TABLE_COMMENT};
use crate::set::{Counting, Element, ElementKey, ElementValue, KeyKind, SetName, ValueKind};
use crate::slots;
use crate::source_list::SourceList;

/// Attempts to list a table when transactions interrupt the listing.
const ATTEMPTS: u32 = 20;

/// Elements in the endpoint maps of a table up to which these are listed. Listing 16,384 elements
/// takes as long as asking for them by key (10 ms); 500,000 take 8 s and 0.4 s.
const LISTED: usize = 16_384;

/// Objects by their keys.
pub(crate) type Objects = BTreeMap<Key, Object>;

/// Endpoint maps that were asked for by key, and the number of their elements that were not found in this way; `None`
/// when the kernel does not say how many there are (before 6.16).
pub(crate) type Unlisted = BTreeMap<(IpFamily, SetName), Option<usize>>;

/// All objects of our tables. A table with sets that we would declare otherwise, such as a table that counts when
/// this one is not to, is reported as one [`Object::Foreign`], so that it is replaced as a whole.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours.
pub(crate) fn tables(
    kernel: &mut impl Kernel,
    counting: Counting,
) -> Result<(Objects, Unlisted), BackendError> {
    let (mut objects, mut unlisted) = (Objects::new(), Unlisted::new());
    for family in IpFamily::ALL {
        if owns_table(kernel, family)? {
            let table = retry(|| table(kernel, family, counting));
            let mut table = table.map_err(|error| failed(family, error))?;
            objects.append(&mut table.0);
            unlisted.append(&mut table.1);
        }
    }
    Ok((objects, unlisted))
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

/// Whether our table of this family exists.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours: it lacks our comment.
pub(crate) fn owns_table(kernel: &mut impl Kernel, family: IpFamily) -> Result<bool, BackendError> {
    let tables = retry(|| kernel.tables(netlink(family)));
    let tables = tables.map_err(|error| failed(family, error))?;
    let Some(table) = tables.into_iter().find(|it| it.name == TABLE) else {
        return Ok(false);
    };
    match table.comment.as_deref() {
        Some(TABLE_COMMENT) => Ok(true),
        _ => Err(BackendError {
            operation: format!("use table {} {TABLE}", family.nft_name()),
            reason: format!(
                "a table of this name exists that Sluice did not make (its comment is not \
                 {TABLE_COMMENT:?}): rename it, or remove it with `nft delete table {} {TABLE}`",
                family.nft_name()
            ),
            source: None,
        }),
    }
}

/// Repeats a listing while transactions interrupt it.
pub(crate) fn retry<T>(
    mut list: impl FnMut() -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    for _ in 1..ATTEMPTS {
        match list() {
            Err(RequestError::Interrupted { .. }) => {}
            listed => return listed,
        }
    }
    list()
}

/// The error of a table that could not be listed.
pub(crate) fn failed(family: IpFamily, error: RequestError) -> BackendError {
    BackendError::new(format!("list table {} {TABLE}", family.nft_name()), error)
}

fn table(
    kernel: &mut impl Kernel,
    family: IpFamily,
    counting: Counting,
) -> Result<(Objects, Unlisted), RequestError> {
    let mut objects = Objects::from([(Key::Table(family), Object::Table)]);
    let foreign = || {
        let table = Objects::from([(Key::Table(family), Object::Foreign)]);
        (table, Unlisted::new())
    };
    let mut endpoint_maps = Vec::new();
    for (set, count) in kernel.sets(scope(family))? {
        let Some((key, object)) = declared(family, &set, counting) else {
            return Ok(foreign());
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
        Ok(foreign())
    } else {
        Ok((objects, unlisted))
    }
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
        let (key, object) = self::element(family, set, &element);
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

/// An element of a set without ranges of single addresses.
pub(crate) fn element(family: IpFamily, set: SetName, element: &ElementRef<'_>) -> (Key, Object) {
    let key = decode_key(family, set.key(), element.key, element.key_end);
    let foreign = || ElementKey::Foreign(element.key.into(), element.key_end.map(Into::into));
    let object = Object::Element(Element {
        value: value(family, element),
        comment: element.comment.map(Arc::from),
    });
    let key = Key::Element(family, set, key.unwrap_or_else(foreign));
    (key, object)
}

fn value(family: IpFamily, element: &ElementRef<'_>) -> ElementValue {
    match element.data {
        None => ElementValue::Member,
        Some(DataRef::Verdict(Verdict::Goto(chain))) => ElementValue::Goto(ChainName::parse(chain)),
        Some(DataRef::Verdict(_)) => ElementValue::Foreign,
        Some(DataRef::Value(bytes)) => match decode_endpoint(family, bytes) {
            Some(addr) => ElementValue::Endpoint(addr),
            None => ElementValue::Foreign,
        },
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
