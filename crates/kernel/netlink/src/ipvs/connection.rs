//! Requests about IPVS.

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::bulk::{Bulk, Failure};
use crate::family::Family;
use crate::message::Head;
use crate::request::{Request, RequestError};
use crate::socket::Socket;

use super::change::Change;
use super::config::Timeouts;
use super::key::Key;
use super::real::RealState;
use super::uapi::{
    CONTROLLER, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, IPVS_CMD_ATTR_DEST,
    IPVS_CMD_ATTR_SERVICE, IPVS_CMD_GET_DEST, IPVS_CMD_GET_SERVICE, IPVS_CMD_SET_CONFIG,
    SCHEDULER_NAME,
};
use super::virtual_server::{Flags, Virtual};

/// The schedulers of Linux (`net/netfilter/ipvs/Kconfig`, 6.12). `mh` is there since 4.18, `twos`
/// since 5.12. Most are kernel modules named `ip_vs_NAME`, and a kernel may lack some.
pub const SCHEDULERS: [&str; 14] = [
    "rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "twos",
];

/// A mark that no rule sets, for the test of a scheduler.
const UNLIKELY_MARK: Key = Key::Mark {
    family: Family::Ipv4,
    mark: 0xfe5c_a1ed,
};

/// The name of the family, also in errors.
const NAME: &str = "IPVS";

/// IPVS of one network namespace.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    /// The number of IPVS among the families of generic netlink.
    family: u16,
}

impl Ipvs {
    /// Connects to IPVS of the calling thread's network namespace; `None` when the kernel has no
    /// IPVS. May make the kernel load the module.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn open() -> Result<Option<Self>, RequestError> {
        let request = Request::new("find", NAME, CONTROLLER, |writer| {
            writer.string(CTRL_ATTR_FAMILY_NAME, NAME)
        })
        .family(CTRL_CMD_GETFAMILY);
        let socket = Socket::open(SockProtocol::NetlinkGeneric);
        let mut socket = socket.map_err(|it| request.failed(it))?;
        let family = request.find(&mut socket, Errno::ENOENT, |message| {
            message.attrs().u16_ne(CTRL_ATTR_FAMILY_ID)
        })?;
        Ok(family.map(|family| Self { socket, family }))
    }

    /// All virtual servers, in no particular order. One that changes during the listing may be
    /// missing or listed twice.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn virtual_servers(&mut self) -> Result<Vec<Virtual>, RequestError> {
        let request = Request::new("list", "virtual servers", self.family, |_| {})
            .family(IPVS_CMD_GET_SERVICE);
        request.list(&mut self.socket, |message| {
            Virtual::decode(&message.attrs().nested(IPVS_CMD_ATTR_SERVICE))
        })
    }

    /// The virtual server with this key; `None` when there is none.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn virtual_server(&mut self, key: &Key) -> Result<Option<Virtual>, RequestError> {
        let object = key.to_string();
        let request = Request::new("find virtual server", &object, self.family, |writer| {
            key.put(writer)
        })
        .family(IPVS_CMD_GET_SERVICE);
        // `ip_vs_genl_get_cmd`: ESRCH without such a server.
        request.find(&mut self.socket, Errno::ESRCH, |message| {
            Virtual::decode(&message.attrs().nested(IPVS_CMD_ATTR_SERVICE))
        })
    }

    /// The real servers of a virtual server; none when there is no such virtual server.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn real_servers(&mut self, key: &Key) -> Result<Vec<RealState>, RequestError> {
        let object = key.to_string();
        let request = Request::new("list real servers of", &object, self.family, |writer| {
            key.put(writer)
        })
        .family(IPVS_CMD_GET_DEST);
        request.list(&mut self.socket, |message| {
            RealState::decode(&message.attrs().nested(IPVS_CMD_ATTR_DEST))
        })
    }

    /// Makes the changes in their order, 512 with each system call, and returns the refused ones in
    /// the same order. The others are made all the same.
    ///
    /// # Errors
    /// [`RequestError::Socket`] when it is unknown which changes were made;
    /// [`RequestError::Refused`] when the kernel refused the datagram as a whole.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Vec<Failure>, RequestError> {
        let kind = self.family;
        Bulk {
            changes,
            name: &Change::name,
            head: &|change| Head {
                kind,
                flags: 0,
                first: [change.command(), 0, 0, 0],
            },
            attrs: &Change::put,
            is_done: &|change, errno| change.is_done(errno),
        }
        .apply(&mut self.socket)
    }

    /// Sets the idle timeouts of connections. A connection gets the new one with its next packet.
    ///
    /// # Errors
    /// Any [`RequestError`]; `EINVAL` for more seconds than the kernel can count.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), RequestError> {
        let request = Request::new("set timeouts of", NAME, self.family, |writer| {
            timeouts.put(writer)
        })
        .family(IPVS_CMD_SET_CONFIG);
        request.ask(&mut self.socket, &mut |_| {})
    }

    /// Whether the kernel has this scheduler; loads its module (`ip_vs_NAME`). The kernel has no
    /// request for that, so a virtual server of a mark that nobody uses is added and deleted.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn has_scheduler(&mut self, name: &str) -> Result<bool, RequestError> {
        // To the kernel the name "none" means a server without scheduler (`ip_vs_add_service`).
        if name.is_empty() || name == "none" || name.len() > SCHEDULER_NAME || name.contains('\0') {
            return Ok(false);
        }
        let probe = Change::AddVirtual(Virtual {
            key: UNLIKELY_MARK,
            scheduler: name.into(),
            flags: Flags::default(),
            timeout: 0,
            prefix: Family::Ipv4.bits(),
        });
        let delete = Change::DeleteVirtual(UNLIKELY_MARK);
        // A killed process may have left the server behind; its EEXIST would hide the answer.
        let mut failures = self.apply(&[delete.clone(), probe, delete])?;
        match failures.pop() {
            None => Ok(true),
            Some(failure) if failure.error.errno() == Some(Errno::ENOENT) => Ok(false),
            Some(failure) => Err(failure.error),
        }
    }

    /// The [`SCHEDULERS`] that the kernel has; loads all their modules.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn schedulers(&mut self) -> Result<Vec<&'static str>, RequestError> {
        let mut found = Vec::new();
        for name in SCHEDULERS {
            if self.has_scheduler(name)? {
                found.push(name);
            }
        }
        Ok(found)
    }
}
