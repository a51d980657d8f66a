//! A system call of a socket that names an address.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{bpf_get_netns_cookie, bpf_get_socket_cookie};
use aya_ebpf::programs::{SockAddrContext, SockContext};
use sluice_bpf_abi::{Addr, EventKind, Hook, Node, PeerKey, TCP, Tuple, UDP, node_flags};

use crate::event::{self, Action};
use crate::maps::node_flag;

/// `AF_INET` of `include/linux/socket.h`.
const AF_INET: u32 = 2;

/// The key in PEERS of a socket that is closed.
#[inline(always)]
pub fn closed(ctx: &SockContext) -> PeerKey {
    let socket = ctx.sock;
    // SAFETY: the context is valid for the run of the program. The verifier wants each word to be read by itself, and at
    // a place that no branch chooses.
    unsafe {
        let v4 = (&raw const (*socket).dst_ip4).read_volatile();
        let word = |index: usize| (&raw const (*socket).dst_ip6[index]).read_volatile();
        let words = [word(0), word(1), word(2), word(3)];
        let addr = if (&raw const (*socket).family).read_volatile() == AF_INET {
            Addr::v4(v4)
        } else {
            Addr { words }
        };
        PeerKey {
            cookie: bpf_get_socket_cookie(ctx.as_ptr()),
            addr,
            port: u16::from_be((&raw const (*socket).dst_port).read_volatile()).into(),
            protocol: (&raw const (*socket).protocol).read_volatile(),
        }
    }
}

/// A system call of a socket, with the address that it names.
pub struct Socket<'a> {
    ctx: &'a SockAddrContext,
    is_v4: bool,
    /// Protocol number of the socket.
    pub protocol: u8,
}

impl<'a> Socket<'a> {
    /// A call over IPv4.
    #[inline(always)]
    pub fn v4(ctx: &'a SockAddrContext) -> Self {
        Self::new(ctx, true)
    }

    /// A call over IPv6.
    #[inline(always)]
    pub fn v6(ctx: &'a SockAddrContext) -> Self {
        Self::new(ctx, false)
    }

    #[inline(always)]
    fn new(ctx: &'a SockAddrContext, is_v4: bool) -> Self {
        Self {
            ctx,
            is_v4,
            // SAFETY: the context is valid for the run of the program.
            protocol: unsafe { (*ctx.sock_addr).protocol } as u8,
        }
    }

    /// The address and port that the call names. The verifier wants each word to be read by itself.
    #[inline(always)]
    pub fn peer(&self) -> (Addr, u16) {
        let from = self.ctx.sock_addr;
        // SAFETY: the context is valid for the run of the program.
        unsafe {
            let port = u16::from_be((&raw const (*from).user_port).read_volatile() as u16);
            if self.is_v4 {
                let word = (&raw const (*from).user_ip4).read_volatile();
                return (Addr::v4(word), port);
            }
            let word = |index: usize| (&raw const (*from).user_ip6[index]).read_volatile();
            let words = [word(0), word(1), word(2), word(3)];
            (Addr { words }, port)
        }
    }

    /// Replaces the address and port that the call names.
    #[inline(always)]
    pub fn set_peer(&self, addr: &Addr, port: u16) {
        let to = self.ctx.sock_addr;
        // SAFETY: the context is valid for the run of the program.
        unsafe {
            (&raw mut (*to).user_port).write_volatile(u32::from(port.to_be()));
            if self.is_v4 {
                (&raw mut (*to).user_ip4).write_volatile(addr.words[3]);
                return;
            }
            for index in 0..4 {
                (&raw mut (*to).user_ip6[index]).write_volatile(addr.words[index]);
            }
        }
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        // SAFETY: the helper takes the context.
        unsafe { bpf_get_socket_cookie(self.ctx.as_ptr()) }
    }

    /// Cookie of the socket's network namespace.
    #[inline(always)]
    pub fn netns_cookie(&self) -> u64 {
        // SAFETY: the helper takes the context.
        unsafe { bpf_get_netns_cookie(self.ctx.as_ptr()) }
    }

    /// The key of this socket with an address and port, in PEERS or SENDERS.
    #[inline(always)]
    pub fn key(&self, addr: &Addr, port: u16) -> PeerKey {
        PeerKey {
            cookie: self.cookie(),
            addr: *addr,
            port: port.into(),
            protocol: self.protocol.into(),
        }
    }

    /// Whether sockets of this protocol are led to endpoints.
    #[inline(always)]
    pub fn is_led(&self, node: &Node) -> bool {
        let flag = match self.protocol {
            TCP => node_flags::SOCKETS_TCP,
            UDP => node_flags::SOCKETS_UDP,
            _ => return false,
        };
        node.flags & flag != 0
    }

    /// Writes an event if a trace asks for it: the call named `from`, and goes on with `to`.
    #[inline(always)]
    pub fn record(
        &self,
        kind: EventKind,
        service: u32,
        counter: u32,
        from: (&Addr, u16),
        to: (&Addr, u16),
    ) {
        if !node_flag(node_flags::TRACE) {
            return;
        }
        let (source, source_port) = self.own();
        let tuple = |to: (&Addr, u16)| Tuple {
            source,
            destination: *to.0,
            source_port,
            destination_port: to.1,
            protocol: self.protocol.into(),
        };
        let action = Action {
            hook: Hook::Socket,
            kind,
            ifindex: 0,
            service,
            counter: counter as u16,
        };
        event::record(&action, &tuple(from), &tuple(to));
    }

    /// The address and port that the socket is bound to; unspecified and 0 while it is not.
    #[inline(always)]
    fn own(&self) -> (Addr, u16) {
        // SAFETY: the context is valid for the run of the program, and so is its socket.
        unsafe {
            let socket = (&raw const (*self.ctx.sock_addr).__bindgen_anon_1.sk).read_volatile();
            let port = (&raw const (*socket).src_port).read_volatile() as u16;
            if self.is_v4 {
                let word = (&raw const (*socket).src_ip4).read_volatile();
                return (Addr::v4(word), port);
            }
            let word = |index: usize| (&raw const (*socket).src_ip6[index]).read_volatile();
            let words = [word(0), word(1), word(2), word(3)];
            (Addr { words }, port)
        }
    }
}
