//! Interfaces: find, list, create, change, delete.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use sluice_netlink::RequestError;
use sluice_netlink::attr::AttrWriter;
use sluice_netlink::message::{self, Message};
use sluice_netlink::request::{Request, unless};

use crate::Namespace;
use crate::connection::{Connection, Listed, Messages, listed};
use crate::kind::{Kind, Port, Vxlan};
use crate::mac::Mac;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 0x10000;

/// `ifinfomsg { u8 family, u8 padding, u16 hardware, u32 index, u32 flags, u32 change }`.
const HEADER: usize = 16;
const HARDWARE_OFFSET: usize = 2;
const INDEX_OFFSET: usize = 4;
const FLAGS_OFFSET: usize = 8;
/// `linux/if_arp.h`.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace, from 1.
    pub index: u32,
    pub name: String,
    /// Its kind, as `dummy` or `veth`; `None` for hardware and for loopback.
    pub kind: Option<String>,
    /// The largest packet that it sends, in bytes.
    pub mtu: u32,
    /// Its MAC address, when it has one.
    pub mac: Option<Mac>,
    /// The interface is switched on.
    pub is_up: bool,
    /// The other end of its cable is switched on too.
    pub has_carrier: bool,
    /// Settings of a VXLAN tunnel.
    pub vxlan: Option<Vxlan>,
    /// Index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Settings of a port of a bridge.
    pub port: Option<Port>,
    /// Index of the interface below it, or of the other end of a veth.
    pub parent: Option<u32>,
    /// The [number](crate::namespace_number) of the parent's network namespace, when it is another one.
    pub parent_namespace: Option<i32>,
    /// Its packets have an Ethernet header; those of loopback have one too.
    pub has_ethernet: bool,
}

impl Listed for Link {
    const PLURAL: &'static str = "interfaces";
    const MESSAGES: Messages = Messages::from(16);
    const HEADER: usize = HEADER;

    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        let info = attrs.nested(IFLA_LINKINFO);
        let kind = info.string(IFLA_INFO_KIND);
        let is_vxlan = kind.as_deref() == Some("vxlan");
        let is_port = info.str(IFLA_INFO_SLAVE_KIND) == Some("bridge");
        let flags = message.u32_at(FLAGS_OFFSET)?;
        let namespace = attrs.u32_ne(IFLA_LINK_NETNSID);
        Some(Self {
            index: message.u32_at(INDEX_OFFSET)?,
            name: attrs.string(IFLA_IFNAME)?,
            mtu: attrs.u32_ne(IFLA_MTU).unwrap_or_default(),
            mac: attrs.find(IFLA_ADDRESS).and_then(|it| it.array()).map(Mac),
            is_up: flags & IFF_UP != 0,
            has_carrier: flags & IFF_LOWER_UP != 0,
            master: attrs.u32_ne(IFLA_MASTER),
            port: is_port.then(|| Port::decode(&info.nested(IFLA_INFO_SLAVE_DATA))),
            parent: attrs.u32_ne(IFLA_LINK),
            parent_namespace: namespace.map(u32::cast_signed),
            vxlan: is_vxlan.then(|| Vxlan::decode(&info.nested(IFLA_INFO_DATA))),
            kind,
            has_ethernet: matches!(
                message.u16_at(HARDWARE_OFFSET)?,
                ARPHRD_ETHER | ARPHRD_LOOPBACK
            ),
        })
    }
}

/// Settings of an interface. A setting that is `None` stays as it is, or as the kernel chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<'a> {
    /// Its index, of a new interface only.
    pub index: Option<u32>,
    /// Its MAC address.
    pub mac: Option<Mac>,
    /// The largest packet that it sends, in bytes.
    pub mtu: Option<u32>,
    /// Index of the bridge whose port it becomes; 0 for none.
    pub master: Option<u32>,
    /// Whether it is switched on.
    pub up: Option<bool>,
    /// The network namespace to be in. Moving an interface there switches it off and removes its addresses; creating
    /// it there is faster.
    pub namespace: Option<&'a Namespace>,
}

impl Settings<'_> {
    /// Writes `ifinfomsg` from its fifth byte on, and the attributes.
    pub(crate) fn put(&self, index: u32, name: &str, writer: &mut AttrWriter) {
        let change = if self.up.is_some() { IFF_UP } else { 0 };
        let flags = if self.up == Some(true) { IFF_UP } else { 0 };
        for number in [index, flags, change] {
            writer.raw(&number.to_ne_bytes());
        }
        if !name.is_empty() {
            writer.string(IFLA_IFNAME, name);
        }
        if let Some(mac) = self.mac {
            writer.bytes(IFLA_ADDRESS, &mac.0);
        }
        let namespace = self.namespace.map(|it| it.as_fd().as_raw_fd());
        writer.u32_ne(IFLA_MTU, self.mtu);
        writer.u32_ne(IFLA_MASTER, self.master);
        writer.u32_ne(IFLA_NET_NS_FD, namespace.map(i32::cast_unsigned));
    }
}

impl Connection {
    /// The interface of this name; `None` when there is none.
    ///
    /// # Errors
    /// Any other [`RequestError`].
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, RequestError> {
        match self.find(name) {
            Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(None),
            found => found,
        }
    }

    /// The index of the interface of this name.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::is_missing`] when there is none.
    pub fn index(&mut self, name: &str) -> Result<u32, RequestError> {
        // The kernel returns the link or refuses.
        Ok(self.find(name)?.map_or(0, |it| it.index))
    }

    fn find(&mut self, name: &str) -> Result<Option<Link>, RequestError> {
        let attrs = |it: &mut AttrWriter| Settings::default().put(0, name, it);
        let request = Request::new("find interface", name, Link::MESSAGES.get, attrs);
        let mut found = None;
        self.ask(&request, message::ACK, &mut |message| {
            found = listed::<Link>(message);
        })?;
        Ok(found)
    }

    /// Creates an interface. May make the kernel load a module.
    ///
    /// # Errors
    /// Any [`RequestError`]: [`RequestError::already_exists`] when there is an interface of this name;
    /// [`RequestError::Refused`] with `EOPNOTSUPP` when the kernel lacks the kind.
    pub fn create(
        &mut self,
        name: &str,
        kind: &Kind<'_>,
        settings: &Settings<'_>,
    ) -> Result<(), RequestError> {
        let object = format!("{} interface {name}", kind.shown());
        let request = Request::new("create", &object, Link::MESSAGES.new, |it| {
            settings.put(settings.index.unwrap_or_default(), name, it);
            kind.put_parent(it);
            it.nested(IFLA_LINKINFO, |it| {
                it.string(IFLA_INFO_KIND, kind.name());
                it.nested(IFLA_INFO_DATA, |it| kind.put(it));
            });
        });
        let flags = message::ACK | message::CREATE | message::EXCLUSIVE;
        let mut result = self.ask(&request, flags, &mut |_| {});
        if let Err(RequestError::Refused { errno, message, .. }) = &mut result
            && *errno == Errno::EOPNOTSUPP
            && message.as_deref() == Some("Unknown device type")
        {
            *message = Some(format!("the kernel has no module {}", kind.name()));
        }
        result
    }

    /// Creates an interface, unless an interface of any kind has this name: then `false`.
    ///
    /// # Errors
    /// Any other [`RequestError`].
    pub fn ensure(
        &mut self,
        name: &str,
        kind: &Kind<'_>,
        settings: &Settings<'_>,
    ) -> Result<bool, RequestError> {
        unless(Errno::EEXIST, self.create(name, kind, settings))
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::is_missing`] when there is no interface of this name.
    pub fn set(&mut self, name: &str, settings: &Settings<'_>) -> Result<(), RequestError> {
        self.change("set", name, |index, it| settings.put(index, "", it))
    }

    /// Gives an interface another name.
    ///
    /// # Errors
    /// As of [`set`](Self::set); [`RequestError::already_exists`] when there is an interface of the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), RequestError> {
        let settings = Settings::default();
        self.change("rename", name, |index, it| settings.put(index, new, it))
    }

    /// Changes the settings of a bridge's port.
    ///
    /// # Errors
    /// As of [`set`](Self::set); also when it is no port of a bridge.
    pub fn set_port(&mut self, name: &str, port: &Port) -> Result<(), RequestError> {
        self.change("set port", name, |index, it| {
            Settings::default().put(index, "", it);
            it.nested(IFLA_LINKINFO, |it| {
                it.string(IFLA_INFO_SLAVE_KIND, "bridge");
                it.nested(IFLA_INFO_SLAVE_DATA, |it| port.put(it));
            });
        })
    }

    /// Deletes an interface and its addresses; `false` when there is no interface of this name.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] for an interface of hardware.
    pub fn delete_link(&mut self, name: &str) -> Result<bool, RequestError> {
        let attrs = |it: &mut AttrWriter| Settings::default().put(0, name, it);
        let request = Request::new("delete interface", name, Link::MESSAGES.delete, attrs);
        unless(Errno::ENODEV, self.ask(&request, message::ACK, &mut |_| {}))
    }

    fn change(
        &mut self,
        operation: &'static str,
        name: &str,
        put: impl FnOnce(u32, &mut AttrWriter),
    ) -> Result<(), RequestError> {
        let index = self.index(name)?;
        let object = format!("interface {name}");
        let request = Request::new(operation, &object, Link::MESSAGES.new, |it| put(index, it));
        self.ask(&request, message::ACK, &mut |_| {})
    }
}

/// The interface of this name in the network namespace of the calling thread; `None` when there is
/// none.
///
/// # Errors
/// Any [`RequestError`].
pub fn link(name: &str) -> Result<Option<Link>, RequestError> {
    Connection::open()?.link(name)
}

/// Every interface in the network namespace of the calling thread.
///
/// # Errors
/// Any [`RequestError`].
pub fn links() -> Result<Vec<Link>, RequestError> {
    Connection::open()?.list()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_link_is_read() {
        let mut writer = AttrWriter::new();
        let [low, high] = ARPHRD_ETHER.to_ne_bytes();
        writer.raw(&[0, 0, low, high]);
        writer.raw(&7_u32.to_ne_bytes());
        writer.raw(&[0; 8]);
        writer.string(IFLA_IFNAME, "d0");
        writer.u32_ne(IFLA_MTU, 1500);
        writer.nested(IFLA_LINKINFO, |it| it.string(IFLA_INFO_KIND, "dummy"));
        let message = |kind| Message {
            kind,
            flags: 0,
            sequence: 0,
            port: 0,
            body: writer.as_bytes(),
        };
        let link = Link {
            index: 7,
            name: "d0".to_owned(),
            mtu: 1500,
            kind: Some("dummy".to_owned()),
            has_ethernet: true,
            ..Link::default()
        };
        assert_eq!(listed(&message(Link::MESSAGES.new)), Some(link));
        assert_eq!(listed::<Link>(&message(Link::MESSAGES.delete)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_random_messages(body in prop::collection::vec(0_u8..24, 0..60)) {
            let message = Message { kind: Link::MESSAGES.new, flags: 0, sequence: 0, port: 0, body: &body };
            let _ = Link::decode(&message);
        }
    }
}
