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

/// One change. What is deleted and is not there is success; the other refusals are said with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a virtual server without real ones. `EEXIST` when there is one by this key, `ENOENT`
    /// when the kernel does not know the scheduler.
    AddVirtual(Virtual),
    /// Replaces scheduler, flags, timeout and prefix of a virtual server; its real servers and
    /// connections stay. `ESRCH` when it is not there, `ENOENT` when the kernel does not know the
    /// scheduler.
    SetVirtual(Virtual),
    /// Deletes a virtual server and forgets its real servers: from now on the packets of its
    /// connections are dropped.
    DeleteVirtual(Key),
    /// Adds a real server to a virtual one. `EEXIST` when it has it, `ESRCH` when there is no such
    /// virtual server, `EINVAL` when the address is none of a host, or when the network namespace
    /// has no IPv4 address at all, `ERANGE` when a threshold or the weight is. One that was deleted
    /// not long ago gets its connections back.
    AddReal(Key, Real),
    /// Replaces all of a real server but its address. `ENOENT` when the virtual server does not
    /// have it, `ESRCH` when there is no such virtual server.
    SetReal(Key, Real),
    /// Deletes a real server: from now on the packets of its connections are dropped.
    DeleteReal(Key, SocketAddr),
}

impl Change {
    /// Operation and object, for errors.
    pub(super) fn name(&self) -> (&'static str, String) {
        match self {
            Self::AddVirtual(it) => {
                let object = format!("{} scheduler {}", it.key, it.scheduler);
                ("add virtual server", object)
            }
            Self::SetVirtual(it) => {
                let object = format!("{} scheduler {}", it.key, it.scheduler);
                ("set virtual server", object)
            }
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

    /// Whether a refusal says that there is nothing to delete: `ip_vs_genl_set_cmd` says ESRCH for
    /// a virtual server that it does not find, `ip_vs_del_dest` ENOENT for a real one.
    pub(super) fn is_done(&self, errno: Errno) -> bool {
        matches!(self, Self::DeleteVirtual(_) | Self::DeleteReal(..))
            && matches!(errno, Errno::ESRCH | Errno::ENOENT)
    }
}

fn of(address: SocketAddr, key: &Key) -> String {
    format!("{address} of {key}")
}
