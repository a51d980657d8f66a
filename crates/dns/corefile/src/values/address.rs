//! Addresses to listen on and to forward to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::quoted;
use crate::BindTarget;

/// Host and port as in `127.0.0.1:53`, `[::1]:53`, `:53`; `None` when there is no port.
pub(crate) fn host_port(word: &str) -> Option<(&str, &str)> {
    let (host, port) = word.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(host) => Some((host.strip_suffix(']')?, port)),
        None if host.contains([':', '[', ']']) => None,
        None => Some((host, port)),
    }
}

/// An address to listen on: `:8080`, `127.0.0.1:8080`, `localhost:8080`, `[::1]:8080`.
pub(crate) fn listen(word: &str) -> Result<SocketAddr, String> {
    let wrong = || {
        format!(
            "{} is no address and port such as :8080 or 127.0.0.1:8080",
            quoted(word)
        )
    };
    let (host, port) = host_port(word).ok_or_else(wrong)?;
    let address = match host {
        "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().map_err(|_| wrong())?,
    };
    Ok(SocketAddr::new(address, port.parse().map_err(|_| wrong())?))
}

/// An argument of `bind`.
pub(crate) fn bind_target(word: &str) -> Result<BindTarget, String> {
    /// `IFNAMSIZ` of Linux, less the zero at the end.
    const MAX_NAME: usize = 15;
    if let Ok(address) = word.parse() {
        return Ok(BindTarget::Address(address));
    }
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if word.is_empty() || word.len() > MAX_NAME || word.contains(bad) {
        return Err(format!(
            "{} is no address and no name of an interface",
            quoted(word)
        ));
    }
    Ok(BindTarget::Interface(word.to_owned()))
}

/// An address, and what follows `%` in it.
pub(crate) fn ip_with_interface(word: &str) -> Option<(IpAddr, Option<&str>)> {
    let (address, interface) = match word.split_once('%') {
        Some((address, interface)) => (address, Some(interface).filter(|it| !it.is_empty())),
        None => (word, None),
    };
    Some((address.parse().ok()?, interface))
}
