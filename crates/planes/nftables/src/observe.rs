//! Reads our tables back from the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::nftables::{
    ChainKind, Connection, DataRef, ElementRef, HookPoint as NetlinkPoint, Policy, Set, Verdict,
};
use sluice_reconcile::BackendError;

use crate::apply::scope;
use crate::bytes::{decode_addr, decode_endpoint, decode_key, octets, prefix};
use crate::definition;
use crate::encode;
use crate::layout;
use crate::name::{ChainName, STICKY_PREFIX, TABLE};
use crate::object::{Chain, Hook, HookKind, HookPoint, Key, Object, Rules, Sticky, TABLE_COMMENT};
use crate::set::{Counting, Element, ElementKey, ElementValue, KeyKind, SetName};

/// How often a listing is begun again because somebody changed what was being listed.
const ATTEMPTS: u32 = 20;

type Objects = BTreeMap<Key, Object>;

/// Everything in our tables. A table whose sets are declared otherwise than we would, such as
/// one that counts when this one is not to, is reported as [`Object::Foreign`] and nothing else, so
/// that it is replaced whole.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours.
pub(crate) fn tables(
    connection: &mut Connection,
    counting: Counting,
) -> Result<Objects, BackendError> {
    let mut objects = Objects::new();
    for family in IpFamily::ALL {
        if owns_table(connection, family)? {
            objects.extend(retry(family, || table(connection, family, counting))?);
        }
    }
    Ok(objects)
}

/// The number of the ruleset now.
///
/// # Errors
///
/// The kernel could not be asked.
pub(crate) fn generation(connection: &mut Connection) -> Result<u32, BackendError> {
    let asked = connection.generation();
    asked.map(|it| it.id).map_err(|error| BackendError {
        operation: "ask for the generation of the ruleset".into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

/// Whether our table of this family is there.
///
/// # Errors
///
/// The kernel could not be asked, or a table of that name is not ours: it lacks our comment.
pub(crate) fn owns_table(
    connection: &mut Connection,
    family: IpFamily,
) -> Result<bool, BackendError> {
    let tables = retry(family, || connection.tables(encode::family(family)))?;
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

fn retry<T>(
    family: IpFamily,
    mut list: impl FnMut() -> Result<T, RequestError>,
) -> Result<T, BackendError> {
    let mut attempt = 1;
    loop {
        match list() {
            Ok(listed) => return Ok(listed),
            Err(RequestError::Interrupted { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => {
                return Err(BackendError {
                    operation: format!("list table {} {TABLE}", family.nft_name()),
                    reason: error.to_string(),
                    source: Some(Box::new(error)),
                });
            }
        }
    }
}

fn table(
    connection: &mut Connection,
    family: IpFamily,
    counting: Counting,
) -> Result<Objects, RequestError> {
    let mut objects = Objects::from([(Key::Table(family), Object::Table)]);
    for set in connection.sets(scope(family))? {
        let Some((key, object)) = declared(family, &set, counting) else {
            return Ok(Objects::from([(Key::Table(family), Object::Foreign)]));
        };
        if let Key::Set(_, name) = key {
            elements(connection, family, name, &mut objects)?;
        }
        objects.insert(key, object);
    }
    chains(connection, family, &mut objects)?;
    // The kernel cannot move a base chain: the table has to go.
    let moved = objects.iter().any(|(key, object)| match (key, object) {
        (Key::Chain(_, ChainName::Standing(name)), Object::Chain(chain)) => {
            chain.hook != layout::hook_of(*name)
        }
        (Key::Chain(_, ChainName::Standing(_)), _) => true,
        _ => false,
    });
    if moved {
        return Ok(Objects::from([(Key::Table(family), Object::Foreign)]));
    }
    Ok(objects)
}

/// A set as we would have declared it; `None` when it is declared otherwise.
fn declared(family: IpFamily, set: &Set, counting: Counting) -> Option<(Key, Object)> {
    if let Some(name) = SetName::parse(&set.name) {
        let counting = name.counting(counting);
        let same = definition::standing(family, name, counting) == *set;
        return same.then_some((Key::Set(family, name), Object::Set(counting)));
    }
    let sticky = Sticky {
        comment: set.comment.as_deref().unwrap_or_default().into(),
    };
    let name: Arc<str> = set.name.as_str().into();
    let same = definition::sticky(family, &name, &sticky) == *set;
    // A stranger's set under a name that we would not use is removed by the delta.
    let object = match same {
        true => Object::Sticky(sticky),
        false if name.starts_with(STICKY_PREFIX) => return None,
        false => Object::Foreign,
    };
    Some((Key::NamedSet(family, name), object))
}

fn chains(
    connection: &mut Connection,
    family: IpFamily,
    objects: &mut Objects,
) -> Result<(), RequestError> {
    let mut rules: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for rule in connection.rules(scope(family), None)? {
        rules.entry(rule.chain).or_default().push(rule.exprs);
    }
    for chain in connection.chains(scope(family))? {
        let hook = chain.hook.as_ref().map(hook);
        let object = match hook {
            Some(None) => Object::Foreign,
            hook => Object::Chain(Chain {
                hook: hook.flatten(),
                comment: chain.comment.as_deref().unwrap_or_default().into(),
                rules: Rules::Observed(rules.remove(&chain.name).unwrap_or_default()),
            }),
        };
        objects.insert(Key::Chain(family, ChainName::parse(&chain.name)), object);
    }
    Ok(())
}

/// `None` for a hook that we would not use.
fn hook(hook: &sluice_netlink::nftables::Hook) -> Option<Hook> {
    if hook.policy != Policy::Accept {
        return None;
    }
    Some(Hook {
        kind: match hook.kind {
            ChainKind::Filter => HookKind::Filter,
            ChainKind::Nat => HookKind::Nat,
            ChainKind::Route => return None,
        },
        point: match hook.point {
            NetlinkPoint::Prerouting => HookPoint::Prerouting,
            NetlinkPoint::Input => HookPoint::Input,
            NetlinkPoint::Forward => HookPoint::Forward,
            NetlinkPoint::Output => HookPoint::Output,
            NetlinkPoint::Postrouting => HookPoint::Postrouting,
        },
        priority: hook.priority,
    })
}

fn elements(
    connection: &mut Connection,
    family: IpFamily,
    set: SetName,
    objects: &mut Objects,
) -> Result<(), RequestError> {
    let mut ends = Vec::new();
    connection.for_each_element(scope(family), set.as_str(), |element| {
        if set.key() == KeyKind::Range {
            ends.push(RangeEnd::of(family, &element));
            return;
        }
        let key = decode_key(family, set.key(), element.key, element.key_end)
            .unwrap_or_else(|| foreign(&element));
        let object = Object::Element(Element {
            value: value(family, &element),
            comment: element.comment.map(Arc::from),
        });
        objects.insert(Key::Element(family, set, key), object);
    })?;
    ranges(family, set, ends, objects);
    Ok(())
}

fn foreign(element: &ElementRef<'_>) -> ElementKey {
    ElementKey::Foreign(element.key.into(), element.key_end.map(Into::into))
}

fn value(family: IpFamily, element: &ElementRef<'_>) -> ElementValue {
    match element.data {
        None => ElementValue::Member,
        Some(DataRef::Verdict(Verdict::Drop)) => ElementValue::Drop,
        Some(DataRef::Verdict(Verdict::Goto(chain))) => ElementValue::Goto(ChainName::parse(chain)),
        Some(DataRef::Verdict(_)) => ElementValue::Foreign,
        Some(DataRef::Value(bytes)) => match decode_endpoint(family, bytes) {
            Some(addr) => ElementValue::Endpoint(addr),
            None => ElementValue::Foreign,
        },
    }
}

/// One of the two elements that make a range; see [`crate::apply`].
struct RangeEnd {
    addr: Option<IpAddr>,
    is_end: bool,
    comment: Option<Arc<str>>,
}

impl RangeEnd {
    fn of(family: IpFamily, element: &ElementRef<'_>) -> Self {
        Self {
            addr: decode_addr(family, element.key),
            is_end: element.interval_end,
            comment: element.comment.map(Arc::from),
        }
    }
}

/// Puts starts and ends together. What is no prefix becomes a key that we would not write, and is
/// removed by the delta.
fn ranges(family: IpFamily, set: SetName, ends: Vec<RangeEnd>, objects: &mut Objects) {
    let mut ends: Vec<(IpAddr, RangeEnd)> = ends
        .into_iter()
        .filter_map(|it| Some((it.addr?, it)))
        .collect();
    // Where one range ends and the next begins, the end comes first.
    ends.sort_by_key(|(addr, it)| (*addr, !it.is_end));
    let mut rest = ends.into_iter().peekable();
    while let Some((first, start)) = rest.next() {
        if start.is_end {
            continue;
        }
        let end = rest.next_if(|(_, it)| it.is_end).map(|(addr, _)| addr);
        let last = match end {
            Some(end) => predecessor(end),
            None => last_address(family),
        };
        let key = match prefix(first, last) {
            Some(net) => ElementKey::Range(net),
            None => ElementKey::Foreign(octets(first).into(), end.map(|it| octets(it).into())),
        };
        let element = Element {
            value: ElementValue::Member,
            comment: start.comment,
        };
        objects.insert(Key::Element(family, set, key), Object::Element(element));
    }
}

fn predecessor(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(it) => IpAddr::V4(u32::from(it).saturating_sub(1).into()),
        IpAddr::V6(it) => IpAddr::V6(u128::from(it).saturating_sub(1).into()),
    }
}

fn last_address(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::V4(u32::MAX.into()),
        IpFamily::V6 => IpAddr::V6(u128::MAX.into()),
    }
}
