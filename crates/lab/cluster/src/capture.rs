//! The packets of machines, as their kernels see them.
//!
//! ```text
//! Tap: one packet socket (packet(7)) for each machine ─▶ Packet ─┬─▶ Summary: a line for a person
//!                                                                └─▶ pcapng: for tcpdump and Wireshark
//! ```
//!
//! A tap sees every interface of its machine, so a packet that a node passes on is there twice: as it came, and as
//! it left.

pub mod pcapng;
mod summary;

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::libc::PACKET_OUTGOING;
use nix::net::if_::if_nameindex;
use nix::sys::socket::sockopt::{RcvBuf, ReceiveTimestampns};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket,
};
use sluice_lab::Netns;

pub use summary::{Filter, Summary};

/// The longest packet in bytes: 64 KiB of IP after the longest link header.
const LONGEST: usize = 65_536 + 64;

/// Size of the socket's receive buffer in bytes. The kernel grants at most `net.core.rmem_max`.
const WAITING: usize = 8 * 1024 * 1024;

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time since 1970 by the kernel's clock, which orders the packets of all machines.
    pub at: Duration,
    /// The machine, as users name it.
    pub machine: String,
    pub interface: String,
    /// Whether the packet leaves the machine.
    pub outgoing: bool,
    /// The packet with its Ethernet header.
    pub bytes: Vec<u8>,
    /// The length of the packet on the wire, in bytes.
    pub length: usize,
}

/// Captures the packets at all interfaces of a machine.
#[derive(Debug)]
pub struct Tap {
    machine: String,
    netns: Netns,
    socket: OwnedFd,
    /// Names of interfaces by their index.
    names: BTreeMap<usize, String>,
    buffer: Vec<u8>,
}

impl Tap {
    /// Starts to capture in a machine of the lab that this process is in; `machine` is the name that users know.
    ///
    /// # Errors
    ///
    /// The machine is gone, or the kernel refuses the socket.
    pub fn open(machine: &str, netns: &str) -> anyhow::Result<Self> {
        let netns = Netns::open(netns)?;
        let socket = netns.run(open_socket);
        let socket = socket.with_context(|| format!("listen to the packets of {machine}"))?;
        Ok(Self {
            machine: machine.to_owned(),
            netns,
            socket,
            names: BTreeMap::new(),
            buffer: vec![0; LONGEST],
        })
    }

    /// The next packet; `None` when no packet waits.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn read(&mut self) -> io::Result<Option<Packet>> {
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let fd = self.socket.as_raw_fd();
        let received = match recvmsg::<LinkAddr>(fd, &mut slices, Some(&mut control), flags) {
            Ok(it) => it,
            // An interface that goes down is reported as an error once; the capture goes on.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let length = received.bytes;
        let address = received.address;
        let time = received.cmsgs()?.find_map(|it| match it {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
            _ => None,
        });
        let index = address.map_or(0, |it| it.ifindex());
        let outgoing = address.is_some_and(|it| it.pkttype() == PACKET_OUTGOING);
        let bytes = self.buffer[..length.min(LONGEST)].to_vec();
        Ok(Some(Packet {
            at: time.unwrap_or_default(),
            machine: self.machine.clone(),
            interface: self.name(index),
            outgoing,
            bytes,
            length,
        }))
    }

    /// The name of an interface, which may be new.
    fn name(&mut self, index: usize) -> String {
        if !self.names.contains_key(&index) {
            self.names = self.netns.run(names);
        }
        // The interface was removed before its packets were read.
        let gone = || format!("if{index}");
        self.names.entry(index).or_insert_with(gone).clone()
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The interfaces of this thread's network namespace, by index.
fn names() -> BTreeMap<usize, String> {
    let found = if_nameindex();
    let found = found.iter().flatten();
    let names = found.map(|it| {
        let name = it.name().to_string_lossy().into_owned();
        (it.index() as usize, name)
    });
    names.collect()
}

fn open_socket() -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    // A size above the kernel's limit is reduced, not refused.
    setsockopt(&socket, RcvBuf, &WAITING)?;
    Ok(socket)
}
