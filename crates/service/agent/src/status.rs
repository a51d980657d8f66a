//! The status of a running agent, for `sluice status` and scripts.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use sluice_model::Notice;
use sluice_node::AgentStatus;

/// The Service proxy in the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// The source has delivered its first complete list.
    pub source_synced: bool,
    /// The kernel holds the plan, except for refused service ports.
    pub synced: bool,
    /// Services in the cluster state.
    pub services: usize,
    /// Service ports planned, per family.
    pub service_ports: usize,
    /// Service ports without an endpoint on any node.
    #[serde(default)]
    pub without_endpoints: usize,
    /// Addresses and ports that clients connect to.
    pub frontends: usize,
    /// Endpoints in use, once per service port.
    pub endpoints: usize,
    /// Rules in each table, in the modes that have rules.
    #[serde(default)]
    pub rules: Vec<RulesStatus>,
    /// How full the tables in the kernel are, in the modes whose tables have a size.
    #[serde(default)]
    pub tables: Vec<TableStatus>,
    /// NodePorts answer on 127.0.0.1 too.
    #[serde(default)]
    pub localhost_node_ports: bool,
    /// The last attempt to write; `None` before the first.
    pub last_sync: Option<SyncStatus>,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Syncs that failed.
    pub failures: u64,
    /// Syncs that repaired rules that other programs had changed.
    pub repairs: u64,
    /// Conntrack entries deleted because their endpoint is gone.
    pub conntrack_deleted: u64,
    /// Sysctls of forwarding that are 0 though Services of their family need it.
    #[serde(default)]
    pub forwarding_off: Vec<String>,
    /// Protections that are off.
    #[serde(default)]
    pub unprotected: Vec<ProtectionStatus>,
    /// Objects that contradict each other or cannot be served.
    pub issues: Vec<IssueStatus>,
    /// Files and objects that the source could not read.
    pub problems: Vec<ProblemStatus>,
    /// The family that cannot be served at present, and why; `None` when all are.
    #[serde(default)]
    pub unserved: Option<String>,
    /// Service ports that need a feature that this machine lacks.
    pub refused: Vec<RefusedStatus>,
}

/// Answer of `GET /status` on the agent's socket, as far as the runtime and the Service proxy give it. Scripts
/// read it: fields are added, not changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    #[serde(flatten)]
    pub agent: AgentStatus,
    #[serde(flatten)]
    pub proxy: ServiceStatus,
}

impl ServiceStatus {
    /// The first kind of objects that the API server tells nothing new about, since when and why.
    #[must_use]
    pub fn stale(&self) -> Option<&str> {
        let problems = self.problems.iter();
        let of_server = problems.filter(|it| it.origin == Notice::API_SERVER);
        // What is not readable by permission makes no rule old.
        let first = of_server.min_by_key(|it| !it.message.contains(Notice::STALE_SINCE));
        first.map(|it| &*it.message)
    }

    /// Since when the API server tells nothing new about a kind of objects, in RFC 3339; `None` while it does.
    #[must_use]
    pub fn stale_since(&self) -> Option<&str> {
        self.stale()?
            .split_once(Notice::STALE_SINCE)?
            .1
            .split(": ")
            .next()
    }
}

/// The fields of the proxy are read directly, because most readers need those.
impl Deref for Status {
    type Target = ServiceStatus;

    fn deref(&self) -> &ServiceStatus {
        &self.proxy
    }
}

/// The rules in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesStatus {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The table: `nat`.
    pub table: String,
    /// Number of our rules.
    pub total: usize,
    /// Number of rules that the last sync wrote.
    pub last: usize,
}

impl fmt::Display for RulesStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.table, self.total)
    }
}

/// How full a table in the kernel is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Its name: `FLOWS`.
    pub table: String,
    /// Entries in it.
    pub entries: u64,
    /// Entries that it holds at most.
    pub capacity: u64,
}

impl fmt::Display for TableStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.table, self.entries, self.capacity)
    }
}

/// A protection that is off, as in kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectionStatus {
    /// The flag that turns it on.
    pub option: String,
    /// The risk without it, one line for a person.
    pub risk: String,
}

impl fmt::Display for ProtectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.risk, self.option)
    }
}

/// One sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// When it ended, RFC 3339.
    pub when: String,
    /// Whether the sync read and compared the kernel.
    pub full: bool,
    /// Objects added.
    pub added: usize,
    /// Objects replaced.
    pub replaced: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Duration in seconds.
    pub elapsed_seconds: f64,
    /// The error; `None` when it succeeded.
    pub error: Option<String>,
}

/// An object that cannot be served as it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueStatus {
    /// A word for the kind: `FrontendTaken`.
    pub reason: String,
    /// One line for a person.
    pub message: String,
}

impl fmt::Display for IssueStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A file or object that a source could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemStatus {
    /// A file name or the name of an object.
    pub origin: String,
    /// One line for a person.
    pub message: String,
}

impl fmt::Display for ProblemStatus {
    /// A message may begin with its origin, which is then left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.starts_with(&self.origin) {
            write!(f, "{}: ", self.origin)?;
        }
        f.write_str(&self.message)
    }
}

/// A service port that needs a feature that this machine lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// The service port: `default/web:http`.
    pub service_port: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The missing feature, and the effect.
    pub reason: String,
}

impl fmt::Display for RefusedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, family, protocol) = (&self.service_port, &self.family, &self.protocol);
        write!(f, "Service {port} ({family}, {protocol}): {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read it: fields are added, not changed, and their order stays.
    #[test]
    fn the_status_in_json() {
        let status = Status {
            agent: AgentStatus {
                version: "0.1.0".to_owned(),
                pid: 7,
                node: "node-a".to_owned(),
                mode: "nftables".to_owned(),
                uptime_seconds: 1.5,
                kubeconfig: None,
                busy: None,
            },
            proxy: ServiceStatus {
                source_synced: true,
                last_sync: Some(SyncStatus::default()),
                problems: vec![ProblemStatus::default()],
                ..ServiceStatus::default()
            },
        };
        let json = concat!(
            r#"{"version":"0.1.0","pid":7,"node":"node-a","mode":"nftables","uptime_seconds":1.5,"#,
            r#""source_synced":true,"synced":false,"services":0,"service_ports":0,"#,
            r#""without_endpoints":0,"frontends":0,"endpoints":0,"rules":[],"tables":[],"#,
            r#""localhost_node_ports":false,"last_sync":{"when":"","full":false,"added":0,"#,
            r#""replaced":0,"deleted":0,"elapsed_seconds":0.0,"error":null},"syncs":0,"failures":0,"#,
            r#""repairs":0,"conntrack_deleted":0,"forwarding_off":[],"unprotected":[],"issues":[],"#,
            r#""problems":[{"origin":"","message":""}],"unserved":null,"refused":[]}"#,
        );
        assert_eq!(serde_json::to_string(&status).expect("plain data"), json);
        let read: Status = serde_json::from_str(json).expect("JSON");
        assert_eq!(read, status);
    }
}
