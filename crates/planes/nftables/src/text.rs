//! The ruleset in nft's own syntax: what `sluice render` prints and `nft -f` loads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_nft::{ChainKind, Hook, HookPoint};

use crate::definition::STICKY_CLIENTS;
use crate::name::{ChainName, TABLE};
use crate::object::{Chain, Key, Object, TABLE_COMMENT};
use crate::rule::{Action, Fields, Match, Rule, Sense, SetRef};
use crate::set::{
    Counting, Element, ElementKey, ElementValue, KeyKind, SetName, ValueKind, net_text,
};
use crate::sources::SourceList;

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

/// nft's type of an address.
fn address_type(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ipv4_addr",
        IpFamily::V6 => "ipv6_addr",
    }
}

fn set(
    out: &mut String,
    family: IpFamily,
    name: SetName,
    counting: Counting,
    elements: &[(&ElementKey, &Element)],
) -> fmt::Result {
    let word = match name.value() {
        ValueKind::Member => "set",
        ValueKind::Verdict | ValueKind::Endpoint => "map",
    };
    let addr = address_type(family);
    let ip = family.nft_name();
    writeln!(out, "\t{word} {name} {{")?;
    match name.key() {
        KeyKind::Address | KeyKind::Range => write!(out, "\t\ttype {addr}")?,
        KeyKind::Frontend => write!(out, "\t\ttype {addr} . inet_proto . inet_service")?,
        KeyKind::NodePort => write!(out, "\t\ttype inet_proto . inet_service")?,
        KeyKind::Hairpin => write!(out, "\t\ttype {addr} . {addr} . inet_proto . inet_service")?,
        // A slot is a plain number, which only `typeof` can name.
        KeyKind::FrontendSlot => write!(
            out,
            "\t\ttypeof {ip} daddr . meta l4proto . th dport . numgen random mod 1"
        )?,
        KeyKind::NodePortSlot => {
            write!(
                out,
                "\t\ttypeof meta l4proto . th dport . numgen random mod 1"
            )?;
        }
    }
    match name.value() {
        ValueKind::Member => writeln!(out)?,
        ValueKind::Verdict => writeln!(out, " : verdict")?,
        ValueKind::Endpoint => writeln!(out, " : {ip} daddr . th dport")?,
    }
    if name.key() == KeyKind::Range {
        writeln!(out, "\t\tflags interval")?;
    }
    if counting == Counting::Connections {
        writeln!(out, "\t\tcounter")?;
    }
    writeln!(out, "\t\tcomment \"{}\"", name.comment())?;
    listed(out, elements, |out, (key, it)| element(out, key, it))?;
    writeln!(out, "\t}}\n")
}

/// The elements of a set, one on each line.
fn listed<T>(
    out: &mut String,
    elements: &[T],
    write: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    for (position, it) in elements.iter().enumerate() {
        out.push_str(match position {
            0 => "\t\telements = { ",
            _ => ",\n\t\t\t     ",
        });
        write(out, it)?;
    }
    if !elements.is_empty() {
        out.push_str(" }\n");
    }
    Ok(())
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
    let ip = family.nft_name();
    writeln!(
        out,
        "\tset {name} {{\n\t\ttypeof {ip} saddr . numgen random mod 1"
    )?;
    writeln!(out, "\t\tsize {STICKY_CLIENTS}")?;
    writeln!(out, "\t\tflags dynamic,timeout")?;
    writeln!(out, "\t\tcomment \"{}\"\n\t}}\n", comment(text))
}

fn sources(out: &mut String, family: IpFamily, list: SourceList, ranges: &[IpNet]) -> fmt::Result {
    let addr = address_type(family);
    writeln!(out, "\tset {list} {{\n\t\ttype {addr}\n\t\tflags interval")?;
    listed(out, ranges, net_text)?;
    writeln!(out, "\t}}\n")
}

fn chain(out: &mut String, family: IpFamily, name: &ChainName, chain: &Chain) -> fmt::Result {
    writeln!(out, "\tchain {name} {{")?;
    if !chain.comment.is_empty() {
        writeln!(out, "\t\tcomment \"{}\"", comment(&chain.comment))?;
    }
    if let Some(it) = &chain.hook {
        hook(out, it)?;
    }
    for it in chain.rules.as_rules().iter() {
        out.push_str("\t\t");
        rule(out, family, it)?;
        out.push('\n');
    }
    writeln!(out, "\t}}\n")
}

fn hook(out: &mut String, hook: &Hook) -> fmt::Result {
    let kind = match hook.kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
        ChainKind::Route => "route",
    };
    let point = match hook.point {
        HookPoint::Prerouting => "prerouting",
        HookPoint::Input => "input",
        HookPoint::Forward => "forward",
        HookPoint::Output => "output",
        HookPoint::Postrouting => "postrouting",
    };
    writeln!(
        out,
        "\t\ttype {kind} hook {point} priority {}; policy accept;",
        hook.priority
    )
}

/// One rule on one line.
pub(crate) fn rule(out: &mut String, family: IpFamily, rule: &Rule) -> fmt::Result {
    let mut first = true;
    let mut space = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push(' ');
        }
    };
    for it in &rule.matches {
        space(out);
        condition(out, family, it)?;
    }
    for it in &rule.actions {
        space(out);
        action(out, family, it)?;
    }
    Ok(())
}

fn condition(out: &mut String, family: IpFamily, condition: &Match) -> fmt::Result {
    let ip = family.nft_name();
    let sense = |it: &Sense| match it {
        Sense::Is => "",
        Sense::IsNot => "!= ",
    };
    match condition {
        Match::Source(is, net) => {
            write!(out, "{ip} saddr {}", sense(is))?;
            net_text(out, net)
        }
        Match::Interface(is, name) => write!(out, "iifname {}\"{}\"", sense(is), comment(name)),
        Match::InterfacePrefix(is, prefix) => {
            write!(out, "iifname {}\"{}*\"", sense(is), comment(prefix))
        }
        Match::SourceIsLocal => out.write_str("fib saddr type local"),
        Match::DestinationIsLocal => out.write_str("fib daddr type local"),
        Match::DestinationNotLoopback => out.write_str(match family {
            IpFamily::V4 => "ip daddr != 127.0.0.0/8",
            IpFamily::V6 => "ip6 daddr != ::1",
        }),
        Match::NewConnection => out.write_str("ct state new"),
        Match::DestinationTranslated => out.write_str("ct status dnat"),
        Match::Marked(mark) => write!(out, "meta mark & {mark:#010x} == {mark:#010x}"),
        Match::Protocol(protocol) => write!(out, "meta l4proto {protocol}"),
        Match::Share(1, whole) => write!(out, "numgen random mod {whole} 0"),
        Match::Share(part, whole) => write!(out, "numgen random mod {whole} < {part}"),
        Match::Known(set, label) => {
            client_and_label(out, family, *label)?;
            write!(out, " @{set}")
        }
        Match::In(is, of, set) => {
            fields(out, family, *of)?;
            match set {
                SetRef::Standing(name) => write!(out, " {}@{name}", sense(is)),
                SetRef::Sources(list) => write!(out, " {}@{list}", sense(is)),
            }
        }
    }
}

fn action(out: &mut String, family: IpFamily, action: &Action) -> fmt::Result {
    let ip = family.nft_name();
    match action {
        Action::Jump(chain) => write!(out, "jump {chain}"),
        Action::Goto(chain) => write!(out, "goto {chain}"),
        Action::Count => out.write_str("counter"),
        Action::Drop => out.write_str("drop"),
        Action::Reject => out.write_str("reject"),
        Action::Mark(mark) => write!(out, "meta mark set meta mark | {mark:#010x}"),
        Action::Unmark(mark) => write!(out, "meta mark set meta mark & {:#010x}", !mark),
        Action::Masquerade => out.write_str("masquerade fully-random"),
        Action::Verdict(of, map) => {
            fields(out, family, *of)?;
            write!(out, " vmap @{map}")
        }
        Action::Balance(of, size, map) => {
            write!(out, "dnat {ip} to ")?;
            fields(out, family, *of)?;
            write!(out, " . numgen random mod {size} map @{map}")
        }
        Action::DestinationTo(addr) => write!(out, "dnat to {addr}"),
        Action::Remember(set, label, seconds) => {
            write!(out, "update @{set} {{ ")?;
            client_and_label(out, family, *label)?;
            write!(out, " timeout {seconds}s }}")
        }
    }
}

fn client_and_label(out: &mut String, family: IpFamily, label: u32) -> fmt::Result {
    let ip = family.nft_name();
    write!(out, "{ip} saddr . numgen random mod 1")?;
    match label {
        0 => Ok(()),
        _ => write!(out, " offset {label}"),
    }
}

fn fields(out: &mut String, family: IpFamily, fields: Fields) -> fmt::Result {
    let ip = family.nft_name();
    match fields {
        Fields::Source => write!(out, "{ip} saddr"),
        Fields::Destination => write!(out, "{ip} daddr"),
        Fields::Frontend => write!(out, "{ip} daddr . meta l4proto . th dport"),
        Fields::NodePort => out.write_str("meta l4proto . th dport"),
        Fields::Hairpin => write!(out, "{ip} saddr . {ip} daddr . meta l4proto . th dport"),
    }
}

/// [`comment`], shared as it is when nothing has to change: objects carry comments in the form in
/// which the kernel gives them back.
pub(crate) fn shared_comment(text: &Arc<str>) -> Arc<str> {
    match comment(text) {
        Cow::Borrowed(_) => text.clone(),
        Cow::Owned(changed) => changed.into(),
    }
}

/// A comment as nft can hold it: at most 127 bytes, no quote that could end it, nothing that
/// moves a terminal's cursor. Nearly all comments are names and pass as they are.
pub(crate) fn comment(text: &str) -> Cow<'_, str> {
    const MAX: usize = 127;
    let is_plain = |byte: u8| byte != b'"' && byte != b'\\' && !byte.is_ascii_control();
    if text.len() <= MAX && text.is_ascii() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let clean = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_control() => '?',
        c => c,
    };
    let mut out: String = text.chars().map(clean).collect();
    if out.len() > MAX {
        out.truncate(out.floor_char_boundary(MAX - 3));
        out.push_str("...");
    }
    Cow::Owned(out)
}
