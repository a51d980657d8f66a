//! The resolver of this machine, for a lab whose nodes have no way out.
//!
//! ```text
//! lab up ─▶ a socket to the resolver, made before the lab's network ─▶ standard output of `init`, and of each `serve`
//! query ─▶ LAN of the lab ─▶ serve ─▶ that socket ─▶ the resolver
//! ```
//!
//! A socket belongs to the network in which it was made, so nothing of the lab runs outside of it. The socket is connected: nobody
//! but the resolver can send to it.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd as _;

use anyhow::Context;
use nix::unistd::dup2_stdout;

/// The port of DNS.
pub(crate) const PORT: u16 = 53;

/// The configuration of the machine's resolver.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A socket to the first server of this machine's `/etc/resolv.conf`, in the network of this process.
///
/// # Errors
///
/// The file cannot be read or names no server, or the system refuses the socket.
pub fn connect() -> anyhow::Result<UdpSocket> {
    let text = fs::read_to_string(RESOLV_CONF).context(RESOLV_CONF)?;
    let server = first_server(&text);
    let server = server.with_context(|| format!("{RESOLV_CONF} names no server"))?;
    let any: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).and_then(|it| it.connect((server, PORT)).map(|()| it));
    socket.with_context(|| format!("a socket to {server}"))
}

/// The first server of a `resolv.conf` whose address needs no interface.
fn first_server(text: &str) -> Option<IpAddr> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut it| match it.next()? {
        "nameserver" => it.next()?.parse().ok(),
        _ => None,
    })
}

/// Takes the socket that [`connect`] made from standard output, which is the log from now on.
///
/// # Errors
///
/// The system's.
pub(crate) fn take_socket() -> anyhow::Result<UdpSocket> {
    let socket = io::stdout().as_fd().try_clone_to_owned();
    let socket = socket.context("the socket to the machine's resolver")?;
    dup2_stdout(io::stderr()).context("write to the log")?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_server_of_the_machine_is_asked() {
        let text = "# nameserver 192.0.2.9\nsearch lan\nnameserver fe80::1%eth0\nnameserver 192.0.2.1 # x\nnameserver 192.0.2.2\n";
        assert_eq!(first_server(text), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(first_server("search lan\n"), None);
    }
}
