//! Requests about sets and their members.

use std::collections::BTreeSet;

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::bulk::{Bulk, Failure};
use crate::message::{self, Head, Message};
use crate::request::{Request, RequestError, unless};
use crate::socket::{Socket, SocketError};

use super::member::{Change, Member};
use super::reason::{NOT_THERE, reason};
use super::set::{Header, Set};
use super::uapi::{
    IPSET_ATTR_ADT, IPSET_ATTR_FAMILY, IPSET_ATTR_FLAGS, IPSET_ATTR_PROTOCOL, IPSET_ATTR_REVISION,
    IPSET_ATTR_REVISION_MIN, IPSET_ATTR_SETNAME, IPSET_ATTR_SETNAME2, IPSET_ATTR_TYPENAME,
    IPSET_CMD_ADD, IPSET_CMD_CREATE, IPSET_CMD_DEL, IPSET_CMD_DESTROY, IPSET_CMD_LIST,
    IPSET_CMD_SWAP, IPSET_CMD_TEST, IPSET_CMD_TYPE, LIST_HEADER, LIST_NAMES, PROTOCOL, SUBSYSTEM,
};

/// The sets of one network namespace.
#[derive(Debug)]
pub struct Sets {
    socket: Socket,
}

impl Sets {
    /// Connects to the sets of the calling thread's network namespace. The first request may make
    /// the kernel load the module.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::netfilter()?.with_errors(reason),
        })
    }

    /// The names of all sets.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no ipset.
    pub fn names(&mut self) -> Result<BTreeSet<String>, RequestError> {
        let list = Request::new("list", "ipsets", kind(IPSET_CMD_LIST), |it| {
            it.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
            it.u32_be(IPSET_ATTR_FLAGS, LIST_NAMES);
        });
        let names = list.list(&mut self.socket, |message| {
            message.attrs().string(IPSET_ATTR_SETNAME)
        })?;
        Ok(names.into_iter().collect())
    }

    /// The members of a set.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such set.
    pub fn members(&mut self, set: &str) -> Result<Vec<Member>, RequestError> {
        let mut members = Vec::new();
        let attrs = |it: &mut AttrWriter| put_name(it, set);
        let list = Request::new("list ipset", set, kind(IPSET_CMD_LIST), attrs);
        list.dump(&mut self.socket, &mut |message| {
            let listed = message.attrs().nested(IPSET_ATTR_ADT);
            members.extend(listed.map(|it| Member::decode(&it.nested())));
        })?;
        Ok(members)
    }

    /// Whether a set has this member, as a rule would find it: in a set of networks, an address is in
    /// all networks around it. Not in a set that does not exist.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn has(&mut self, set: &str, member: &Member) -> Result<bool, RequestError> {
        let object = format!("{set} {member}");
        let test = Request::new("test ipset", &object, kind(IPSET_CMD_TEST), |it| {
            put_name(it, set);
            Change::Delete(*member).put(it);
        });
        match test.ask(&mut self.socket, &mut |_| {}) {
            Err(error) if error.reason() == reason(NOT_THERE) => Ok(false),
            result => unless(Errno::ENOENT, result),
        }
    }

    /// The properties of a set; `None` when there is no set of this name.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn header(&mut self, set: &str) -> Result<Option<Header>, RequestError> {
        let mut header = None;
        let list = Request::new("look at ipset", set, kind(IPSET_CMD_LIST), |it| {
            put_name(it, set);
            it.u32_be(IPSET_ATTR_FLAGS, LIST_HEADER);
        });
        let mut visit = |message: &Message<'_>| header = header.take().or(Header::decode(message));
        let result = list.dump(&mut self.socket, &mut visit);
        unless(Errno::ENOENT, result).map(|_| header)
    }

    /// Creates a set without members. A set that exists and is equal, but for the size of its hash,
    /// keeps its members. May make the kernel load a module.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EEXIST` when there is another set of
    /// this name, with the text of `IPSET_ERR_FIND_TYPE` when the kernel lacks the type.
    pub fn create(&mut self, name: &str, set: &Set) -> Result<(), RequestError> {
        let revision = self.revision(name, set)?;
        let create = Request::new("create ipset", name, kind(IPSET_CMD_CREATE), |it| {
            put_name(it, name);
            set.put(it, revision);
        });
        // Without `NLM_F_EXCL`, with which the kernel refuses an equal set.
        let flags = message::ACK | message::CREATE;
        create.exchange(&mut self.socket, flags, &mut |_| {})
    }

    /// The revision to create a set with: the oldest one that has the features of the set, within
    /// the range of the kernel.
    fn revision(&mut self, name: &str, set: &Set) -> Result<u8, RequestError> {
        let (mut lowest, mut highest) = (None, None);
        let request = Request::new("create ipset", name, kind(IPSET_CMD_TYPE), |it| {
            it.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
            it.string(IPSET_ATTR_TYPENAME, set.kind.type_name());
            it.u8(IPSET_ATTR_FAMILY, set.kind.family_number());
        });
        request.ask(&mut self.socket, &mut |message| {
            lowest = message.attrs().u8(IPSET_ATTR_REVISION_MIN);
            highest = message.attrs().u8(IPSET_ATTR_REVISION);
        })?;
        let revision = set.revision().max(lowest.unwrap_or(0));
        Ok(revision.min(highest.unwrap_or(u8::MAX)))
    }

    /// Makes the changes in their order, 512 with each system call, and returns the refused ones in
    /// the same order. The others are made all the same.
    ///
    /// # Errors
    /// [`RequestError::Socket`] when it is unknown which changes were made;
    /// [`RequestError::Refused`] when the kernel refused the datagram as a whole.
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
            // Without `NLM_F_EXCL`, with which the kernel refuses what is so already.
            flags: 0,
            first: [0; 4],
        };
        let attrs = |change: &Change, writer: &mut AttrWriter| {
            put_name(writer, set);
            change.put(writer);
        };
        Bulk {
            changes,
            name: &name,
            head: &head,
            attrs: &attrs,
            is_done: &|_, _| false,
        }
        .apply(&mut self.socket)
    }

    /// Exchanges the names of two sets: rules that name one see the members of the other. Both must
    /// have the same fields and family; size and marks may differ.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no `first`, with
    /// the text of an `IPSET_ERR_*` when there is no `second` or it is of another type.
    pub fn swap(&mut self, first: &str, second: &str) -> Result<(), RequestError> {
        let object = format!("{first} and {second}");
        let swap = Request::new("swap ipsets", &object, kind(IPSET_CMD_SWAP), |it| {
            put_name(it, first);
            it.string(IPSET_ATTR_SETNAME2, second);
        });
        swap.ask(&mut self.socket, &mut |_| {})
    }

    /// Destroys a set. A missing set is no error.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with the text of `IPSET_ERR_BUSY` while a
    /// rule uses the set.
    pub fn destroy(&mut self, set: &str) -> Result<(), RequestError> {
        let attrs = |it: &mut AttrWriter| put_name(it, set);
        let destroy = Request::new("destroy ipset", set, kind(IPSET_CMD_DESTROY), attrs);
        let result = destroy.ask(&mut self.socket, &mut |_| {});
        // Newer kernels send this error only with `NLM_F_EXCL`.
        unless(Errno::ENOENT, result).map(drop)
    }
}

fn put_name(writer: &mut AttrWriter, set: &str) {
    writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
    writer.string(IPSET_ATTR_SETNAME, set);
}

fn kind(command: u16) -> u16 {
    (SUBSYSTEM << 8) | command
}
