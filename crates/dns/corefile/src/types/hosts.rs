//! `hosts`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::rr::Name;

use super::Fallthrough;

/// `hosts [FILE [ZONES...]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// A file like /etc/hosts, which is CoreDNS's default. It need not exist.
    pub file: PathBuf,
    /// Names below these zones are answered: the zones of the directive, else those of the block.
    pub zones: Vec<Name>,
    /// Lines in the Corefile itself.
    pub inline: Vec<HostsEntry>,
    /// For which names a query without an entry is passed on; others get NXDOMAIN.
    pub fallthrough: Fallthrough,
    /// TTL of the answers in seconds, at least 1. CoreDNS's default: 3600.
    pub ttl: u32,
    /// Whether PTR queries for the addresses are answered. CoreDNS's default: yes.
    pub reverse: bool,
    /// Time between two looks at the file; `None`: it is read once. CoreDNS's default: 5 s.
    pub reload: Option<Duration>,
}

/// One line of a hosts file: an address and its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsEntry {
    pub address: IpAddr,
    /// Lower case and fully qualified, at least one.
    pub names: Vec<Name>,
}
