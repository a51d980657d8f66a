//! Reads the counters of the rules that drop and reject.
//!
//! A packet that goes to an endpoint meets none of these rules. The kernel counts per CPU, without a
//! lock (`nft_counter.c`).

use sluice_model::IpFamily;
use sluice_netlink::request::uninterrupted;
use sluice_nft::Connection;
use sluice_plane::DenialReason::{
    self, NoEndpoints, NoLocalEndpoints, SourceRanges, UnallocatedClusterIp, UndefinedPort,
};
use sluice_plane::{DenialCounters, Denied};
use sluice_reconcile::BackendError;

use crate::name::{
    CLUSTER_IP_GUARD, ChainName, NO_LOCAL_ENDPOINTS, OUTSIDE_SOURCE_RANGES, REJECTED, Standing,
    scope,
};
use crate::tables;

/// The chains whose rules count, and the reason of each rule, in their order.
const COUNTING: [(Standing, &[DenialReason]); 4] = [
    (OUTSIDE_SOURCE_RANGES, &[SourceRanges]),
    (CLUSTER_IP_GUARD, &[UndefinedPort, UnallocatedClusterIp]),
    (REJECTED, &[NoEndpoints]),
    (NO_LOCAL_ENDPOINTS, &[NoLocalEndpoints]),
];

/// A connection that lists a few rules and never writes.
#[derive(Debug)]
pub(crate) struct RuleCounters {
    connection: Connection,
}

impl RuleCounters {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

impl DenialCounters for RuleCounters {
    fn read(&mut self) -> Result<Vec<Denied>, BackendError> {
        let mut all = Vec::new();
        for family in IpFamily::ALL {
            for (chain, reasons) in COUNTING {
                let name = ChainName::Standing(chain).to_string();
                let list = || self.connection.rule_packets(scope(family), &name);
                let counts = uninterrupted(list);
                let counts = counts.map_err(|error| tables::failed(family, error))?;
                let counts = reasons.iter().zip(counts);
                all.extend(counts.filter_map(|(reason, packets)| {
                    Some(Denied {
                        family,
                        reason: *reason,
                        packets: packets?,
                    })
                }));
            }
        }
        Ok(all)
    }
}
