//! Objects as the text that `ipset restore`, `ipvsadm -R` and `iptables-restore` read.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use sluice_model::{IpFamily, Protocol};
use sluice_xtables::script::Script;

use crate::object::{Balancing, DEVICE, Key, Object, Server};
use crate::script;
use crate::set::{MOST_MEMBERS, SetKind, SetName};

/// The data plane as text, a section for each program that reads it. Sections begin with a line
/// of `#`, and each can be fed to its program as it is.
pub fn data_plane(objects: &BTreeMap<Key, Object>) -> String {
    let mut text = String::new();
    let addresses = lines(objects, |key, _| address(key));
    section(&mut text, "ip -batch -", &addresses);
    section(&mut text, "ipset restore -exist", &lines(objects, set));
    let servers = lines(objects, |key, object| {
        server(key, object).filter(|_| !is_hidden(key, objects))
    });
    section(&mut text, "ipvsadm -R", &servers);
    for (family, program) in [
        (IpFamily::V4, "iptables-restore --noflush"),
        (IpFamily::V6, "ip6tables-restore --noflush"),
    ] {
        let rules =
            Script::new(|lines| script::write(lines, family, objects.iter(), &BTreeMap::new()));
        section(&mut text, program, &rules.text());
    }
    text
}

fn section(text: &mut String, program: &str, content: &str) {
    if !content.is_empty() {
        let blank = if text.is_empty() { "" } else { "\n" };
        *text += &format!("{blank}# {program}\n{content}");
    }
}

/// A line for each object that `line` has one for.
fn lines(
    objects: &BTreeMap<Key, Object>,
    line: impl Fn(&Key, &Object) -> Option<String>,
) -> String {
    let lines = objects.iter().filter_map(|(key, object)| line(key, object));
    lines.map(|it| it + "\n").collect()
}

fn address(key: &Key) -> Option<String> {
    match key {
        Key::Device => Some(format!("link add {DEVICE} type dummy")),
        Key::Address(ip @ IpAddr::V4(_)) => Some(format!("address add {ip}/32 dev {DEVICE}")),
        Key::Address(ip @ IpAddr::V6(_)) => {
            let options = "nodad preferred_lft 0";
            Some(format!("address add {ip}/128 dev {DEVICE} {options}"))
        }
        _ => None,
    }
}

fn set(key: &Key, object: &Object) -> Option<String> {
    match (key, object) {
        (Key::Set(family, set), _) => Some(format!("create {}", create(*family, *set))),
        (Key::Member(family, set, entry), Object::Member(mark)) => {
            let mark = mark.map(|it| format!(" skbmark {it:#x}/0xffffffff"));
            let name = set.name(*family);
            Some(format!("add {name} {entry}{}", mark.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Name, type and options of a set.
fn create(family: IpFamily, set: SetName) -> String {
    let (name, kind) = (set.name(family), set.kind());
    if kind == SetKind::Port {
        return format!("{name} {} range 0-65535", kind.as_str());
    }
    let family = match family {
        IpFamily::V4 => "inet",
        IpFamily::V6 => "inet6",
    };
    let marked = match kind {
        SetKind::MarkedAddressPort => " skbinfo",
        _ => "",
    };
    let kind = kind.as_str();
    format!("{name} {kind} family {family} maxelem {MOST_MEMBERS}{marked}")
}

fn server(key: &Key, object: &Object) -> Option<String> {
    match (key, object) {
        (Key::Server(server), Object::Server(balancing)) => {
            Some(format!("-A {} {}", name(server), options(balancing)))
        }
        (Key::Real(server, real), Object::Real(weight)) => {
            Some(format!("-a {} -r {real} -m -w {weight}", name(server)))
        }
        _ => None,
    }
}

/// Whether the object is of a NodePort behind a virtual IP with the same address, port and protocol.
fn is_hidden(key: &Key, objects: &BTreeMap<Key, Object>) -> bool {
    let (Key::Server(server) | Key::Real(server, _)) = key else {
        return false;
    };
    matches!(server, Server::NodePort(triple)
        if objects.contains_key(&Key::Server(Server::Address(*triple))))
}

/// A virtual server as ipvsadm names it.
fn name(server: &Server) -> String {
    match server {
        Server::Mark(IpFamily::V4, _, mark) => format!("-f {mark}"),
        Server::Mark(IpFamily::V6, _, mark) => format!("-f {mark} -6"),
        Server::Address(triple) | Server::NodePort(triple) => {
            let option = match triple.protocol {
                Protocol::Tcp => "-t",
                Protocol::Udp => "-u",
                Protocol::Sctp => "--sctp-service",
            };
            format!("{option} {}", SocketAddr::new(triple.ip, triple.port))
        }
    }
}

fn options(balancing: &Balancing) -> String {
    let Balancing {
        scheduler,
        hashing,
        persistence,
    } = balancing;
    let mut options = format!("-s {scheduler}");
    let flags = [(hashing.fallback, "flag-1"), (hashing.port, "flag-2")];
    let flags: Vec<&str> = flags.iter().filter(|it| it.0).map(|it| it.1).collect();
    if !flags.is_empty() {
        options += &format!(" -b {}", flags.join(","));
    }
    if let Some(seconds) = persistence {
        options += &format!(" -p {seconds}");
    }
    options
}
