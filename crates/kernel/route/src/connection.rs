//! The socket that changes and lists go through, and what all kinds of objects share.

use std::fmt::Display;

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;
use sluice_netlink::RequestError;
use sluice_netlink::attr::AttrWriter;
use sluice_netlink::message::{self, Message};
use sluice_netlink::request::{Request, uninterrupted, unless};
use sluice_netlink::socket::{Socket, SocketError};

use crate::Namespace;

/// `RTM_NEW*`, `RTM_DEL*` and `RTM_GET*` of one kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    pub(crate) new: u16,
    pub(crate) delete: u16,
    pub(crate) get: u16,
}

impl Messages {
    /// The three follow each other in `linux/rtnetlink.h`.
    pub(crate) const fn from(new: u16) -> Self {
        Self {
            new,
            delete: new + 1,
            get: new + 2,
        }
    }
}

/// An object that the kernel lists and gives notice of.
pub trait Listed: Sized {
    /// The plural of the object, in errors.
    const PLURAL: &'static str;
    /// The messages about it.
    const MESSAGES: Messages;
    /// Length of the header after `nlmsghdr`, in bytes.
    const HEADER: usize;
    /// `AF_*` of a listing: 0 lists all families.
    const FAMILY: u8 = 0;

    /// Reads a message about an added or deleted object; `None` when it is about another kind of object.
    fn decode(message: &Message<'_>) -> Option<Self>;
}

/// An object that can be added, replaced and deleted. Its [`Display`] is its name in errors.
pub trait Object: Listed + Display {
    /// The kernel's error for deleting a missing object.
    const MISSING: Errno;
    /// The flags of a replacement beside `NLM_F_CREATE`.
    const REPLACE: u16 = message::REPLACE;

    /// The first four bytes after `nlmsghdr`.
    fn first(&self) -> [u8; 4];

    /// Writes the rest of the header, and the attributes.
    fn put(&self, writer: &mut AttrWriter);
}

/// The object of a message of a listing.
pub(crate) fn listed<O: Listed>(message: &Message<'_>) -> Option<O> {
    let is_one = message.kind == O::MESSAGES.new;
    is_one.then(|| O::decode(message)).flatten()
}

/// A socket to the part of the kernel that has links, addresses, routes, rules and neighbours, in one network
/// namespace. Each change is one system call; on return the kernel has made it.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
}

impl Connection {
    /// Connects to the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`RequestError::Socket`].
    pub fn open() -> Result<Self, RequestError> {
        let socket = Socket::open(SockProtocol::NetlinkRoute).map_err(unconnected)?;
        Ok(Self { socket })
    }

    /// Connects to another network namespace; the calling thread stays where it is.
    ///
    /// # Errors
    /// [`RequestError::Socket`], also when the namespace cannot be entered.
    pub fn open_in(namespace: &Namespace) -> Result<Self, RequestError> {
        let _inside = namespace.enter().map_err(|source| {
            unconnected(SocketError::Io {
                operation: "open",
                source,
            })
        })?;
        Self::open()
    }

    /// Adds an object.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::already_exists`] when there is such an object.
    pub fn add<O: Object>(&mut self, object: &O) -> Result<(), RequestError> {
        self.write("add", object, message::CREATE | message::EXCLUSIVE)
    }

    /// Adds an object, or replaces the object with the same key.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn replace<O: Object>(&mut self, object: &O) -> Result<(), RequestError> {
        let result = self.write("replace", object, message::CREATE | O::REPLACE);
        unless(Errno::EEXIST, result).map(drop)
    }

    /// Adds an object beside those with the same key, as with several remote ends of one FDB entry.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn append<O: Object>(&mut self, object: &O) -> Result<(), RequestError> {
        self.write("append", object, message::CREATE | message::APPEND)
    }

    /// Deletes an object; `false` when it does not exist.
    ///
    /// # Errors
    /// Any other [`RequestError`].
    pub fn delete<O: Object>(&mut self, object: &O) -> Result<bool, RequestError> {
        let name = object.to_string();
        let request = Request::new("delete", &name, O::MESSAGES.delete, |it| object.put(it));
        let result = self.ask(&request.first(object.first()), message::ACK, &mut |_| {});
        unless(O::MISSING, result)
    }

    /// Every object of a kind.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Interrupted`] when they changed during 20 listings.
    pub fn list<O: Listed>(&mut self) -> Result<Vec<O>, RequestError> {
        self.select(Some)
    }

    /// What `choose` takes from the objects of a kind, which are looked at one by one: there may be a million routes.
    ///
    /// # Errors
    /// As of [`Self::list`].
    pub fn select<O: Listed, T>(
        &mut self,
        choose: impl Fn(O) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        let rest = |it: &mut AttrWriter| it.raw(&[0; 16][..O::HEADER - 4]);
        let request = Request::new("list", O::PLURAL, O::MESSAGES.get, rest).family(O::FAMILY);
        let chosen = |it: &Message<'_>| listed::<O>(it).and_then(&choose);
        uninterrupted(|| request.list(&mut self.socket, chosen))
    }

    pub(crate) fn ask(
        &mut self,
        request: &Request<'_>,
        flags: u16,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        request.exchange(&mut self.socket, flags, visit)
    }

    fn write<O: Object>(
        &mut self,
        operation: &'static str,
        object: &O,
        flags: u16,
    ) -> Result<(), RequestError> {
        let name = object.to_string();
        let request = Request::new(operation, &name, O::MESSAGES.new, |it| object.put(it));
        let request = request.first(object.first());
        self.ask(&request, message::ACK | flags, &mut |_| {})
    }
}

fn unconnected(source: SocketError) -> RequestError {
    RequestError::Socket {
        operation: "connect to",
        object: "rtnetlink".to_owned(),
        source,
    }
}
