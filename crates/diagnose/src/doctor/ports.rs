//! Programs of this machine that listen on the number of a NodePort: clients reach the Service in their
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

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
        for it in listeners(protocol) {
            let port = (it.address.port(), protocol);
            if ports.contains(&port) {
                taken.insert(it.inode, port);
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

/// A socket that takes packets of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
    pub(super) inode: u64,
    /// Connections that its program has not accepted yet; of UDP, bytes that it has not read.
    pub(super) waiting: u64,
}

/// The sockets of a protocol that listen, in the network namespace of the calling thread (`proc_net_tcp.rst`).
pub(super) fn listeners(protocol: Protocol) -> Vec<Listener> {
    let state = match protocol {
        Protocol::Tcp => TCP_LISTEN,
        Protocol::Udp | Protocol::Sctp => UDP_UNCONNECTED,
    };
    let mut found = Vec::new();
    for suffix in ["", "6"] {
        let text = read(&format!("/proc/thread-self/net/{protocol}{suffix}"));
        for line in text.iter().flat_map(|it| it.lines()).skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.get(3) == Some(&state) {
                found.extend(listener(protocol, &words));
            }
        }
    }
    found
}

/// The socket of a line: `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode`.
fn listener(protocol: Protocol, words: &[&str]) -> Option<Listener> {
    let (ip, port) = words.get(1)?.rsplit_once(':')?;
    let (_, waiting) = words.get(4)?.split_once(':')?;
    Some(Listener {
        protocol,
        address: SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?),
        inode: words.get(9)?.parse().ok()?,
        waiting: u64::from_str_radix(waiting, 16).ok()?,
    })
}

/// An address as the kernel prints it: each four bytes as a number in the machine's byte order.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        u32::from_str_radix(hex.get(at..at + 8)?, 16)
            .ok()
            .map(u32::to_ne_bytes)
    };
    Some(match hex.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_read_as_the_kernel_prints_them() {
        let line =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 0 4711 1";
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = listener(Protocol::Tcp, &words).expect("a socket");
        assert_eq!(found.address, "127.0.0.1:8080".parse().expect("an address"));
        assert_eq!((found.inode, found.waiting), (4711, 3));
        let six = address("B80D0120000000000000000001000000").expect("an address");
        assert_eq!(six, "2001:db8::1".parse::<IpAddr>().expect("an address"));
        assert_eq!(address("7F"), None);
    }
}
