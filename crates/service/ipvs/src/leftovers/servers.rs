//! Virtual servers of kube-proxy's ipvs mode, and the interface with their addresses.
//!
//! Virtual servers of other programs (a load balancer on this machine) stay: kube-proxy's are those
//! on an address of its interface, and those that are members of its sets.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use nix::net::if_::if_nametoindex;
use sluice_model::Protocol;
use sluice_netlink::conntrack::{Conntrack, Flow, Tuple};
use sluice_netlink::ipset::Member;
use sluice_netlink::ipvs::{Change, Ipvs, Key, VirtualServer};
use sluice_route::Connection;

use sluice_plane::kube_proxy::DEVICE;
use sluice_plane::{LeftoverError, Removal};

use super::sets;
use crate::set::SetName;

/// The virtual servers as text: there when the kernel's module is.
const SERVERS: &str = "/proc/thread-self/net/ip_vs";

/// The connections of all virtual servers.
const CONNECTIONS: &str = "/proc/thread-self/net/ip_vs_conn";

const TCP: u8 = Protocol::Tcp.number();
const UDP: u8 = Protocol::Udp.number();

/// A connection through IPVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Through {
    /// As the client sent it.
    original: Tuple,
    /// As the real server answers.
    reply: Tuple,
    /// Whether it is established and has an end to wait for: datagrams have none.
    is_open: bool,
}

impl Through {
    /// Whether the client may send more. The port of a closed connection may be used by a new one of
    /// ours.
    fn is_live(&self) -> bool {
        self.is_open || self.original.protocol == UDP
    }
}

/// Whether kube-proxy's interface is there.
pub(super) fn has_device() -> bool {
    if_nametoindex(DEVICE).is_ok()
}

/// How many established connections go through virtual servers of kube-proxy; 0 also when that is not
/// known.
pub(super) fn open_connections() -> usize {
    if !has_device() {
        return 0;
    }
    let mut open = 0;
    let counted = servers().and_then(|(owned, keys)| {
        each_connection_to(&owned, &keys, |it| open += usize::from(it.is_open))
    });
    counted.map_or(0, |()| open)
}

/// Removes the virtual servers and the interface; returns the connections that went through them.
pub(super) fn remove(removal: &mut Removal) -> Vec<Through> {
    let result = servers();
    let (owned, servers) = removal.take(result);
    let mut connections = Vec::new();
    let result = each_connection_to(&owned, &servers, |it| connections.push(it));
    removal.take(result);
    let result = delete_servers(&servers);
    match removal.take(result) {
        0 => {}
        count => removal.removed.push(format!("{count} virtual servers")),
    }
    if has_device() {
        let deleted = Connection::open()
            .and_then(|mut it| it.delete_link(DEVICE))
            .map_err(LeftoverError::Request);
        if removal.take(deleted) {
            let interface = format!("interface {}", DEVICE);
            removal.removed.push(interface);
        }
    }
    connections
}

/// Deletes the conntrack entries of connections whose virtual server is gone: our rules translate the
/// next packet of each as that of a new connection. An endpoint answers a TCP segment of an unknown
/// connection with a reset, so the client need not wait for a timeout.
pub(super) fn forget(connections: &[Through], removal: &mut Removal) {
    if connections.is_empty() {
        return;
    }
    let result = Conntrack::open().map_err(LeftoverError::Connect);
    let result = result.and_then(|mut conntrack| {
        let mut live = connections.iter().filter(|it| it.is_live());
        live.try_for_each(|it| {
            let flow = Flow {
                original: it.original,
                reply: it.reply,
                id: None,
                zone: 0,
            };
            conntrack.delete(&flow).map_err(LeftoverError::Request)
        })
    });
    removal.take(result);
}

/// The keys of kube-proxy's virtual servers.
fn servers() -> Result<(Owned, Vec<Key>), LeftoverError> {
    if !Path::new(SERVERS).exists() {
        return Ok((Owned::default(), Vec::new()));
    }
    let Some(mut ipvs) = Ipvs::open().map_err(LeftoverError::Request)? else {
        return Ok((Owned::default(), Vec::new()));
    };
    let all = ipvs.virtual_servers().map_err(LeftoverError::Request)?;
    let owned = Owned::read()?;
    let keys = all.into_iter().map(|it| it.key);
    let keys = keys.filter(|it| owned.has_key(it)).collect();
    Ok((owned, keys))
}

fn delete_servers(servers: &[Key]) -> Result<usize, LeftoverError> {
    if servers.is_empty() {
        return Ok(0);
    }
    let Some(mut ipvs) = Ipvs::open().map_err(LeftoverError::Request)? else {
        return Ok(0);
    };
    let changes: Vec<Change> = servers.iter().copied().map(Change::DeleteVirtual).collect();
    let refused = ipvs.apply(&changes).map_err(LeftoverError::Request)?;
    match refused.into_iter().next() {
        Some(failure) => Err(LeftoverError::Request(failure.error)),
        None => Ok(servers.len()),
    }
}

/// Addresses, ports and marks of kube-proxy's virtual servers.
#[derive(Debug, Default)]
struct Owned {
    /// Addresses of its interface.
    addresses: BTreeSet<IpAddr>,
    /// Members of its sets.
    frontends: BTreeSet<Member>,
    /// Protocol and port of its NodePorts, on any address.
    node_ports: BTreeSet<(u8, u16)>,
    /// Marks of near clients, in our own ipvs mode.
    marks: BTreeSet<u32>,
}

impl Owned {
    fn read() -> Result<Self, LeftoverError> {
        let mut owned = Self {
            addresses: device_addresses(),
            ..Self::default()
        };
        let Some((mut sets, names)) = sets::open()? else {
            return Ok(owned);
        };
        for name in &names {
            let Some(set) = SetName::named(name) else {
                continue;
            };
            let protocol = match set {
                SetName::NodePortUdp => UDP,
                _ => TCP,
            };
            let mut members = || sets.members(name).map_err(LeftoverError::Request);
            match set {
                SetName::NodePortTcp | SetName::NodePortUdp => {
                    let members = members()?;
                    let ports = members.iter().filter_map(|it| it.port);
                    owned.node_ports.extend(ports.map(|it| (protocol, it)));
                }
                SetName::ClusterIp
                | SetName::ExternalIp
                | SetName::LoadBalancer
                | SetName::NodePortSctp => owned.frontends.extend(members()?),
                SetName::NearClients | SetName::NearNodePorts => {
                    let members = members()?;
                    let marks = members.iter().filter_map(|it| it.mark);
                    owned.marks.extend(marks.map(|it| it.value));
                }
                _ => {}
            }
        }
        Ok(owned)
    }

    fn has_key(&self, key: &Key) -> bool {
        match key {
            Key::Address(server) => self.has(server),
            Key::Mark { mark, .. } => self.marks.contains(mark),
        }
    }

    fn has(&self, server: &VirtualServer) -> bool {
        let member = Member {
            ip: Some(server.ip),
            port: Some(server.port),
            protocol: Some(server.protocol),
            ..Member::default()
        };
        self.addresses.contains(&server.ip)
            || self.frontends.contains(&member)
            || self.node_ports.contains(&(server.protocol, server.port))
    }
}

fn device_addresses() -> BTreeSet<IpAddr> {
    let index = if_nametoindex(DEVICE).ok();
    let all = sluice_route::addresses().unwrap_or_default().into_iter();
    let here = all.filter(|it| Some(it.interface) == index);
    here.map(|it| it.ip).collect()
}

/// Calls `visit` with every connection to these virtual servers.
fn each_connection_to(
    owned: &Owned,
    servers: &[Key],
    visit: impl FnMut(Through),
) -> Result<(), LeftoverError> {
    if servers.is_empty() {
        return Ok(());
    }
    let path = CONNECTIONS;
    let file = File::open(path).map(BufReader::new);
    let read = file.and_then(|it| parse(it, owned, visit));
    read.map_err(|source| LeftoverError::Read { path, source })
}

/// Reads `Pro FromIP FPrt ToIP TPrt DestIP DPrt State Expires` (`ip_vs_conn_seq_show`), line by line:
/// there may be a million. A connection that was found by its mark has the address that the client
/// dialled all the same.
fn parse(text: impl BufRead, owned: &Owned, mut visit: impl FnMut(Through)) -> io::Result<()> {
    let is_theirs = |it: &Through| {
        owned.has(&VirtualServer {
            ip: it.original.dst,
            protocol: it.original.protocol,
            port: it.original.dst_port,
        })
    };
    for line in text.lines() {
        if let Some(it) = connection(&line?).filter(is_theirs) {
            visit(it);
        }
    }
    Ok(())
}

fn connection(line: &str) -> Option<Through> {
    let mut words = line.split_whitespace();
    let protocol = words.next()?.parse::<Protocol>().ok()?.number();
    let mut end = || Some((address(words.next()?)?, port(words.next()?)?));
    let ((client, client_port), (server, server_port)) = (end()?, end()?);
    let (real, real_port) = end()?;
    let is_open = words.next()? == "ESTABLISHED";
    let tuple = |src, src_port, dst, dst_port| Tuple {
        src,
        dst,
        protocol,
        src_port,
        dst_port,
    };
    Some(Through {
        original: tuple(client, client_port, server, server_port),
        reply: tuple(real, real_port, client, client_port),
        is_open,
    })
}

/// Eight hexadecimal digits, or an IPv6 address in full.
fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        text.trim_matches(['[', ']']).parse().ok()
    } else {
        Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?).into())
    }
}

fn port(text: &str) -> Option<u16> {
    u16::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(ip: &str, protocol: u8, port: u16) -> VirtualServer {
        let ip = ip.parse().unwrap();
        VirtualServer { ip, protocol, port }
    }

    #[test]
    fn connections_of_known_servers_are_read() {
        let text = "\
Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0AF40005 9C40 0A60000A 0050 0AF40002 1F90 ESTABLISHED     899
TCP 0AF40005 9C41 0A60000A 0050 0AF40002 1F90 TIME_WAIT        60
TCP 0AF40005 9C42 0A60000B 0050 0AF40002 1F90 ESTABLISHED     899
UDP fd00:0000:0000:0000:0000:0000:0000:0005 9C40 fd00:0000:0000:0000:0000:0000:0000:000a 0035 \
fd00:0000:0000:0000:0000:0000:0000:0002 14E9 UDP             299
TCP bad line
";
        let owned = Owned {
            addresses: BTreeSet::from(["10.96.0.10", "fd00::a"].map(|it| it.parse().unwrap())),
            ..Owned::default()
        };
        let mut found = Vec::new();
        parse(text.as_bytes(), &owned, |it| found.push(it)).unwrap();
        let shown = found.iter().map(|it| {
            let Through {
                original,
                reply,
                is_open,
            } = it;
            format!(
                "{} {} {} {is_open}",
                original.src_port, original.dst, reply.src
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "40000 10.96.0.10 10.244.0.2 true",
                "40001 10.96.0.10 10.244.0.2 false",
                "40000 fd00::a fd00::2 false",
            ]
        );
    }

    #[test]
    fn servers_of_others_are_not_kube_proxys() {
        let owned = Owned {
            addresses: BTreeSet::from(["10.96.0.10".parse().unwrap()]),
            frontends: BTreeSet::from([Member {
                ip: Some("203.0.113.5".parse().unwrap()),
                port: Some(80),
                protocol: Some(6),
                ..Member::default()
            }]),
            node_ports: BTreeSet::from([(6, 30080)]),
            ..Owned::default()
        };
        for theirs in [
            server("10.96.0.10", 17, 53),
            server("203.0.113.5", 6, 80),
            server("192.168.0.1", 6, 30080),
        ] {
            assert!(owned.has(&theirs), "{theirs}");
        }
        for others in [
            server("203.0.113.5", 6, 443),
            server("203.0.113.9", 6, 80),
            server("192.168.0.1", 17, 30080),
        ] {
            assert!(!owned.has(&others), "{others}");
        }
    }
}
