//! Questions and changes.

use std::collections::BTreeSet;

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::bulk::{Bulk, Failure};
use crate::message::{self, Head, Message};
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

use super::member::{Change, Member};
use super::set::{Header, Set};
use super::uapi::{
    IPSET_ATTR_ADT, IPSET_ATTR_FAMILY, IPSET_ATTR_FLAGS, IPSET_ATTR_PROTOCOL, IPSET_ATTR_REVISION,
    IPSET_ATTR_REVISION_MIN, IPSET_ATTR_SETNAME, IPSET_ATTR_SETNAME2, IPSET_ATTR_TYPENAME,
    IPSET_CMD_ADD, IPSET_CMD_CREATE, IPSET_CMD_DEL, IPSET_CMD_DESTROY, IPSET_CMD_LIST,
    IPSET_CMD_SWAP, IPSET_CMD_TYPE, LIST_HEADER, LIST_NAMES, PROTOCOL, SUBSYSTEM,
};

/// The sets of one network namespace.
#[derive(Debug)]
pub struct Sets {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Sets {
    /// Connects to the sets of the calling thread's network namespace. The first question makes a
    /// kernel that has ipset as a module load it.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::open()?,
            buffer: Vec::new(),
        })
    }

    /// The names of all sets.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no ipset.
    pub fn names(&mut self) -> Result<BTreeSet<String>, RequestError> {
        let mut names = BTreeSet::new();
        let attrs = |writer: &mut AttrWriter| {
            writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
            writer.u32_be(IPSET_ATTR_FLAGS, LIST_NAMES);
        };
        let list = Request::of_no_family("list", "ipsets", kind(IPSET_CMD_LIST), &attrs);
        list.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            let name = message.attrs().find(IPSET_ATTR_SETNAME);
            names.extend(name.and_then(|it| it.str()).map(str::to_owned));
        })?;
        Ok(names)
    }

    /// The members of a set.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such set.
    pub fn members(&mut self, set: &str) -> Result<Vec<Member>, RequestError> {
        let mut members = Vec::new();
        let attrs = |writer: &mut AttrWriter| named(writer, set);
        let list = Request::of_no_family("list ipset", set, kind(IPSET_CMD_LIST), &attrs);
        list.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            if let Some(list) = message.attrs().find(IPSET_ATTR_ADT) {
                members.extend(list.nested().map(|it| Member::decode(&it.nested())));
            }
        })?;
        Ok(members)
    }

    /// What a set is; `None` when there is none of this name.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn header(&mut self, set: &str) -> Result<Option<Header>, RequestError> {
        let mut header = None;
        let attrs = |writer: &mut AttrWriter| {
            named(writer, set);
            writer.u32_be(IPSET_ATTR_FLAGS, LIST_HEADER);
        };
        let list = Request::of_no_family("look at ipset", set, kind(IPSET_CMD_LIST), &attrs);
        let mut visit = |message: &Message<'_>| header = header.take().or(Header::decode(message));
        match list.dump(&mut self.socket, &mut self.buffer, &mut visit) {
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(None),
            result => result.map(|()| header),
        }
    }

    /// Makes a set without members. One that is there and is the same, but for the size of its
    /// hash, is success and keeps its members. May make the kernel load a module.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EEXIST` when there is another of this
    /// name, with words when the kernel does not know the type.
    pub fn create(&mut self, name: &str, set: &Set) -> Result<(), RequestError> {
        let revision = self.revision(name, set)?;
        let attrs = |writer: &mut AttrWriter| {
            named(writer, name);
            set.put(writer, revision);
        };
        let create = Request::of_no_family("create ipset", name, kind(IPSET_CMD_CREATE), &attrs);
        // Without `NLM_F_EXCL`, which would refuse one that is the same.
        let flags = message::ACK | message::CREATE;
        create.exchange(&mut self.socket, &mut self.buffer, flags, &mut |_| {})
    }

    /// The revision to make a set with: what it needs, as far as the kernel has that.
    fn revision(&mut self, name: &str, set: &Set) -> Result<u8, RequestError> {
        let (mut lowest, mut highest) = (None, None);
        let attrs = |writer: &mut AttrWriter| {
            writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
            writer.string(IPSET_ATTR_TYPENAME, set.kind.type_name());
            writer.u8(IPSET_ATTR_FAMILY, set.kind.family_number());
        };
        let ask = Request::of_no_family("create ipset", name, kind(IPSET_CMD_TYPE), &attrs);
        ask.ask(&mut self.socket, &mut self.buffer, &mut |message| {
            let attrs = message.attrs();
            let byte = |kind| attrs.find(kind).and_then(|it| it.u8());
            lowest = byte(IPSET_ATTR_REVISION_MIN);
            highest = byte(IPSET_ATTR_REVISION);
        })?;
        let highest = highest.unwrap_or(u8::MAX);
        Ok(set.revision().max(lowest.unwrap_or(0)).min(highest))
    }

    /// Makes the changes in their order, hundreds with each system call, and returns those that
    /// the kernel refused, in the same order. A refused one does not keep the others from being
    /// made.
    ///
    /// # Errors
    /// [`RequestError::Socket`] when it is not known which were made; [`RequestError::Refused`]
    /// when the kernel refused to listen.
    pub fn apply(&mut self, set: &str, changes: &[Change]) -> Result<Vec<Failure>, RequestError> {
        let name = |change: &Change| {
            let operation = match change {
                Change::Add(_) => "add to ipset",
                Change::Delete(_) => "delete from ipset",
            };
            (operation, format!("{set} {}", change.member()))
        };
        let head = |change: &Change| Head {
            kind: match change {
                Change::Add(_) => kind(IPSET_CMD_ADD),
                Change::Delete(_) => kind(IPSET_CMD_DEL),
            },
            // Without `NLM_F_EXCL`, which would refuse what is so already.
            flags: 0,
            first: [0; 4],
        };
        let attrs = |change: &Change, writer: &mut AttrWriter| {
            named(writer, set);
            change.put(writer);
        };
        Bulk {
            changes,
            name: &name,
            head: &head,
            attrs: &attrs,
            is_done: &|_, _| false,
        }
        .apply(&mut self.socket, &mut self.buffer)
    }

    /// Gives each of two sets the name of the other: rules that mention one see the members of the
    /// other from now on. Both have the same fields and family; size and marks may differ.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no `first`, with
    /// words when there is no `second` or it is of another type.
    pub fn swap(&mut self, first: &str, second: &str) -> Result<(), RequestError> {
        let attrs = |writer: &mut AttrWriter| {
            named(writer, first);
            writer.string(IPSET_ATTR_SETNAME2, second);
        };
        let object = format!("{first} and {second}");
        let swap = Request::of_no_family("swap ipsets", &object, kind(IPSET_CMD_SWAP), &attrs);
        swap.ask(&mut self.socket, &mut self.buffer, &mut |_| {})
    }

    /// Destroys a set. One that is not there is success.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with a number that no C library knows
    /// (`IPSET_ERR_BUSY`), in words, when a rule uses it.
    pub fn destroy(&mut self, set: &str) -> Result<(), RequestError> {
        let attrs = |writer: &mut AttrWriter| named(writer, set);
        let destroy = Request::of_no_family("destroy ipset", set, kind(IPSET_CMD_DESTROY), &attrs);
        match destroy.ask(&mut self.socket, &mut self.buffer, &mut |_| {}) {
            // Older kernels complain where newer ones want `NLM_F_EXCL` for that.
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(()),
            result => result,
        }
    }
}

fn named(writer: &mut AttrWriter, set: &str) {
    writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
    writer.string(IPSET_ATTR_SETNAME, set);
}

fn kind(command: u16) -> u16 {
    (SUBSYSTEM << 8) | command
}
