//! What programs in the kernel say of the packets that they see: `sluice explain --trace`.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use serde::Serialize;
use sluice_model::Protocol;

/// The connection whose packets are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Address of the client; `None` for any.
    pub client: Option<IpAddr>,
    /// What it dials.
    pub destination: SocketAddr,
    pub protocol: Protocol,
}

/// What a program did with one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sighting {
    /// Where it was: `arrives through eth0`, `leaves through eth0`, `a socket dials`.
    pub place: String,
    /// The packet as it came: `10.0.0.1:4711 → 10.96.0.10:80`.
    pub packet: String,
    /// The packet as it went on; the same if it did not change.
    pub left: String,
    /// What became of it.
    pub act: Act,
    /// The same for a person, with addresses or the reason.
    pub fate: String,
}

/// What a program does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It goes on as it came.
    Passed,
    /// It opens a connection and is led to an endpoint.
    Opened,
    /// It belongs to a connection, and goes on with other addresses or the same.
    Carried,
    /// It answers a packet of the connection.
    Returned,
    /// It is dropped.
    Dropped,
    /// It is rejected: its sender gets a TCP reset or an ICMP error.
    Rejected,
}

impl Act {
    /// Whether the packet goes no further.
    #[must_use]
    pub fn is_denial(self) -> bool {
        matches!(self, Self::Dropped | Self::Rejected)
    }
}

/// A watch of programs, until the value is dropped.
pub trait Witness {
    /// Waits until programs did something more with a packet that is watched, or until then. It may end sooner.
    fn wait(&mut self, until: Instant);

    /// What they did with the packets of one connection since the watch began, in order: the one from this port of
    /// the client, else the one that was seen first. Later packets with the same addresses are left out.
    fn seen(&mut self, source_port: Option<u16>) -> Vec<Sighting>;
}
