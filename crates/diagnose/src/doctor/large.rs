//! Whether large packets arrive where small ones do: an interface on the way that takes fewer bytes, and a router that
//! does not say so, keep the answers of a server from its clients while connections open.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use sluice_route::{links, way};

use super::listed;
use super::report::Finding;
use crate::any_like;

/// The first port of traceroute, at which nobody listens: the pod's kernel refuses the datagram, which shows that it came.
const PORT: u16 = 33434;
/// How long that takes at most.
const PATIENCE: Duration = Duration::from_millis(300);

/// Sends each endpoint a packet as large as the interface to it allows, all at the same time. The kernel does not divide
/// it (`ip_no_pmtu_disc` is 0). Endpoints where also a small packet has no answer are left out.
pub(super) fn large_packets(endpoints: &BTreeSet<IpAddr>) -> Vec<Finding> {
    let results: Vec<(IpAddr, u32, bool)> = thread::scope(|scope| {
        let all = endpoints.iter();
        let running: Vec<_> = all.map(|it| scope.spawn(|| arrives(*it))).collect();
        let done = running.into_iter().filter_map(|it| it.join().ok());
        done.flatten().collect()
    });
    let (arrived, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|it| it.2);
    let mut findings: Vec<Finding> = lost
        .iter()
        .map(|(ip, mtu, _)| {
            let evidence = format!(
                "packets of {mtu} bytes to {ip} are lost, small ones arrive: an interface on the way has a smaller MTU"
            );
            let size = mtu - headers(*ip);
            Finding::fail("mtu", evidence).mend(format!(
                "ping -M do -s {size} {ip}, then smaller: ip link set the MTU that fits at both ends, also inside the pod and in \
                 the CNI plugin's configuration"
            ))
        })
        .collect();
    if !arrived.is_empty() {
        let sizes: BTreeSet<u32> = arrived.iter().map(|it| it.1).collect();
        let evidence = format!(
            "packets of {} bytes arrive at {} endpoints",
            listed(sizes),
            arrived.len()
        );
        findings.push(Finding::ok("mtu", evidence));
    }
    findings
}

/// The bytes before the data of a datagram.
fn headers(ip: IpAddr) -> u32 {
    if ip.is_ipv4() { 28 } else { 48 }
}

/// The size of the large packet, and whether it arrived; `None` when that cannot be known.
fn arrives(ip: IpAddr) -> Option<(IpAddr, u32, bool)> {
    let way = way(ip).ok().flatten().filter(|it| !it.is_local)?;
    let link = links()
        .ok()?
        .into_iter()
        .find(|it| it.index == way.interface)?;
    let size = usize::try_from(link.mtu.checked_sub(headers(ip))?).ok()?;
    let socket = UdpSocket::bind(any_like(ip)).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.connect(SocketAddr::new(ip, PORT)).ok()?;
    let is_refused = |size: usize| {
        let sent = socket
            .send(&vec![0; size])
            .and_then(|_| socket.recv(&mut [0; 8]));
        sent.is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused)
    };
    if !is_refused(1) {
        return None;
    }
    // A router's answer to the first teaches the kernel the MTU of the way: the second is divided and arrives.
    let arrives = is_refused(size) || is_refused(size);
    // The pod's kernel limits how often it refuses (`net.ipv4.icmp_ratelimit`).
    (arrives || is_refused(1)).then_some((ip, link.mtu, arrives))
}
