//! Reads the counters of the endpoint maps.
//!
//! A NAT chain sees the first packet of a connection only, so the packets that found an element
//! are the connections that its endpoint got.

use sluice_model::IpFamily;
use sluice_nft::{Connection, DataRef, ElementRef, Kernel};
use sluice_plan::Frontend;
use sluice_plane::{ConnectionCount, Counter, Counters, Reading};
use sluice_reconcile::BackendError;

use crate::bytes::{decode_endpoint, decode_key};
use crate::name::{TABLE, scope};
use crate::observe;
use crate::set::{ElementKey, SetName, ValueKind};

/// A connection that lists maps and never writes.
#[derive(Debug)]
pub(crate) struct ElementCounters {
    connection: Connection,
}

impl ElementCounters {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

impl Counters for ElementCounters {
    /// Lists the four endpoint maps of both families once. A listing that another program's transaction interrupts is
    /// not repeated: on a busy node a large map may never be listed without an interruption. The listed elements are
    /// right, but some may be missing.
    fn read(&mut self) -> Result<Reading, BackendError> {
        let mut reading = Reading {
            counts: Vec::new(),
            is_complete: true,
        };
        let maps = SetName::ALL
            .into_iter()
            .filter(|it| it.value() == ValueKind::Endpoint);
        for name in maps {
            for family in IpFamily::ALL {
                let visit = |it: ElementRef<'_>| reading.counts.extend(count(family, name, &it));
                let listed = self
                    .connection
                    .for_each_element(scope(family), name.as_str(), visit);
                reading.is_complete &= observe::is_complete(listed).map_err(|error| {
                    let map = format!("list map {} {TABLE} {name}", family.nft_name());
                    BackendError::new(map, error)
                })?;
            }
        }
        Ok(reading)
    }
}

/// The count of an element; `None` for an element without a counter, or one that we would not write.
fn count(family: IpFamily, map: SetName, element: &ElementRef<'_>) -> Option<ConnectionCount> {
    let Some(DataRef::Value(value)) = element.data else {
        return None;
    };
    let key = decode_key(family, map.key(), element.key, element.key_end)?;
    let (frontend, slot) = match key {
        ElementKey::FrontendSlot(addr, protocol, port, slot) => {
            let frontend = Frontend::Address {
                addr,
                port,
                protocol,
            };
            (frontend, slot)
        }
        ElementKey::NodePortSlot(protocol, port, slot) => {
            let frontend = Frontend::NodePort {
                family,
                port,
                protocol,
            };
            (frontend, slot)
        }
        _ => return None,
    };
    Some(ConnectionCount {
        frontend,
        counter: Counter::Slot(map.as_str(), frontend, slot),
        endpoint: decode_endpoint(family, value)?,
        connections: element.packets?,
        load: None,
    })
}
