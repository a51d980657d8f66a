//! Questions and changes.

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::attr::AttrWriter;
use crate::bulk::{Bulk, Failure};
use crate::family::IpFamily;
use crate::message::{Head, Message};
use crate::request::{Request, RequestError};
use crate::socket::Socket;

use super::change::Change;
use super::config::{Timeouts, Version};
use super::key::Key;
use super::real::RealState;
use super::scheduler::SCHEDULERS;
use super::uapi::{
    CONTROLLER, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, IPVS_CMD_ATTR_DEST,
    IPVS_CMD_ATTR_SERVICE, IPVS_CMD_GET_DEST, IPVS_CMD_GET_INFO, IPVS_CMD_GET_SERVICE,
    IPVS_CMD_SET_CONFIG, SCHEDULER_NAME,
};
use super::virtual_server::{Flags, Virtual, VirtualState};

/// A mark that no rule sets, for asking about schedulers.
const UNLIKELY_MARK: Key = Key::Mark {
    family: IpFamily::V4,
    mark: 0xfe5c_a1ed,
};

/// IPVS of one network namespace.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    buffer: Vec<u8>,
    family: u16,
}

impl Ipvs {
    /// Connects to IPVS of the calling thread's network namespace; `None` when the kernel has
    /// none. Asking may make the kernel load its module.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn open() -> Result<Option<Self>, RequestError> {
        let object = "IPVS";
        let socket = Socket::subscribed(SockProtocol::NetlinkGeneric, 0, &mut []);
        let mut socket = socket.map_err(|source| RequestError::Socket {
            operation: "find",
            object: object.to_owned(),
            source,
        })?;
        let (mut buffer, mut family) = (Vec::new(), None);
        let request = Request {
            operation: "find",
            object,
            kind: CONTROLLER,
            family: CTRL_CMD_GETFAMILY,
            attrs: &|writer| writer.string(CTRL_ATTR_FAMILY_NAME, object),
        };
        let found = request.ask(&mut socket, &mut buffer, &mut |message| {
            let id = message.attrs().find(CTRL_ATTR_FAMILY_ID);
            family = id.and_then(|it| it.u16_ne());
        });
        match found {
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => return Ok(None),
            result => result?,
        }
        Ok(family.map(|family| Self {
            socket,
            buffer,
            family,
        }))
    }

    /// All virtual servers, in no order that means anything. What changes meanwhile may be missed
    /// or be there twice.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn virtual_servers(&mut self) -> Result<Vec<VirtualState>, RequestError> {
        let mut servers = Vec::new();
        let request = Request {
            operation: "list",
            object: "virtual servers",
            kind: self.family,
            family: IPVS_CMD_GET_SERVICE,
            attrs: &|_| {},
        };
        request.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            let service = message.attrs().find(IPVS_CMD_ATTR_SERVICE);
            servers.extend(service.and_then(|it| VirtualState::decode(&it)));
        })?;
        Ok(servers)
    }

    /// The real servers of a virtual one; none when there is no such virtual server.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn real_servers(&mut self, key: &Key) -> Result<Vec<RealState>, RequestError> {
        let mut servers = Vec::new();
        let request = Request {
            operation: "list real servers of",
            object: &key.to_string(),
            kind: self.family,
            family: IPVS_CMD_GET_DEST,
            attrs: &|writer| key.put(writer),
        };
        request.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            let dest = message.attrs().find(IPVS_CMD_ATTR_DEST);
            servers.extend(dest.and_then(|it| RealState::decode(&it, key.family())));
        })?;
        Ok(servers)
    }

    /// Makes the changes in their order, hundreds with each system call, and returns those that
    /// the kernel refused, in the same order. Each counts for itself: a refused one does not keep
    /// the others from being made.
    ///
    /// # Errors
    /// [`RequestError::Socket`] when it is not known which were made; [`RequestError::Refused`]
    /// when nobody answers for what comes after a refused one.
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
        .apply(&mut self.socket, &mut self.buffer)
    }

    /// Makes one change.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn change(&mut self, change: Change) -> Result<(), RequestError> {
        let mut failures = self.apply(&[change])?;
        failures.pop().map_or(Ok(()), |it| Err(it.error))
    }

    /// Changes after how long connections are forgotten; 0 leaves the one that is. Counts for
    /// connections from their next packet on.
    ///
    /// # Errors
    /// Any [`RequestError`]; `EINVAL` for one of more seconds than the kernel can count.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), RequestError> {
        let put = |writer: &mut AttrWriter| timeouts.put(writer);
        self.ask("set timeouts of", IPVS_CMD_SET_CONFIG, &put, &mut |_| {})
    }

    /// The kernel's IPVS; `None` when it does not say.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn version(&mut self) -> Result<Option<Version>, RequestError> {
        let mut version = None;
        self.ask("read version of", IPVS_CMD_GET_INFO, &|_| {}, &mut |it| {
            version = Version::decode(&it.attrs());
        })?;
        Ok(version)
    }

    /// Whether the kernel has a scheduler of this name; loads its module (`ip_vs_NAME`). There is
    /// no question for that: a virtual server of a mark that nobody uses is made for a moment.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn has_scheduler(&mut self, name: &str) -> Result<bool, RequestError> {
        // To the kernel "none" is to have no scheduler (`ip_vs_add_service`).
        if name.is_empty() || name == "none" || name.len() > SCHEDULER_NAME || name.contains('\0') {
            return Ok(false);
        }
        let probe = Change::AddVirtual(Virtual {
            key: UNLIKELY_MARK,
            scheduler: name.into(),
            flags: Flags::default(),
            timeout: 0,
            prefix: IpFamily::V4.bits(),
        });
        let delete = Change::DeleteVirtual(UNLIKELY_MARK);
        // First goes what a program that was killed may have left: it would hide the answer.
        let mut failures = self.apply(&[delete.clone(), probe, delete])?;
        match failures.pop() {
            None => Ok(true),
            Some(failure) if failure.error.errno() == Some(Errno::ENOENT) => Ok(false),
            Some(failure) => Err(failure.error),
        }
    }

    /// Those of [`SCHEDULERS`] that the kernel has; loads the modules of all.
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

    fn ask(
        &mut self,
        operation: &'static str,
        command: u8,
        attrs: &dyn Fn(&mut AttrWriter),
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        let request = Request {
            operation,
            object: "IPVS",
            kind: self.family,
            family: command,
            attrs,
        };
        request.ask(&mut self.socket, &mut self.buffer, visit)
    }
}
