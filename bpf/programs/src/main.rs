//! The programs of Sluice's eBPF data plane: their entry points. [`path`] is the way of a packet, `README.md` draws it.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a key that is moved is copied, and the stack is small"
)]

mod crc;
mod direct;
mod dns;
mod early;
mod event;
mod flow;
mod global;
mod icmp;
mod limit;
mod lookup;
mod maps;
mod older;
mod origin;
mod outcome;
mod packet;
mod path;
mod port;
mod reject;
mod reuse;
mod rewrite;
mod scratch;
mod service;
mod socket;
mod source;
mod sum;
mod tunnel;
mod window;

use aya_ebpf::macros::{cgroup_sock, cgroup_sock_addr, classifier};
use aya_ebpf::programs::{SockAddrContext, SockContext, TcContext};

use socket::call::{self, Socket};

/// Packets that arrive through an interface: to frontends, and replies to masqueraded connections.
#[classifier]
#[inline(always)]
pub fn sluice_ingress(ctx: TcContext) -> i32 {
    path::ingress(&ctx)
}

/// Packets that leave through an interface: to endpoints, replies to clients, and the node's own.
#[classifier]
#[inline(always)]
pub fn sluice_egress(ctx: TcContext) -> i32 {
    path::egress(&ctx)
}

/// `connect()` of sockets of TCP and UDP over IPv4.
#[cgroup_sock_addr(connect4)]
pub fn sluice_connect4(ctx: SockAddrContext) -> i32 {
    socket::connect(&Socket::v4(&ctx))
}

/// `connect()` of sockets of TCP and UDP over IPv6, perhaps to a mapped address of IPv4.
#[cgroup_sock_addr(connect6)]
pub fn sluice_connect6(ctx: SockAddrContext) -> i32 {
    socket::connect(&Socket::v6(&ctx))
}

/// A datagram that is sent with a destination of its own (`sendto`), over IPv4.
#[cgroup_sock_addr(sendmsg4)]
pub fn sluice_sendmsg4(ctx: SockAddrContext) -> i32 {
    socket::send(&Socket::v4(&ctx))
}

/// A datagram that is sent with a destination of its own, over IPv6.
#[cgroup_sock_addr(sendmsg6)]
pub fn sluice_sendmsg6(ctx: SockAddrContext) -> i32 {
    socket::send(&Socket::v6(&ctx))
}

/// A datagram that is received together with its sender (`recvfrom`), over IPv4.
#[cgroup_sock_addr(recvmsg4)]
pub fn sluice_recvmsg4(ctx: SockAddrContext) -> i32 {
    socket::show_frontend(&Socket::v4(&ctx))
}

/// A datagram that is received together with its sender, over IPv6.
#[cgroup_sock_addr(recvmsg6)]
pub fn sluice_recvmsg6(ctx: SockAddrContext) -> i32 {
    socket::show_frontend(&Socket::v6(&ctx))
}

/// `getpeername()` over IPv4.
#[cgroup_sock_addr(getpeername4)]
pub fn sluice_getpeername4(ctx: SockAddrContext) -> i32 {
    socket::show_frontend(&Socket::v4(&ctx))
}

/// `getpeername()` over IPv6.
#[cgroup_sock_addr(getpeername6)]
pub fn sluice_getpeername6(ctx: SockAddrContext) -> i32 {
    socket::show_frontend(&Socket::v6(&ctx))
}

/// `close()` of any socket (`inet_release`).
#[cgroup_sock(sock_release)]
pub fn sluice_sock_release(ctx: SockContext) -> i32 {
    socket::forget(&call::closed(&ctx))
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 11] = *b"Apache-2.0\0";
