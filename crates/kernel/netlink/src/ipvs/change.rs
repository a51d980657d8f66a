//! Changes of virtual and real servers.

use std::net::SocketAddr;

use nix::errno::Errno;

use crate::attr::AttrWriter;

use super::key::Key;
use super::real::{self, Real};
use super::uapi::{
    IPVS_CMD_DEL_DEST, IPVS_CMD_DEL_SERVICE, IPVS_CMD_NEW_DEST, IPVS_CMD_NEW_SERVICE,
    IPVS_CMD_SET_DEST, IPVS_CMD_SET_SERVICE,
};
use super::virtual_server::Virtual;

/// One change. Deleting a missing server is no error; the other refusals are listed with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a virtual server without real servers. `EEXIST` when the key is taken, `ENOENT` when the
    /// kernel lacks the scheduler.
    AddVirtual(Virtual),
    /// Replaces scheduler, flags, timeout and prefix of a virtual server; its real servers and
    /// connections stay. `ESRCH` when there is no such virtual server, `ENOENT` when the kernel lacks
    /// the scheduler.
    SetVirtual(Virtual),
    /// Deletes a virtual server and its real servers. Packets of its connections are dropped from now
    /// on.
    DeleteVirtual(Key),
    /// Adds a real server to a virtual one. `EEXIST` when the virtual server has it, `ESRCH` when there
    /// is no such virtual server, `EINVAL` when the address is not that of a host or the network
    /// namespace has no IPv4 address at all, `ERANGE` when a threshold or the weight is out of range.
    /// A recently deleted real server gets its connections back.
    AddReal(Key, Real),
    /// Replaces all properties of a real server but its address. `ENOENT` when the virtual server
    /// lacks it, `ESRCH` when there is no such virtual server.
    SetReal(Key, Real),
    /// Deletes a real server. Packets of its connections are dropped from now on.
    DeleteReal(Key, SocketAddr),
}

impl Change {
    /// Operation and object, for errors.
    pub(super) fn name(&self) -> (&'static str, String) {
        match self {
            Self::AddVirtual(it) => ("add virtual server", with_scheduler(it)),
            Self::SetVirtual(it) => ("set virtual server", with_scheduler(it)),
            Self::DeleteVirtual(key) => ("delete virtual server", key.to_string()),
            Self::AddReal(key, it) => ("add real server", of(it.address, key)),
            Self::SetReal(key, it) => ("set real server", of(it.address, key)),
            Self::DeleteReal(key, address) => ("delete real server", of(*address, key)),
        }
    }

    pub(super) fn command(&self) -> u8 {
        match self {
            Self::AddVirtual(_) => IPVS_CMD_NEW_SERVICE,
            Self::SetVirtual(_) => IPVS_CMD_SET_SERVICE,
            Self::DeleteVirtual(_) => IPVS_CMD_DEL_SERVICE,
            Self::AddReal(..) => IPVS_CMD_NEW_DEST,
            Self::SetReal(..) => IPVS_CMD_SET_DEST,
            Self::DeleteReal(..) => IPVS_CMD_DEL_DEST,
        }
    }

    pub(super) fn put(&self, writer: &mut AttrWriter) {
        match self {
            Self::AddVirtual(it) | Self::SetVirtual(it) => it.put(writer),
            Self::DeleteVirtual(key) => key.put(writer),
            Self::AddReal(key, it) | Self::SetReal(key, it) => {
                key.put(writer);
                it.put(writer);
            }
            Self::DeleteReal(key, address) => {
                key.put(writer);
                real::put_key(writer, *address);
            }
        }
    }

    /// Whether the error means that there is nothing to delete: `ip_vs_genl_set_cmd` returns ESRCH
    /// for a missing virtual server, `ip_vs_del_dest` ENOENT for a missing real server.
    pub(super) fn is_done(&self, errno: Errno) -> bool {
        matches!(self, Self::DeleteVirtual(_) | Self::DeleteReal(..))
            && matches!(errno, Errno::ESRCH | Errno::ENOENT)
    }
}

fn with_scheduler(server: &Virtual) -> String {
    format!("{} scheduler {}", server.key, server.scheduler)
}

fn of(address: SocketAddr, key: &Key) -> String {
    format!("{address} of {key}")
}
