//! Many datagrams a system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    CmsgIterator, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg,
};

use super::socket::{Socket, To, control, packet_info};
use crate::wire::LARGEST_QUERY;

/// Datagrams of one system call.
const BATCH: usize = 32;

/// One received datagram and its answer.
struct Slot {
    length: usize,
    client: Option<SockaddrStorage>,
    to: To,
    answer: Vec<u8>,
}

/// The buffers of one thread.
pub(crate) struct Batch {
    queries: Box<[[u8; LARGEST_QUERY]; BATCH]>,
    slots: [Slot; BATCH],
    received: usize,
    incoming: MultiHeaders<SockaddrStorage>,
    outgoing: MultiHeaders<SockaddrStorage>,
}

impl Batch {
    /// Buffers for this socket.
    pub(crate) fn new(socket: &Socket) -> Self {
        let control = || {
            let space = match socket.local() {
                SocketAddr::V4(_) => cmsg_space!(in_pktinfo),
                SocketAddr::V6(_) => cmsg_space!(in6_pktinfo),
            };
            socket.is_wildcard().then_some(space)
        };
        Self {
            queries: Box::new([[0; LARGEST_QUERY]; BATCH]),
            slots: std::array::from_fn(|_| Slot {
                length: 0,
                client: None,
                to: To::Bound,
                answer: Vec::new(),
            }),
            received: 0,
            incoming: MultiHeaders::preallocate(BATCH, control()),
            outgoing: MultiHeaders::preallocate(BATCH, control()),
        }
    }

    /// Waits for datagrams; returns their number, 0 after [`Socket::wake`].
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.received = 0;
        let mut buffers = self.queries.each_mut().map(|it| [IoSliceMut::new(it)]);
        let messages = recvmmsg(
            socket.fd.as_raw_fd(),
            &mut self.incoming,
            buffers.iter_mut(),
            MsgFlags::MSG_WAITFORONE,
            None,
        )?;
        for (slot, message) in self.slots.iter_mut().zip(messages) {
            slot.length = message.bytes;
            slot.client = message.address;
            slot.to = message
                .cmsgs()
                .ok()
                .and_then(|it| to(it))
                .unwrap_or(To::Bound);
            slot.answer.clear();
            self.received += 1;
        }
        Ok(self.received)
    }

    /// Sender and our address of a received datagram.
    pub(crate) fn addresses(&self, index: usize) -> (Option<SockaddrStorage>, To) {
        (self.slots[index].client, self.slots[index].to)
    }

    /// Query and, to be filled, answer. An empty answer is not sent.
    pub(crate) fn exchange(&mut self, index: usize) -> (&[u8], &mut Vec<u8>) {
        let slot = &mut self.slots[index];
        (&self.queries[index][..slot.length], &mut slot.answer)
    }

    /// Sends all answers.
    pub(crate) fn send(&mut self, socket: &Socket) {
        let mut rest = &self.slots[..self.received];
        while let Some(first) = rest.first() {
            // All messages of a call leave from one address.
            let same = rest.iter().take_while(|it| it.to == first.to).count();
            let (group, others) = rest.split_at(same);
            send_group(socket, &mut self.outgoing, group, first.to);
            rest = others;
        }
    }
}

fn send_group(
    socket: &Socket,
    headers: &mut MultiHeaders<SockaddrStorage>,
    slots: &[Slot],
    from: To,
) {
    let answered = || slots.iter().filter(|it| !it.answer.is_empty());
    let mut addresses = [None; BATCH];
    let mut bytes = [[IoSlice::new(&[])]; BATCH];
    let mut count = 0;
    for slot in answered() {
        addresses[count] = slot.client;
        bytes[count] = [IoSlice::new(&slot.answer)];
        count += 1;
    }
    let from = match (socket.is_wildcard(), from, socket.local()) {
        // The kernel told no address, which costs the choice of the source, not the answer.
        (true, To::Bound, SocketAddr::V4(_)) => To::V4(Ipv4Addr::UNSPECIFIED),
        (true, To::Bound, SocketAddr::V6(_)) => To::V6(Ipv6Addr::UNSPECIFIED, 0),
        _ => from,
    };
    let (v4, v6) = packet_info(from);
    let control = control(from, &v4, &v6);
    let mut sent = 0;
    while sent < count {
        let result = sendmmsg(
            socket.fd.as_raw_fd(),
            headers,
            bytes[sent..count].iter(),
            &addresses[sent..count],
            &control,
            MsgFlags::empty(),
        );
        sent += match result {
            Ok(results) => results.count(),
            Err(Errno::EINTR) => 0,
            // The first message cannot be sent: no route, or a firewall. The others may.
            Err(_) => 1,
        };
    }
}

/// The address that a datagram was sent to.
fn to(mut messages: CmsgIterator<'_>) -> Option<To> {
    messages.find_map(|it| match it {
        ControlMessageOwned::Ipv4PacketInfo(it) => {
            Some(To::V4(Ipv4Addr::from(u32::from_be(it.ipi_spec_dst.s_addr))))
        }
        ControlMessageOwned::Ipv6PacketInfo(it) => {
            let ip = Ipv6Addr::from(it.ipi6_addr.s6_addr);
            let interface = if ip.is_unicast_link_local() {
                it.ipi6_ifindex
            } else {
                0
            };
            Some(To::V6(ip, interface))
        }
        _ => None,
    })
}
