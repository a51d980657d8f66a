//! What `ipvsadm -Ln` would show, as values.

use std::fmt;
use std::net::SocketAddr;

use sluice_netlink::ipvs::Ipvs;
use sluice_reconcile::BackendError;

use crate::convert::{self, Dialled};
use crate::kernel::{self, again, open_ipvs};
use crate::object::{Server, Triple};

/// Reads virtual servers and their connections, over a connection of its own and from any thread.
#[derive(Debug)]
pub struct RealServers {
    ipvs: Ipvs,
}

/// A virtual server, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServerStatus {
    /// What its clients dial; `None`: it is known by [`mark`](Self::mark).
    pub frontend: Option<Triple>,
    /// The firewall mark of its packets; 0 when it is known by an address.
    pub mark: u32,
    /// Its scheduler.
    pub scheduler: String,
    /// Its real servers.
    pub real_servers: Vec<RealServerStatus>,
}

/// A real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealServerStatus {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its share of new connections; 0 gets none.
    pub weight: u32,
    /// Established connections.
    pub active: u32,
    /// Other connections: begun, ending, or without a state, as all of UDP.
    pub inactive: u32,
    /// Connections that it ever got, as of two seconds ago.
    pub connections: u64,
}

impl fmt::Display for VirtualServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frontend {
            Some(frontend) => write!(f, "{frontend} {}", self.scheduler),
            None => write!(f, "mark {:#x} {}", self.mark, self.scheduler),
        }
    }
}

impl RealServers {
    /// Connects to IPVS of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// The kernel has none, or cannot be reached.
    pub fn open() -> Result<Self, BackendError> {
        Ok(Self { ipvs: open_ipvs()? })
    }

    /// Every virtual server, by what clients dial. One question to the kernel for each.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    pub fn read(&mut self) -> Result<Vec<VirtualServerStatus>, BackendError> {
        let mut all = Vec::new();
        for state in again(|| self.ipvs.virtual_servers())? {
            let Some(dialled) = convert::dialled(&state.key) else {
                continue;
            };
            let (frontend, mark) = match dialled {
                Dialled::Address(triple) => (Some(triple), 0),
                Dialled::Mark(_, mark) => (None, mark),
            };
            let reals = kernel::real_servers(&mut self.ipvs, &state.key)?;
            let mut real_servers: Vec<_> = reals
                .into_iter()
                .map(|it| RealServerStatus {
                    address: it.server.address,
                    weight: it.server.weight,
                    active: it.active,
                    inactive: it.inactive,
                    connections: it.connections,
                })
                .collect();
            real_servers.sort_by_key(|it| it.address);
            all.push(VirtualServerStatus {
                frontend,
                mark,
                scheduler: state.scheduler.to_string(),
                real_servers,
            });
        }
        all.sort_by_key(|it| (it.frontend.map(Server::Address), it.mark));
        Ok(all)
    }
}
