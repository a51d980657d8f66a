//! Sockets: which addresses, and what to say when they cannot be had.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{setsockopt, sockopt};
use sluice_corefile::{Bind, BindTarget};
use sluice_http::widened;
use tokio::net::{TcpListener, TcpSocket};

use crate::udp::{Sharing, Socket, to_std};

/// Connections that the kernel queues until we accept them.
const BACKLOG: u32 = 1024;

/// Why nothing is listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address or port cannot be had.
    #[error("listen on {address}/{protocol}: {}", reason(.source, *.address))]
    Bind {
        /// The address and port.
        address: SocketAddr,
        /// `udp`, `tcp`, or the plugin that serves HTTP.
        protocol: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// `bind` names an interface that is not there or has no address.
    #[error("bind {interface}: no such interface, or it has no address")]
    Interface {
        /// Its name.
        interface: String,
    },
    /// The addresses of the machine cannot be read.
    #[error("read addresses of interfaces: {0}")]
    Addresses(io::Error),
}

/// The kernel's reason, and what to do.
fn reason(error: &io::Error, address: SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "address in use: another program has the port (see: ss -lnp 'sport = :{}')",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "no privilege: ports below 1024 need the capability NET_BIND_SERVICE, or \
             net.ipv4.ip_unprivileged_port_start at most {}",
            address.port()
        ),
        io::ErrorKind::AddrNotAvailable => "no interface has the address".to_owned(),
        _ => error.to_string(),
    }
}

/// The sockets of one address.
pub(crate) struct Sockets {
    pub(crate) udp: Vec<Socket>,
    pub(crate) tcp: TcpListener,
}

/// Binds an address for so many threads. `sharing` says whether a socket of ours has the port already, on
/// another address. With port 0 UDP and TCP get the same free port.
pub(crate) fn bind(
    address: SocketAddr,
    threads: usize,
    sharing: Sharing,
) -> Result<Sockets, ListenError> {
    let error = |protocol| {
        move |source| ListenError::Bind {
            address,
            protocol,
            source,
        }
    };
    let first = Socket::bind(address, sharing).map_err(error("udp"))?;
    let address = first.local();
    let mut udp = vec![first];
    for _ in 1..threads {
        udp.push(Socket::bind(address, Sharing::Joined).map_err(error("udp"))?);
    }
    let tcp = tcp(address, sharing).map_err(error("tcp"))?;
    Ok(Sockets { udp, tcp })
}

/// Listens on TCP, in the context of a runtime.
pub(crate) fn tcp(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // IPv4 as well, whatever net.ipv6.bindv6only says.
        setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    }
    socket.set_reuseaddr(true)?;
    if sharing == Sharing::Joined {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    // Another socket of ours may join later, on another address with this port.
    socket.set_reuseport(true)?;
    socket.listen(BACKLOG)
}

/// The addresses that `bind` means, each once: `0.0.0.0` and `::` mean both families, as for CoreDNS.
pub(crate) fn addresses(bind: &Bind, port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    if bind.targets.is_empty() && bind.except.is_empty() {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        return Ok(vec![widened(any)]);
    }
    let except = expand(&bind.except)?;
    let mut all = if bind.targets.is_empty() {
        machine()?.into_iter().map(|it| it.1).collect()
    } else {
        expand(&bind.targets)?
    };
    all.retain(|it| !except.iter().any(|other| other.ip() == it.ip()));
    for address in &mut all {
        address.set_port(port);
        *address = widened(*address);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The addresses of targets, without a port.
fn expand(targets: &[BindTarget]) -> Result<Vec<SocketAddr>, ListenError> {
    let mut all = Vec::new();
    for target in targets {
        match target {
            BindTarget::Address(ip) => all.push(SocketAddr::new(*ip, 0)),
            BindTarget::Interface(name) => {
                let own = machine()?.into_iter().filter(|it| it.0 == *name);
                let before = all.len();
                all.extend(own.map(|it| it.1));
                if all.len() == before {
                    let interface = name.clone();
                    return Err(ListenError::Interface { interface });
                }
            }
        }
    }
    Ok(all)
}

/// The addresses that clients may know this server by: those of `bind`, else the machine's, without
/// loopback.
pub(crate) fn known_by(listens: &[SocketAddr]) -> Result<Vec<IpAddr>, ListenError> {
    let mut all: Vec<IpAddr> = Vec::new();
    for address in listens {
        if address.ip().is_unspecified() {
            all.extend(machine()?.into_iter().map(|it| it.1.ip()))
        } else {
            all.push(address.ip())
        }
    }
    all.retain(|it| !it.is_loopback());
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Names of interfaces and their addresses. One of the link has the number of its interface.
fn machine() -> Result<Vec<(String, SocketAddr)>, ListenError> {
    let all = getifaddrs().map_err(|error| ListenError::Addresses(error.into()))?;
    let address = |it: nix::ifaddrs::InterfaceAddress| {
        let address = to_std(it.address.as_ref()?)?;
        Some((it.interface_name, address))
    };
    Ok(all.filter_map(address).collect())
}

#[cfg(test)]
mod tests;
