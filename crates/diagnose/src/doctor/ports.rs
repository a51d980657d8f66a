//! Programs of this machine that listen on the number of a NodePort: clients reach the Service in their
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sluice_model::Protocol;

use super::read;
use super::report::Finding;

/// State of a listening TCP socket (`net/tcp_states.h`).
const TCP_LISTEN: &str = "0A";
/// State of a UDP socket without peer.
const UDP_UNCONNECTED: &str = "07";

/// Whether a program listens on one of these ports, in the network namespace of the calling thread.
pub(super) fn node_ports(ports: &BTreeSet<(u16, Protocol)>) -> Vec<Finding> {
    let mut taken: BTreeMap<u64, (u16, Protocol)> = BTreeMap::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for (port, inode) in listeners(protocol) {
            if ports.contains(&(port, protocol)) {
                taken.insert(inode, (port, protocol));
            }
        }
    }
    if taken.is_empty() {
        return if ports.is_empty() {
            Vec::new()
        } else {
            vec![Finding::ok(
                "node ports",
                "no local program listens on them",
            )]
        };
    }
    let names = owners(&taken);
    let mut findings: Vec<Finding> = taken
        .iter()
        .map(|(inode, (port, protocol))| {
            let who = names.get(inode).map_or("a program", |it| &**it);
            let evidence = format!(
                "{who} listens on the NodePort {port}/{protocol} and gets no packets there"
            );
            Finding::warn("node ports", evidence)
                .mend("give the program or the Service another port")
        })
        .collect();
    findings.sort_by(|a, b| a.evidence.cmp(&b.evidence));
    findings.dedup();
    findings
}

/// Ports that sockets of a protocol listen on, with the sockets' inodes (`proc_net_tcp.rst`).
fn listeners(protocol: Protocol) -> Vec<(u16, u64)> {
    let state = match protocol {
        Protocol::Tcp => TCP_LISTEN,
        Protocol::Udp | Protocol::Sctp => UDP_UNCONNECTED,
    };
    let mut found = Vec::new();
    for suffix in ["", "6"] {
        let text = read(&format!("/proc/thread-self/net/{protocol}{suffix}"));
        for line in text.iter().flat_map(|it| it.lines()).skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(inode)) = (words.get(1), words.get(9)) else {
                continue;
            };
            let port = local
                .rsplit_once(':')
                .map(|it| u16::from_str_radix(it.1, 16));
            if words.get(3) == Some(&state)
                && let (Some(Ok(port)), Ok(inode)) = (port, inode.parse())
            {
                found.push((port, inode));
            }
        }
    }
    found
}

/// The processes that have these sockets, where that may be read: `nginx (pid 42)`.
fn owners<T>(inodes: &BTreeMap<u64, T>) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|it| it.parse::<u32>().ok())
        else {
            continue;
        };
        let descriptors = fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let link = fs::read_link(descriptor.path()).unwrap_or_default();
            let inode = link
                .to_str()
                .and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']'));
            let inode = inode.and_then(|it| it.parse().ok());
            if let Some(inode) = inode.filter(|it| inodes.contains_key(it)) {
                let name = read(&format!("/proc/{pid}/comm")).unwrap_or_default();
                found.insert(inode, format!("{name} (pid {pid})"));
            }
        }
    }
    found
}
