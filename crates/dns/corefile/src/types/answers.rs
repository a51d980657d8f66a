//! Small plugins that alter answers or refuse queries.

use hickory_proto::rr::{Name, RecordType};
use ipnet::IpNet;

/// `loadbalance [round_robin] { prefer CIDR... }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalance {
    /// Networks whose addresses come first in an answer, in this order; empty: all are shuffled.
    pub prefer: Vec<IpNet>,
}

/// One rule of `acl [ZONES...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// The zones of the plugin; the rule is for names below one of them.
    pub zones: Vec<Name>,
    /// The action for queries that match.
    pub action: AclAction,
    /// Types of queries; empty: every type.
    pub types: Vec<RecordType>,
    /// Networks of clients; empty: every client.
    pub networks: Vec<IpNet>,
}

/// The action of an [`AclRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// Goes on to the next plugin.
    Allow,
    /// REFUSED.
    Block,
    /// NOERROR without records.
    Filter,
    /// No response at all.
    Drop,
}

/// `autopath [ZONE...] RESOLV-CONF`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autopath {
    /// Names below these zones are completed.
    pub zones: Vec<Name>,
    /// The source of the search path.
    pub search: SearchPath,
}

/// Where [`Autopath`] takes a client's search path from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchPath {
    /// `@kubernetes`: the path of the client's pod.
    Kubernetes,
    /// The line `search` of a file like resolv.conf: the same path for every client.
    Names(Vec<Name>),
}

/// `chaos [VERSION] [AUTHORS...]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chaos {
    /// Answer to `version.bind`; `None`: the program's own version.
    pub version: Option<String>,
    /// Answers to `authors.bind`.
    pub authors: Vec<String>,
}
