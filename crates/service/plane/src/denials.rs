//! Packets to Services that rules drop or reject, by reason.

use sluice_model::IpFamily;
use sluice_reconcile::BackendError;

/// Why a packet to a Service goes to no endpoint, or is not believed. [`Plan::lookup`](sluice_plan::Plan::lookup) gives
/// the same reasons, but for the last four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// No endpoint anywhere answers.
    NoEndpoints,
    /// The ClusterIP has no such port.
    UndefinedPort,
    /// The policy is Local and no endpoint of this node answers.
    NoLocalEndpoints,
    /// The source is outside `loadBalancerSourceRanges`.
    SourceRanges,
    /// No Service has this address of the ServiceCIDR.
    UnallocatedClusterIp,
    /// Connections that are open have every source port with which this one could go to its endpoint.
    NoSourcePort,
    /// A packet was rejected, and the answer left out: there were too many, or its source or checksum is wrong. It counts beside
    /// its reason.
    Unanswered,
    /// A TCP packet of a known connection has other numbers than its sides, or a wrong checksum.
    ForeignNumbers,
    /// A pod's packet would open or end a connection under an address that is not routed to the pod.
    ForeignSource,
}

impl DenialReason {
    /// Every reason that the plan gives.
    pub const ALL: [Self; 5] = [
        Self::NoEndpoints,
        Self::UndefinedPort,
        Self::NoLocalEndpoints,
        Self::SourceRanges,
        Self::UnallocatedClusterIp,
    ];

    /// The label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoEndpoints => "no_endpoints",
            Self::UndefinedPort => "undefined_port",
            Self::NoLocalEndpoints => "no_local_endpoints",
            Self::SourceRanges => "source_ranges",
            Self::UnallocatedClusterIp => "unallocated_cluster_ip",
            Self::NoSourcePort => "no_source_port",
            Self::Unanswered => "unanswered",
            Self::ForeignNumbers => "numbers",
            Self::ForeignSource => "source",
        }
    }

    /// What becomes of the packet.
    #[must_use]
    pub fn fate(self) -> Fate {
        match self {
            Self::NoEndpoints | Self::UndefinedPort => Fate::Rejected,
            Self::ForeignNumbers | Self::ForeignSource => Fate::Passed,
            Self::NoLocalEndpoints
            | Self::SourceRanges
            | Self::UnallocatedClusterIp
            | Self::NoSourcePort
            | Self::Unanswered => Fate::Dropped,
        }
    }
}

/// What becomes of a packet to a Service that goes to no endpoint, or is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is dropped.
    Dropped,
    /// It is rejected: its sender gets a TCP reset or an ICMP error.
    Rejected,
    /// It goes on, and opens, changes and ends no connection.
    Passed,
}

/// The packets of one family that were denied for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    pub family: IpFamily,
    pub reason: DenialReason,
    /// Packets since the rule was written.
    pub packets: u64,
}

/// Reads the counters of the rules that drop and reject. Has a connection to the kernel of its own
/// and may be used from any thread. Cheap, whatever the number of Services.
pub trait DenialCounters: Send {
    /// Every counter that the kernel has.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    fn read(&mut self) -> Result<Vec<Denied>, BackendError>;
}
