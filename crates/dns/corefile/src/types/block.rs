//! Server blocks, and what belongs to a block as a whole.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::rr::Name;

use super::{
    AclRule, Autopath, Cache, Chaos, Errors, Forward, Health, Hosts, Kubernetes, LoadBalance,
    LogRule, Ready, RewriteRule, Template,
};
use crate::{Location, Note};

/// A valid Corefile.
#[derive(Clone, Debug, PartialEq)]
pub struct Corefile {
    /// In the order of the file; at least one.
    pub blocks: Vec<ServerBlock>,
    /// Plugins and options that have no effect here.
    pub notes: Vec<Note>,
    /// The files that were read beside the Corefile itself: imports, and files that `forward` names.
    pub files: BTreeSet<PathBuf>,
}

/// One server block: zones and the plugins that answer for them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerBlock {
    /// Zones and ports, at least one. A network in CIDR notation is one key for each reverse zone.
    pub keys: Vec<Key>,
    /// Where the block begins.
    pub place: Location,
    /// The plugins of the block; all its keys share them.
    pub plugins: Plugins,
}

/// A zone on a port. The longest zone that encloses the name of a query answers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Lower case and fully qualified.
    pub zone: Name,
    /// UDP and TCP port.
    pub port: u16,
}

/// As CoreDNS writes a key in logs and in the label `server` of metrics: `dns://cluster.local.:53`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dns://{}:{}", self.zone, self.port)
    }
}

/// The plugins of a server block. Their order in the Corefile is of no importance: see
/// [`ORDER`](crate::ORDER). Where a plugin may stand several times, the order among these is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    /// Addresses to listen on; empty: all addresses of the machine.
    pub bind: Bind,
    /// Apply changes of the Corefile while running. It holds for the whole file.
    pub reload: Option<Reload>,
    /// Identity for queries with the EDNS0 option NSID; an empty text means the host's name.
    pub nsid: Option<String>,
    /// Largest UDP response, in bytes, that a query may ask for: 512 to 4096, CoreDNS's default 1232.
    pub bufsize: Option<u16>,
    /// Readiness over HTTP.
    pub ready: Option<Ready>,
    /// Liveness over HTTP.
    pub health: Option<Health>,
    /// `prometheus [ADDRESS]`: GET /metrics at this address; an unspecified one means all addresses. CoreDNS's
    /// default: 127.0.0.1:9153. Blocks with the same address share one server.
    pub prometheus: Option<SocketAddr>,
    /// Errors in the log.
    pub errors: Option<Errors>,
    /// Queries in the log. The first rule whose zone encloses the name and whose classes hold the
    /// response's decides.
    pub log: Vec<LogRule>,
    /// The rules for clients; the first match decides.
    pub acl: Vec<AclRule>,
    /// Answers ANY with one HINFO record (RFC 8482).
    pub any: bool,
    /// Answers TXT queries of class CH about the version.
    pub chaos: Option<Chaos>,
    /// Shuffles addresses in responses.
    pub loadbalance: Option<LoadBalance>,
    /// The cache of answers.
    pub cache: Option<Cache>,
    /// Alters queries and their answers.
    pub rewrite: Vec<RewriteRule>,
    /// Follows the search path on the server.
    pub autopath: Option<Autopath>,
    /// Leaves out the authority and additional sections of positive responses.
    pub minimal: bool,
    /// Answers made from the query.
    pub template: Vec<Template>,
    /// Addresses of names, from a hosts file and from the Corefile.
    pub hosts: Option<Hosts>,
    /// The cluster's zone.
    pub kubernetes: Option<Kubernetes>,
    /// Finds queries that come back to this server, and ends the process then.
    pub loop_detection: bool,
    /// Upstreams, tried in order: the first whose `from` encloses the name and whose `except` does not.
    pub forward: Vec<Forward>,
    /// Answers with the client's address.
    pub whoami: bool,
}

/// `bind`: where a server block listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bind {
    /// Addresses and interfaces; empty: all addresses of the machine.
    pub targets: Vec<BindTarget>,
    /// Addresses and interfaces that are left out of `targets`.
    pub except: Vec<BindTarget>,
}

/// One argument of `bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindTarget {
    Address(IpAddr),
    /// All addresses of the interface of this name.
    Interface(String),
}

/// `reload [INTERVAL] [JITTER]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// Time between two looks at the Corefile: at least 2 s, CoreDNS's default 30 s.
    pub interval: Duration,
    /// Random time added to the interval: at least 1 s and at most half of it, CoreDNS's default 15 s.
    pub jitter: Duration,
}

/// `fallthrough [ZONES...]`: for which names a plugin passes on what it has no answer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallthrough {
    /// Without the option none, with the option and no zones the root.
    pub zones: Vec<Name>,
}

impl Fallthrough {
    /// Whether a query for `name` falls through to the next plugin.
    pub fn includes(&self, name: &Name) -> bool {
        self.zones.iter().any(|zone| zone.zone_of(name))
    }
}
