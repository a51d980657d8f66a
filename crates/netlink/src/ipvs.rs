//! Virtual servers of IPVS, over generic netlink.
//!
//! Numbers and layouts are those of `linux/ip_vs.h` and `linux/genetlink.h`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::attr::{AttrWriter, Attrs};
use crate::request::{Request, RequestError};
use crate::socket::Socket;

/// `GENL_ID_CTRL`: who knows the numbers of the other families.
const CONTROLLER: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const IPVS_CMD_DEL_SERVICE: u8 = 3;
const IPVS_CMD_GET_SERVICE: u8 = 4;
const IPVS_CMD_ATTR_SERVICE: u16 = 1;

const IPVS_SVC_ATTR_AF: u16 = 1;
const IPVS_SVC_ATTR_PROTOCOL: u16 = 2;
const IPVS_SVC_ATTR_ADDR: u16 = 3;
const IPVS_SVC_ATTR_PORT: u16 = 4;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What clients of a virtual server dial. Those that are known by a firewall mark have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VirtualServer {
    /// Its address.
    pub ip: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Its port; 0 is any.
    pub port: u16,
}

impl VirtualServer {
    /// Reads `IPVS_CMD_ATTR_SERVICE`; `None` for one that is known by a firewall mark.
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let bytes = attrs.find(IPVS_SVC_ATTR_ADDR)?.value;
        let ip = match attrs.find(IPVS_SVC_ATTR_AF)?.u16_ne()? {
            AF_INET => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
            AF_INET6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
            _ => return None,
        };
        let protocol = attrs.find(IPVS_SVC_ATTR_PROTOCOL)?.u16_ne()?;
        Some(Self {
            ip,
            protocol: u8::try_from(protocol).ok()?,
            port: attrs.find(IPVS_SVC_ATTR_PORT)?.u16_be()?,
        })
    }

    fn put(&self, writer: &mut AttrWriter) {
        writer.nested(IPVS_CMD_ATTR_SERVICE, |service| {
            // The kernel takes the address as a union of 16 bytes in either family.
            let mut address = [0; 16];
            let family = match self.ip {
                IpAddr::V4(ip) => {
                    address[..4].copy_from_slice(&ip.octets());
                    AF_INET
                }
                IpAddr::V6(ip) => {
                    address = ip.octets();
                    AF_INET6
                }
            };
            service.u16_ne(IPVS_SVC_ATTR_AF, family);
            service.u16_ne(IPVS_SVC_ATTR_PROTOCOL, self.protocol.into());
            service.bytes(IPVS_SVC_ATTR_ADDR, &address);
            service.u16_be(IPVS_SVC_ATTR_PORT, self.port);
        });
    }
}

impl fmt::Display for VirtualServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, protocol, port } = self;
        write!(f, "{ip} protocol {protocol} port {port}")
    }
}

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

    /// All virtual servers that have an address.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>, RequestError> {
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
            servers.extend(service.and_then(|it| VirtualServer::decode(&it.nested())));
        })?;
        Ok(servers)
    }

    /// Deletes a virtual server and forgets its real servers: from now on the packets of its
    /// connections are dropped. One that is not there is success.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn delete(&mut self, server: &VirtualServer) -> Result<(), RequestError> {
        let request = Request {
            operation: "delete virtual server",
            object: &server.to_string(),
            kind: self.family,
            family: IPVS_CMD_DEL_SERVICE,
            attrs: &|writer| server.put(writer),
        };
        match request.ask(&mut self.socket, &mut self.buffer, &mut |_| {}) {
            // `ip_vs_genl_set_cmd` says ESRCH for a service that it does not find.
            Err(RequestError::Refused {
                errno: Errno::ESRCH | Errno::ENOENT,
                ..
            }) => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_servers_read_back() {
        for ip in ["10.96.0.10", "fd00:10:96::a"] {
            let server = VirtualServer {
                ip: ip.parse().unwrap(),
                protocol: 6,
                port: 80,
            };
            let mut writer = AttrWriter::new();
            server.put(&mut writer);
            let service = Attrs::new(writer.as_bytes()).find(IPVS_CMD_ATTR_SERVICE);
            let service = service.unwrap().nested();
            assert_eq!(VirtualServer::decode(&service), Some(server));
        }
    }

    #[test]
    fn those_of_a_mark_have_no_address() {
        let mut writer = AttrWriter::new();
        writer.u16_ne(IPVS_SVC_ATTR_AF, AF_INET);
        writer.u32_ne(5, 7);
        assert_eq!(VirtualServer::decode(&Attrs::new(writer.as_bytes())), None);
    }
}
