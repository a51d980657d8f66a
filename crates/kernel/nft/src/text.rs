//! Rules, sets and chains in nft's own syntax, as `nft list` prints them and `nft -f` loads them.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use ipnet::IpNet;
use sluice_netlink::Family;

use crate::object::{ChainKind, Hook, HookPoint, Policy, Set, SetFlags};
use crate::rule::{Action, ConnectionState, Field, Match, Rule, Sense, Side};
use crate::shape::{Shape, Value};

/// Most bytes of a comment.
const COMMENT_MAX: usize = 127;

/// The word of a family: `ip` or `ip6`.
#[must_use]
pub const fn family_word(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ip6",
    }
}

impl<S: Display, C: Display> Rule<S, C> {
    /// Writes the rule on one line, a counter without its count, as nft reads it.
    ///
    /// # Errors
    /// As of `out`.
    pub fn write(&self, out: &mut impl Write, family: Family) -> fmt::Result {
        let mut separator = "";
        let packet = Packet {
            family,
            protocol: self.protocol(),
        };
        let of_header = |it: &Match<S>| matches!(it, Match::Port(..) | Match::TcpFlags { .. });
        let says_protocol = self.matches.iter().any(of_header);
        for it in &self.matches {
            // nft prints the protocol with the port.
            if says_protocol && matches!(it, Match::Protocol(_)) {
                continue;
            }
            out.write_str(separator)?;
            separator = " ";
            packet.condition(out, it)?;
        }
        for it in &self.actions {
            out.write_str(separator)?;
            separator = " ";
            packet.action(out, it)?;
        }
        Ok(())
    }

    /// The protocol of all packets that the rule matches, if there is one.
    fn protocol(&self) -> Option<u8> {
        self.matches.iter().find_map(|it| match it {
            Match::Protocol(protocol) => Some(*protocol),
            _ => None,
        })
    }
}

/// The conditions that nft knows of a packet where it prints a field.
#[derive(Clone, Copy)]
struct Packet {
    family: Family,
    protocol: Option<u8>,
}

impl Packet {
    fn condition(self, out: &mut impl Write, condition: &Match<impl Display>) -> fmt::Result {
        let ip = family_word(self.family);
        match condition {
            Match::Address(side, is, net) => {
                write!(out, "{ip} {}addr {}", letter(*side), sense(*is))?;
                prefix(out, net)
            }
            Match::IsLocal(side) => write!(out, "fib {}addr type local", letter(*side)),
            Match::Interface(is, name) => {
                write!(out, "iifname {}\"{}\"", sense(*is), comment(name))
            }
            Match::InterfacePrefix(is, prefix) => {
                write!(out, "iifname {}\"{}*\"", sense(*is), comment(prefix))
            }
            Match::OutgoingInterface(is, name) => {
                write!(out, "oifname {}\"{}\"", sense(*is), comment(name))
            }
            Match::State(states) => {
                out.write_str("ct state ")?;
                separated(out, ",", states.iter().map(|it| state_word(*it)))
            }
            Match::DestinationTranslated => out.write_str("ct status dnat"),
            Match::Marked(mark) => write!(out, "meta mark & {mark:#010x} == {mark:#010x}"),
            Match::Protocol(protocol) => write!(out, "meta l4proto {}", protocol_word(*protocol)),
            Match::Port(side, port) => {
                write!(out, "{} {}port {port}", self.header(), letter(*side))
            }
            Match::TcpFlags { mask, value } => {
                write!(out, "tcp flags & {mask:#04x} == {value:#04x}")
            }
            Match::Share(1, whole) => write!(out, "numgen random mod {whole} 0"),
            Match::Share(part, whole) => write!(out, "numgen random mod {whole} < {part}"),
            Match::OnePerSecond => out.write_str("limit rate 1/second burst 1 packets"),
            Match::In(is, of, set) => {
                self.key(out, of)?;
                write!(out, " {}@{set}", sense(*is))
            }
        }
    }

    fn action(
        self,
        out: &mut impl Write,
        action: &Action<impl Display, impl Display>,
    ) -> fmt::Result {
        match action {
            Action::Accept => out.write_str("accept"),
            Action::Jump(chain) => write!(out, "jump {chain}"),
            Action::Goto(chain) => write!(out, "goto {chain}"),
            Action::Return => out.write_str("return"),
            Action::Count => out.write_str("counter"),
            Action::Log { prefix, group } => {
                write!(out, "log prefix \"{}\" group {group}", comment(prefix))
            }
            Action::Drop => out.write_str("drop"),
            Action::Reject => out.write_str("reject"),
            Action::Mark(mark) => write!(out, "meta mark set meta mark | {mark:#010x}"),
            Action::Unmark(mark) => write!(out, "meta mark set meta mark & {:#010x}", !mark),
            Action::Masquerade => out.write_str("masquerade fully-random"),
            Action::SourceTo(addr) => write!(out, "snat to {addr} fully-random"),
            Action::Verdict(of, map) => {
                self.key(out, of)?;
                write!(out, " vmap @{map}")
            }
            Action::DestinationOf(of, map) => {
                write!(out, "dnat {} to ", family_word(self.family))?;
                self.key(out, of)?;
                write!(out, " map @{map}")
            }
            Action::DestinationTo(addr) => write!(out, "dnat to {addr}"),
            Action::SetPort {
                side,
                protocol,
                port,
            } => {
                let header = protocol_word(*protocol);
                write!(out, "{header} {}port set {port}", letter(*side))
            }
            Action::Untrack => out.write_str("notrack"),
            Action::Trace => out.write_str("meta nftrace set 1"),
            Action::Remember(set, of, seconds) => {
                write!(out, "update @{set} {{ ")?;
                self.key(out, of)?;
                write!(out, " timeout {seconds}s }}")
            }
        }
    }

    /// Writes the fields of a key that is looked up, or of a set's elements.
    fn key(self, out: &mut impl Write, fields: &[Field]) -> fmt::Result {
        let ip = family_word(self.family);
        for (position, field) in fields.iter().enumerate() {
            if position > 0 {
                out.write_str(" . ")?;
            }
            match field {
                Field::Address(side) => write!(out, "{ip} {}addr", letter(*side))?,
                Field::Protocol => out.write_str("meta l4proto")?,
                Field::Port(side) => write!(out, "{} {}port", self.header(), letter(*side))?,
                Field::Random { modulus, offset } => {
                    write!(out, "numgen random mod {modulus}")?;
                    if *offset != 0 {
                        write!(out, " offset {offset}")?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The word of the transport header.
    fn header(self) -> Cow<'static, str> {
        self.protocol.map_or("th".into(), protocol_word)
    }
}

/// Writes a set or map with its elements, one on each line, which `element` writes.
///
/// # Errors
/// As of `out`.
pub fn write_set<W: Write, E>(
    out: &mut W,
    family: Family,
    set: &Set,
    shape: Shape<'_>,
    elements: &[E],
    element: impl Fn(&mut W, &E) -> fmt::Result,
) -> fmt::Result {
    let word = if set.data.is_some() { "map" } else { "set" };
    write!(out, "\t{word} {} {{\n\t\t", set.name)?;
    shape_line(out, family, shape)?;
    if let Some(size) = set.size {
        writeln!(out, "\t\tsize {size}")?;
    }
    if set.counter {
        writeln!(out, "\t\tcounter")?;
    }
    let flags = [
        (SetFlags::DYNAMIC, "dynamic"),
        (SetFlags::INTERVAL, "interval"),
        (SetFlags::TIMEOUT, "timeout"),
    ];
    let mut flags = flags.into_iter().filter(|it| set.flags.contains(it.0));
    if let Some((_, first)) = flags.next() {
        write!(out, "\t\tflags {first}")?;
        flags.try_for_each(|(_, it)| write!(out, ",{it}"))?;
        out.write_char('\n')?;
    }
    if let Some(text) = &set.comment {
        writeln!(out, "\t\tcomment \"{}\"", comment(text))?;
    }
    for (position, it) in elements.iter().enumerate() {
        out.write_str(match position {
            0 => "\t\telements = { ",
            _ => ",\n\t\t\t     ",
        })?;
        element(out, it)?;
    }
    if !elements.is_empty() {
        out.write_str(" }\n")?;
    }
    out.write_str("\t}\n\n")
}

/// Writes the type of the elements. A random number has no type of its own, so `typeof` names it.
fn shape_line(out: &mut impl Write, family: Family, shape: Shape<'_>) -> fmt::Result {
    let packet = Packet {
        family,
        protocol: None,
    };
    if shape.has_number() {
        out.write_str("typeof ")?;
        packet.key(out, shape.key)?;
    } else {
        out.write_str("type ")?;
        types(out, family, shape.key)?;
    }
    match shape.value {
        Value::None => {}
        Value::Verdict => out.write_str(" : verdict")?,
        Value::Fields(fields) if shape.has_number() => {
            out.write_str(" : ")?;
            packet.key(out, fields)?;
        }
        Value::Fields(fields) => {
            out.write_str(" : ")?;
            types(out, family, fields)?;
        }
    }
    out.write_char('\n')
}

fn types(out: &mut impl Write, family: Family, fields: &[Field]) -> fmt::Result {
    let word = |field: &Field| match (field, family) {
        (Field::Address(_), Family::Ipv4) => "ipv4_addr",
        (Field::Address(_), Family::Ipv6) => "ipv6_addr",
        (Field::Protocol, _) => "inet_proto",
        (Field::Port(_), _) => "inet_service",
        (Field::Random { .. }, _) => "integer",
    };
    separated(out, " . ", fields.iter().map(word))
}

/// Writes a chain: its comment, its hook, its rules.
///
/// # Errors
/// As of `out`.
pub fn write_chain<S: Display, C: Display>(
    out: &mut impl Write,
    family: Family,
    name: &dyn Display,
    about: &str,
    hook: Option<&Hook>,
    rules: &[Rule<S, C>],
) -> fmt::Result {
    writeln!(out, "\tchain {name} {{")?;
    if !about.is_empty() {
        writeln!(out, "\t\tcomment \"{}\"", comment(about))?;
    }
    if let Some(it) = hook {
        write_hook(out, it)?;
    }
    for rule in rules {
        out.write_str("\t\t")?;
        rule.write(out, family)?;
        out.write_char('\n')?;
    }
    out.write_str("\t}\n\n")
}

fn write_hook(out: &mut impl Write, hook: &Hook) -> fmt::Result {
    let kind = match hook.kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
        ChainKind::Route => "route",
    };
    let policy = match hook.policy {
        Policy::Accept => "accept",
        Policy::Drop => "drop",
    };
    let (point, priority) = (hook.point.word(), hook.priority);
    writeln!(
        out,
        "\t\ttype {kind} hook {point} priority {priority}; policy {policy};"
    )
}

impl HookPoint {
    /// The word of nft.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }
}

/// Writes a prefix, or the address alone when it is a single one, as nft lists it.
///
/// # Errors
/// As of `out`.
pub fn prefix(out: &mut impl Write, net: &IpNet) -> fmt::Result {
    if net.prefix_len() == net.max_prefix_len() {
        write!(out, "{}", net.addr())
    } else {
        write!(out, "{net}")
    }
}

/// A comment that nft can hold: at most 127 bytes, no quote that could end it, nothing that moves a terminal's
/// cursor. Nearly all comments are names, which do not change.
#[must_use]
pub fn comment(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte != b'"' && byte != b'\\' && !byte.is_ascii_control();
    if text.len() <= COMMENT_MAX && text.is_ascii() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let clean = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_control() => '?',
        c => c,
    };
    let mut out: String = text.chars().map(clean).collect();
    if out.len() > COMMENT_MAX {
        out.truncate(out.floor_char_boundary(COMMENT_MAX - 3));
        out.push_str("...");
    }
    Cow::Owned(out)
}

/// The letter with which nft's names of addresses and ports begin.
fn letter(side: Side) -> char {
    match side {
        Side::Source => 's',
        Side::Destination => 'd',
    }
}

fn sense(sense: Sense) -> &'static str {
    match sense {
        Sense::Is => "",
        Sense::IsNot => "!= ",
    }
}

fn state_word(state: ConnectionState) -> &'static str {
    match state {
        ConnectionState::Invalid => "invalid",
        ConnectionState::Established => "established",
        ConnectionState::Related => "related",
        ConnectionState::New => "new",
        ConnectionState::Untracked => "untracked",
    }
}

pub(crate) fn protocol_word(protocol: u8) -> Cow<'static, str> {
    match protocol {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "ipv6-icmp".into(),
        132 => "sctp".into(),
        other => other.to_string().into(),
    }
}

fn separated(
    out: &mut impl Write,
    separator: &str,
    words: impl Iterator<Item = &'static str>,
) -> fmt::Result {
    for (position, word) in words.enumerate() {
        if position > 0 {
            out.write_str(separator)?;
        }
        out.write_str(word)?;
    }
    Ok(())
}
