//! The ruleset in nft's own syntax: what `sluice render` prints and `nft -f` loads.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_nft::text::{comment, prefix, write_chain, write_set};

use crate::definition::{self, SOURCES, STICKY};
use crate::name::{ChainName, TABLE, netlink};
use crate::object::{Chain, Key, Object, TABLE_COMMENT};
use crate::set::{Counting, Element, ElementKey, ElementValue, SetName};
use crate::source_list::SourceList;

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
        (Key::Set(_, name), Object::Set(it)) => set(&mut out, family, *name, *it, &[]),
        (Key::NamedSet(_, name), Object::Sticky(it)) => sticky(&mut out, family, name, it),
        (Key::Sources(_, list), Object::Sources(it)) => sources(&mut out, family, *list, it),
        (Key::Chain(_, name), Object::Chain(it)) => chain(&mut out, family, name, it),
        _ => write!(out, "{key}"),
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
            (Key::Set(_, name), Object::Set(it)) => {
                let none = Vec::new();
                let elements = elements.get(name).unwrap_or(&none);
                set(out, family, *name, *it, elements)?;
            }
            (Key::NamedSet(_, name), Object::Sticky(it)) => sticky(out, family, name, it)?,
            (Key::Sources(_, list), Object::Sources(it)) => sources(out, family, *list, it)?,
            (Key::Chain(_, name), Object::Chain(it)) => chain(out, family, name, it)?,
            _ => {}
        }
    }
    writeln!(out, "}}\n")
}

fn set(
    out: &mut String,
    family: IpFamily,
    name: SetName,
    counting: Counting,
    elements: &[(&ElementKey, &Element)],
) -> fmt::Result {
    let set = definition::standing(family, name, counting);
    let element = |out: &mut String, it: &(&ElementKey, &Element)| element(out, it.0, it.1);
    write_set(out, netlink(family), &set, name.shape(), elements, element)
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

fn sticky(out: &mut String, family: IpFamily, name: &str, text: &str) -> fmt::Result {
    let set = definition::sticky(family, name, text);
    let none: &[IpNet] = &[];
    write_set(out, netlink(family), &set, STICKY, none, |out, it| {
        prefix(out, it)
    })
}

fn sources(out: &mut String, family: IpFamily, list: SourceList, ranges: &[IpNet]) -> fmt::Result {
    let set = definition::sources(family, list);
    write_set(out, netlink(family), &set, SOURCES, ranges, |out, it| {
        prefix(out, it)
    })
}

fn chain(out: &mut String, family: IpFamily, name: &ChainName, chain: &Chain) -> fmt::Result {
    let rules = chain.rules.as_rules();
    let hook = chain.hook.as_ref();
    write_chain(out, netlink(family), name, &chain.comment, hook, &rules)
}
