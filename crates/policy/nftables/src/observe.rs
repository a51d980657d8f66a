//! Reads our tables back from the kernel.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::request::uninterrupted;
use sluice_nft::{DataRef, ElementRef, Kernel, Ranges, Reader, Table, Verdict, owned};
use sluice_policy_plan::PortRange;
use sluice_reconcile::BackendError;

use crate::TABLE;
use crate::name::{ChainName, SetName, netlink, scope};
use crate::object::{Chain, Element, Entry, Key, Object};
use crate::set::{self, Kind};

/// Only a table with this comment is ours.
pub(crate) const TABLE_COMMENT: &str = "Sluice: network policies of this node's pods";

type Objects = BTreeMap<Key, Object>;

/// All objects of our table of a family. A table with a set that we would declare otherwise, with ranges that we would
/// not write or with a base chain elsewhere, and a dormant one, is one [`Object::Foreign`], so that it is replaced as a whole.
pub(crate) fn table(kernel: &mut impl Kernel, family: IpFamily) -> Result<Objects, BackendError> {
    match ours(kernel, family)? {
        None => return Ok(Objects::new()),
        Some(it) if it.is_dormant => return Ok(foreign(family)),
        Some(_) => {}
    }
    let listed = uninterrupted(|| list(kernel, family));
    let what = || format!("list table {} {TABLE}", family.nft_name());
    listed.map_err(|error| BackendError::new(what(), error))
}

/// Our table of this family, if it exists.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours: it lacks our comment.
pub(crate) fn ours(
    kernel: &mut impl Kernel,
    family: IpFamily,
) -> Result<Option<Table>, BackendError> {
    owned::table(kernel, scope(family), TABLE_COMMENT)
}

/// A table that is to be replaced as a whole.
fn foreign(family: IpFamily) -> Objects {
    Objects::from([(Key::Table(family), Object::Foreign)])
}

fn list(kernel: &mut impl Kernel, family: IpFamily) -> Result<Objects, RequestError> {
    let mut objects = Objects::from([(Key::Table(family), Object::Table)]);
    for (listed, _) in kernel.sets(scope(family))? {
        let name = SetName::parse(&listed.name);
        let Some(kind) = set::kind(family, &name, &listed) else {
            return Ok(foreign(family));
        };
        if !kind.is_volatile() && !elements(kernel, family, &name, kind, &mut objects)? {
            return Ok(foreign(family));
        }
        objects.insert(Key::Set(family, name), Object::Set(Box::new(listed)));
    }
    let mut rules: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for rule in kernel.rules(scope(family), None)? {
        rules.entry(rule.chain).or_default().push(rule.exprs);
    }
    for chain in kernel.chains(scope(family))? {
        let observed = Chain {
            hook: chain.hook,
            rules: Vec::new(),
            exprs: rules.remove(&chain.name).unwrap_or_default(),
        };
        let key = Key::Chain(family, ChainName::listed(&chain.name));
        objects.insert(key, Object::Chain(observed));
    }
    // The kernel cannot move a base chain: the table has to go.
    let wanted: Objects = crate::standing(family, None).into_iter().collect();
    let is_moved = |(key, object): (&Key, &Object)| {
        let Object::Chain(listed) = object else {
            return false;
        };
        let hook = match wanted.get(key) {
            Some(Object::Chain(wanted)) => wanted.hook,
            _ => None,
        };
        hook != listed.hook
    };
    if objects.iter().any(is_moved) {
        return Ok(foreign(family));
    }
    Ok(objects)
}

/// Lists a set; whether all of its ranges are ones that we would write.
fn elements(
    kernel: &mut impl Kernel,
    family: IpFamily,
    name: &SetName,
    kind: Kind,
    objects: &mut Objects,
) -> Result<bool, RequestError> {
    let mut ranges = Ranges::new(netlink(family));
    let mut is_ours = true;
    kernel.for_each_element(scope(family), &name.to_string(), |element| {
        if kind == Kind::Prefixes {
            return ranges.add(&element);
        }
        let entry = entry(family, kind, &element);
        is_ours &= entry.is_some() || kind != Kind::Ranges;
        let entry = entry.unwrap_or_else(|| Entry::Foreign(element.key.to_vec()));
        let goto = match element.data {
            Some(DataRef::Verdict(Verdict::Goto(chain))) => Some(ChainName::listed(chain)),
            _ => None,
        };
        let comment = element.comment.map(Into::into);
        let key = Key::Element(family, name.clone(), entry);
        objects.insert(key, Object::Element(Element { goto, comment }));
    })?;
    for range in ranges.finish() {
        let Some(net) = range.prefix() else {
            return Ok(false);
        };
        let key = Key::Element(family, name.clone(), Entry::Prefix(net));
        objects.insert(key, Object::Element(Element::default()));
    }
    Ok(is_ours)
}

/// An element as we would have written it.
fn entry(family: IpFamily, kind: Kind, element: &ElementRef<'_>) -> Option<Entry> {
    let mut key = Reader(element.key);
    let family = netlink(family);
    let entry = match kind {
        Kind::Pods | Kind::Addresses => Entry::Address(key.address(family)?),
        Kind::Itself | Kind::Logged => {
            let both = (key.address(family)?, key.address(family)?);
            (both.0 == both.1).then_some(Entry::Itself(both.0))?
        }
        Kind::Ports => Entry::Port(key.address(family)?, key.port()?),
        Kind::Ranges => {
            let (number, first) = (key.protocol()?, key.port()?);
            let protocol = sluice_model::Protocol::ALL;
            let protocol = protocol.into_iter().find(|it| it.number() == number)?;
            let mut last = Reader(element.key_end.unwrap_or(element.key));
            if last.protocol()? != number {
                return None;
            }
            let last = last.port()?;
            Entry::Ports(PortRange {
                protocol,
                first,
                last,
            })
        }
        Kind::Prefixes | Kind::Cut => return None,
    };
    key.end().map(|()| entry)
}
