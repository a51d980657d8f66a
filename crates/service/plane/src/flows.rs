//! The table of connections that a data plane translates.

use sluice_netlink::conntrack::{Conntrack, Flow, FlowFilter};

/// Lists and deletes connections, so that stale ones are deleted. Used by one thread.
pub trait FlowTable: Send {
    /// The flows that match a filter.
    ///
    /// # Errors
    ///
    /// The table cannot be read, in one line.
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, String>;

    /// Deletes a flow. One that is gone already is no error.
    ///
    /// # Errors
    ///
    /// The flow cannot be deleted, in one line.
    fn delete(&mut self, flow: &Flow) -> Result<(), String>;
}

/// Netfilter's table of the network namespace of the first thread that uses it.
#[derive(Debug, Default)]
pub struct NetfilterFlows(Option<Conntrack>);

impl NetfilterFlows {
    fn connected(&mut self) -> Result<&mut Conntrack, String> {
        match &mut self.0 {
            Some(conntrack) => Ok(conntrack),
            empty => {
                let opened = Conntrack::open().map_err(|error| error.to_string())?;
                Ok(empty.insert(opened))
            }
        }
    }
}

impl FlowTable for NetfilterFlows {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, String> {
        let flows = self.connected()?.flows(filter);
        flows.map_err(|error| error.to_string())
    }

    fn delete(&mut self, flow: &Flow) -> Result<(), String> {
        let deleted = self.connected()?.delete(flow);
        deleted.map_err(|error| error.to_string())
    }
}
