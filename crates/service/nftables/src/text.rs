//! The ruleset in nft's own syntax: what `sluice render` prints and `nft -f` loads.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use sluice_model::IpFamily;
use sluice_nft::text::{comment, prefix, write_chain, write_set};

use crate::definition;
use crate::name::{ChainName, TABLE, netlink};
use crate::object::{Chain, Key, Object, TABLE_COMMENT};
use crate::set::{Element, ElementKey, ElementValue, SetName};

/// The ruleset as text. Loading it replaces tables of the same name in one transaction.
pub fn ruleset(objects: &BTreeMap<Key, Object>) -> String {
    let mut out = String::new();
    for family in IpFamily::ALL {
        if objects.contains_key(&Key::Table(family)) {
            table(&mut out, family, objects).expect("writing to a string cannot fail");
        }
    }
    out
}

/// One object in nft's syntax, without its surroundings.
pub fn object(key: &Key, object: &Object) -> String {
    let mut out = String::new();
    let family = key.family();
    let written = match (key, object) {
        (Key::Element(_, _, key), Object::Element(it)) => element(&mut out, key, it),
        (Key::Chain(_, name), Object::Chain(it)) => chain(&mut out, family, name, it),
        (Key::Table(_), _) => write!(out, "{key}"),
        _ => set(&mut out, key, object, &[]),
    };
    written.expect("writing to a string cannot fail");
    out
}

fn table(out: &mut String, family: IpFamily, objects: &BTreeMap<Key, Object>) -> fmt::Result {
    let word = family.nft_name();
    writeln!(out, "table {word} {TABLE}\ndelete table {word} {TABLE}\n")?;
    writeln!(out, "table {word} {TABLE} {{")?;
    writeln!(out, "\tcomment \"{TABLE_COMMENT}\"")?;
    let mut elements: BTreeMap<SetName, Vec<(&ElementKey, &Element)>> = BTreeMap::new();
    for (key, object) in objects {
        if let (Key::Element(of, name, key), Object::Element(element)) = (key, object)
            && *of == family
        {
            elements.entry(*name).or_default().push((key, element));
        }
    }
    for (key, object) in objects.iter().filter(|(key, _)| key.family() == family) {
        match (key, object) {
            (Key::Chain(_, name), Object::Chain(it)) => chain(out, family, name, it)?,
            (Key::Set(_, name), _) => {
                let elements = elements.remove(name).unwrap_or_default();
                set(out, key, object, &elements)?;
            }
            _ => set(out, key, object, &[])?,
        }
    }
    writeln!(out, "}}\n")
}

/// Writes a set; nothing for an object that is no set.
fn set(
    out: &mut String,
    key: &Key,
    object: &Object,
    elements: &[(&ElementKey, &Element)],
) -> fmt::Result {
    let Some((set, shape)) = definition::of(key, object) else {
        return Ok(());
    };
    let family = netlink(key.family());
    if let Object::Sources(ranges) = object {
        return write_set(out, family, &set, shape, ranges, prefix);
    }
    let element = |out: &mut String, it: &(&ElementKey, &Element)| element(out, it.0, it.1);
    write_set(out, family, &set, shape, elements, element)
}

fn element(out: &mut String, key: &ElementKey, element: &Element) -> fmt::Result {
    write!(out, "{key}")?;
    if let Some(text) = &element.comment {
        write!(out, " comment \"{}\"", comment(text))?;
    }
    match &element.value {
        ElementValue::Member => Ok(()),
        value => write!(out, " : {value}"),
    }
}

fn chain(out: &mut String, family: IpFamily, name: &ChainName, chain: &Chain) -> fmt::Result {
    let rules = chain.rules.as_rules();
    let hook = chain.hook.as_ref();
    write_chain(out, netlink(family), name, &chain.comment, hook, &rules)
}
