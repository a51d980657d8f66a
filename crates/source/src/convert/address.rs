//! Addresses, prefixes and ports.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_yaml::quoted;

use super::fault::{At, Faults};

/// Parses an address as Kubernetes does: leading zeros in IPv4 are decimal (`ParseIPSloppy` of
/// k8s.io/utils/net). IPv4-mapped IPv6 is refused: it would be one address in two families.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let parsed = match sloppy_v4(text) {
        Some(v4) => Some(IpAddr::V4(v4)),
        None if text.contains(':') => text.parse().ok(),
        None => None,
    };
    match parsed {
        None => Err(format!("{} is not an IP address", quoted(text))),
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => Err(format!(
            "{} is IPv4 written as IPv6: write the IPv4 address",
            quoted(text)
        )),
        Some(ip) => Ok(ip),
    }
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 20 || !part.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Parses a prefix; host bits are cut off, as Go does.
pub(crate) fn parse_net(text: &str) -> Result<IpNet, String> {
    let bad = || format!("{} is not an address range like 10.0.0.0/8", quoted(text));
    let (ip, length) = text.split_once('/').ok_or_else(bad)?;
    let ip = parse_ip(ip).map_err(|_| bad())?;
    if length.is_empty() || length.len() > 3 || !length.bytes().all(|it| it.is_ascii_digit()) {
        return Err(bad());
    }
    let length = length.parse().map_err(|_| bad())?;
    IpNet::new(ip, length)
        .map(|it| it.trunc())
        .map_err(|_| bad())
}

/// Refuses addresses that packets of other machines cannot have as destination.
pub(crate) fn routable(ip: IpAddr) -> Result<IpAddr, String> {
    let what = if ip.is_unspecified() {
        "unspecified"
    } else if matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 0) {
        "of the network 0.0.0.0/8"
    } else if ip.is_loopback() {
        "a loopback address"
    } else if ip.is_multicast() {
        "a multicast address"
    } else if ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        "the broadcast address"
    } else {
        return Ok(ip);
    };
    Err(format!("{ip} is {what}"))
}

/// Also refuses link-local addresses (cloud metadata services live there), as the API server
/// does for endpoints and external IPs.
pub(crate) fn not_special(ip: IpAddr) -> Result<IpAddr, String> {
    let link_local = match ip {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    if link_local {
        return Err(format!("{ip} is a link-local address"));
    }
    routable(ip)
}

/// Checks a port number.
pub(crate) fn port(number: i64) -> Result<NonZeroU16, String> {
    u16::try_from(number)
        .ok()
        .and_then(NonZeroU16::new)
        .ok_or_else(|| format!("{number} is not in 1..=65535"))
}

/// Checks a protocol; absent is TCP. The API accepts upper case only.
pub(crate) fn protocol(text: Option<&str>) -> Result<Protocol, String> {
    match text {
        None | Some("" | "TCP") => Ok(Protocol::Tcp),
        Some("UDP") => Ok(Protocol::Udp),
        Some("SCTP") => Ok(Protocol::Sctp),
        Some(other) => Err(one_of(other, "TCP, UDP, SCTP")),
    }
}

/// The message for a word that is not in a list.
pub(crate) fn one_of(text: &str, words: &str) -> String {
    format!("{} is not one of {words}", quoted(text))
}

pub(crate) fn nets(list: &[String], at: At<'_>, faults: &mut Faults<'_>) -> Vec<IpNet> {
    let nets: Vec<IpNet> = (list.iter().enumerate())
        .filter_map(|(i, text)| faults.take(at.index(i), parse_net(text)))
        .collect();
    let v6 = (nets.iter()).filter(|it| IpFamily::of_net(it) == IpFamily::V6);
    let v6 = v6.count();
    if v6 > 1 || nets.len() - v6 > 1 {
        faults.refuse(at, "more than one range of a family");
    }
    nets
}
