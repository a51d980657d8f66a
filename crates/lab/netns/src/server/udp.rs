//! Servers over UDP: the identity line for each datagram, from the address it was sent to.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{SocketAddr, SocketAddrV6, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
};

use nix::{
    cmsg_space,
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags},
    sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, sendmsg, setsockopt,
        sockopt,
    },
};

use super::await_any;

/// Makes the kernel report the destination of each datagram: for IPv4 as `::ffff:a.b.c.d`.
pub(super) fn prepare(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    Ok(socket)
}

/// Serves until the other end of `stopped` is closed.
pub(super) fn serve(socket: &UdpSocket, stopped: &UnixStream, name: &str) {
    loop {
        let mut fds = [
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
        ];
        let ready = await_any(&mut fds);
        if ready[0] {
            return;
        }
        // An error concerns one datagram (a peer that is gone, an ICMP message): go on with the next.
        while ready[1] && answer_one(socket, name) != Err(Errno::EAGAIN) {}
    }
}

fn answer_one(socket: &UdpSocket, name: &str) -> Result<(), Errno> {
    let mut buffer = [0; 2048];
    let mut space = cmsg_space!(libc::in6_pktinfo);
    let mut into = [IoSliceMut::new(&mut buffer)];
    let message = recvmsg::<SockaddrIn6>(
        socket.as_raw_fd(),
        &mut into,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    let destination = message.cmsgs()?.find_map(|it| match it {
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(info),
        _ => None,
    });
    let peer = message.address.ok_or(Errno::EDESTADDRREQ)?;

    let ip = SocketAddr::V6(SocketAddrV6::from(peer)).ip().to_canonical();
    let line = format!("{name} {ip} {}\n", peer.port());
    // The interface is left to the routing table: the answer may go another way.
    let from = destination.map(|info| libc::in6_pktinfo {
        ipi6_ifindex: 0,
        ..info
    });
    let control: Vec<ControlMessage<'_>> =
        from.iter().map(ControlMessage::Ipv6PacketInfo).collect();
    let text = [IoSlice::new(line.as_bytes())];
    sendmsg(
        socket.as_raw_fd(),
        &text,
        &control,
        MsgFlags::empty(),
        Some(&peer),
    )
    .map(drop)
}
