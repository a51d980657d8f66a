//! Objects as the text that `ipset restore`, `ipvsadm -R` and `iptables-restore` read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use sluice_model::{IpFamily, Protocol};
use sluice_xtables::script::Script;

use crate::object::{Balancing, DEVICE, Key, Object, Server};
use crate::script;
use crate::set::{SetKind, SetName};

/// Most members of a set: the kernel's default, 65,536, is less than a large cluster has.
pub(crate) const MOST_MEMBERS: u32 = 1 << 20;

/// The data plane as text, a section for each program that reads it. Sections begin with a line
/// of `#`, and each can be fed to its program as it is.
pub fn data_plane(objects: &BTreeMap<Key, Object>) -> String {
    let mut text = String::new();
    section(&mut text, "ip -batch -", &addresses(objects));
    section(&mut text, "ipset restore -exist", &sets(objects));
    section(&mut text, "ipvsadm -R", &servers(objects));
    for (family, program) in [
        (IpFamily::V4, "iptables-restore --noflush"),
        (IpFamily::V6, "ip6tables-restore --noflush"),
    ] {
        let rules = Script::new(|lines| script::write(lines, family, objects.iter()));
        section(&mut text, program, &rules.text());
    }
    text
}

fn section(text: &mut String, program: &str, content: &str) {
    if !content.is_empty() {
        let blank = if text.is_empty() { "" } else { "\n" };
        write!(text, "{blank}# {program}\n{content}").expect("a String takes all text");
    }
}

fn addresses(objects: &BTreeMap<Key, Object>) -> String {
    let mut text = String::new();
    for key in objects.keys() {
        match key {
            Key::Device => line(&mut text, format_args!("link add {DEVICE} type dummy")),
            Key::Address(ip) => {
                let (bits, options) = match ip {
                    std::net::IpAddr::V4(_) => (32, ""),
                    std::net::IpAddr::V6(_) => (128, " nodad preferred_lft 0"),
                };
                line(
                    &mut text,
                    format_args!("address add {ip}/{bits} dev {DEVICE}{options}"),
                );
            }
            _ => {}
        }
    }
    text
}

fn sets(objects: &BTreeMap<Key, Object>) -> String {
    let mut text = String::new();
    for (key, object) in objects {
        match (key, object) {
            (Key::Set(family, set), _) => {
                let create = create(*family, *set);
                line(&mut text, format_args!("create {create}"));
            }
            (Key::Member(family, set, entry), Object::Member(mark)) => {
                let name = set.name(*family);
                match mark {
                    Some(mark) => line(
                        &mut text,
                        format_args!("add {name} {entry} skbmark {mark:#x}/0xffffffff"),
                    ),
                    None => line(&mut text, format_args!("add {name} {entry}")),
                }
            }
            _ => {}
        }
    }
    text
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

fn servers(objects: &BTreeMap<Key, Object>) -> String {
    let mut text = String::new();
    for (key, object) in objects {
        match (key, object) {
            (Key::Server(server), Object::Server(balancing)) if !is_hidden(server, objects) => {
                let options = options(balancing);
                line(&mut text, format_args!("-A {} {options}", name(server)));
            }
            (Key::Real(server, real), Object::Real(weight)) if !is_hidden(server, objects) => {
                let name = name(server);
                line(
                    &mut text,
                    format_args!("-a {name} -r {real} -m -w {weight}"),
                );
            }
            _ => {}
        }
    }
    text
}

/// Whether a virtual IP has the numbers of this NodePort.
fn is_hidden(server: &Server, objects: &BTreeMap<Key, Object>) -> bool {
    match server {
        Server::NodePort(triple) => objects.contains_key(&Key::Server(Server::Address(*triple))),
        Server::Address(_) | Server::Mark(..) => false,
    }
}

/// A virtual server as ipvsadm names it.
fn name(server: &Server) -> String {
    let Some(triple) = server.triple() else {
        let Server::Mark(family, _, mark) = server else {
            return String::new();
        };
        let family = match family {
            IpFamily::V4 => "",
            IpFamily::V6 => " -6",
        };
        return format!("-f {mark}{family}");
    };
    let option = match triple.protocol {
        Protocol::Tcp => "-t",
        Protocol::Udp => "-u",
        Protocol::Sctp => "--sctp-service",
    };
    format!("{option} {}", SocketAddr::new(triple.ip, triple.port))
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
        write!(options, " -b {}", flags.join(",")).expect("a String takes all text");
    }
    if let Some(seconds) = persistence {
        write!(options, " -p {seconds}").expect("a String takes all text");
    }
    options
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes all text");
}
