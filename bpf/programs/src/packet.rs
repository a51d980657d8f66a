//! Reading of packets.

use aya_ebpf::bindings::bpf_hdr_start_off::BPF_HDR_START_NET;
use aya_ebpf::helpers::bpf_skb_load_bytes_relative;
use aya_ebpf::programs::TcContext;
use core::mem::{MaybeUninit, size_of};
use sluice_bpf_abi::{Addr, Fragment, FragmentKey, SCTP, TCP, Tuple, UDP, interface_flags};

use crate::maps::{FRAGMENTS, INTERFACES};

pub const ICMP: u8 = 1;
pub const ICMP_V6: u8 = 58;
const ETHERTYPE_V4: u32 = 0x0800_u16.to_be() as u32;
const ETHERTYPE_V6: u32 = 0x86dd_u16.to_be() as u32;
pub const ETHERNET: u32 = 14;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Extension headers of IPv6 before the transport header, at most.
const EXTENSIONS: usize = 6;

/// A packet's addresses, and where its headers are.
pub struct Packet {
    pub tuple: Tuple,
    /// Offset of the transport header from the network header.
    pub transport: u32,
    /// Bytes from the transport header to the end.
    pub length: u32,
    /// Flags of TCP; for SCTP [`SYN`] for a packet that begins with INIT.
    pub flags: u8,
    pub is_v4: bool,
    /// It has a transport header: it is no later fragment.
    pub has_ports: bool,
    /// Type and code of ICMP follow, and no ports.
    pub is_icmp: bool,
    /// A router may fragment it: IPv4 without "don't fragment".
    pub may_be_fragmented: bool,
}

#[repr(C)]
pub struct Ipv4 {
    pub version_length: u8,
    pub service: u8,
    pub length: u16,
    pub id: u16,
    pub fragment: u16,
    pub lifetime: u8,
    pub protocol: u8,
    pub checksum: u16,
    pub source: u32,
    pub destination: u32,
}

#[repr(C)]
pub struct Ipv6 {
    pub version: u32,
    pub length: u16,
    pub next: u8,
    pub lifetime: u8,
    pub source: [u32; 4],
    pub destination: [u32; 4],
}

/// Reads from the network header on.
#[inline(always)]
pub fn load<T>(ctx: &TcContext, offset: u32) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes the whole value, or fails.
    let result = unsafe {
        bpf_skb_load_bytes_relative(
            ctx.skb.skb.cast(),
            offset,
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            BPF_HDR_START_NET,
        )
    };
    // SAFETY: written by the helper.
    (result == 0).then(|| unsafe { value.assume_init() })
}

/// Offset of the network header in the packet: 0 on interfaces without Ethernet.
#[inline(always)]
pub fn network_offset(ctx: &TcContext) -> u32 {
    // SAFETY: the context is valid for the run of the program.
    let ifindex = unsafe { (*ctx.skb.skb).ifindex };
    // SAFETY: the agent replaces whole values.
    match unsafe { INTERFACES.get(&ifindex) } {
        Some(it) if it.flags & interface_flags::LAYER_3 != 0 => 0,
        _ => ETHERNET,
    }
}

impl Packet {
    /// Parses the packet whose IP header is this far behind the network header. False: nothing that a
    /// Service could get.
    ///
    /// A function of its own, because the stack of all functions together has 512 bytes.
    #[inline(never)]
    pub fn parse(&mut self, ctx: &TcContext, at: u32) -> bool {
        self.tuple.source_port = 0;
        self.tuple.destination_port = 0;
        self.flags = 0;
        self.is_v4 = false;
        self.may_be_fragmented = false;
        let parsed = match ctx.skb.protocol() {
            ETHERTYPE_V4 => self.parse_v4(ctx, at),
            ETHERTYPE_V6 => self.parse_v6(ctx, at),
            _ => None,
        };
        parsed.is_some()
    }

    /// The protocol.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.tuple.protocol as u8
    }

    /// Whether it may open a connection.
    #[inline(always)]
    pub fn opens(&self) -> bool {
        match self.protocol() {
            TCP => self.flags & (SYN | ACK) == SYN,
            SCTP => self.flags & SYN != 0,
            _ => true,
        }
    }
}

impl Packet {
    #[inline(always)]
    fn parse_v4(&mut self, ctx: &TcContext, at: u32) -> Option<()> {
        let header: Ipv4 = load(ctx, at)?;
        if header.version_length >> 4 != 4 {
            return None;
        }
        let fragment = u16::from_be(header.fragment);
        let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        self.tuple.source = Addr::v4(header.source);
        self.tuple.destination = Addr::v4(header.destination);
        self.tuple.protocol = header.protocol.into();
        let header_length = u32::from(header.version_length & 15) * 4;
        self.transport = at + header_length;
        self.length = u32::from(u16::from_be(header.length)).wrapping_sub(header_length);
        self.is_v4 = true;
        self.has_ports = offset == 0;
        self.is_icmp = header.protocol == ICMP;
        self.may_be_fragmented = fragment & 0x4000 == 0;
        self.read_transport(ctx)?;
        if offset != 0 || more {
            self.fragment(u32::from(header.id))?;
        }
        Some(())
    }

    #[inline(always)]
    fn parse_v6(&mut self, ctx: &TcContext, at: u32) -> Option<()> {
        let header: Ipv6 = load(ctx, at)?;
        if u32::from_be(header.version) >> 28 != 6 {
            return None;
        }
        self.tuple.source.words = header.source;
        self.tuple.destination.words = header.destination;
        self.tuple.protocol = header.next.into();
        self.transport = at + size_of::<Ipv6>() as u32;
        self.length = u16::from_be(header.length).into();
        self.has_ports = true;
        let mut fragment = None;
        for _ in 0..EXTENSIONS {
            let length = match self.tuple.protocol {
                // Hop-by-hop options, routing, destination options.
                0 | 43 | 60 => {
                    let [next, length]: [u8; 2] = load(ctx, self.transport)?;
                    self.tuple.protocol = next.into();
                    (u32::from(length) + 1) * 8
                }
                // Fragment.
                44 => {
                    let [first, id]: [u32; 2] = load(ctx, self.transport)?;
                    let first = u32::from_be(first);
                    self.tuple.protocol = first >> 24;
                    self.has_ports = first & 0xfff8 == 0;
                    fragment = Some(id);
                    8
                }
                _ => break,
            };
            self.transport += length;
            self.length = self.length.wrapping_sub(length);
        }
        self.is_icmp = self.tuple.protocol == u32::from(ICMP_V6);
        self.read_transport(ctx)?;
        match fragment {
            Some(id) => self.fragment(id),
            None => Some(()),
        }
    }
}

impl Packet {
    #[inline(always)]
    fn read_transport(&mut self, ctx: &TcContext) -> Option<()> {
        if self.is_icmp {
            return self.has_ports.then_some(());
        }
        if !matches!(self.protocol(), TCP | UDP | SCTP) {
            return None;
        }
        if !self.has_ports {
            return Some(());
        }
        let ports: [u16; 2] = load(ctx, self.transport)?;
        self.tuple.source_port = u16::from_be(ports[0]);
        self.tuple.destination_port = u16::from_be(ports[1]);
        self.flags = match self.protocol() {
            // The packet inside an ICMP error may end before the flags.
            TCP => load(ctx, self.transport + 13).unwrap_or(0),
            SCTP => match load::<u8>(ctx, self.transport + 12) {
                // INIT.
                Some(1) => SYN,
                _ => 0,
            },
            _ => 0,
        };
        Some(())
    }

    /// The first fragment leaves its ports for the others. `None` for a fragment whose first one did not
    /// come this way.
    #[inline(always)]
    fn fragment(&mut self, id: u32) -> Option<()> {
        let key = FragmentKey {
            source: self.tuple.source,
            destination: self.tuple.destination,
            id,
            protocol: self.tuple.protocol,
        };
        if self.has_ports {
            let ports = Fragment {
                source_port: self.tuple.source_port,
                destination_port: self.tuple.destination_port,
            };
            return FRAGMENTS.insert(&key, &ports, 0).ok();
        }
        // SAFETY: a torn read would need two datagrams with one id at the same moment.
        let ports = unsafe { FRAGMENTS.get(&key) }?;
        self.tuple.source_port = ports.source_port;
        self.tuple.destination_port = ports.destination_port;
        Some(())
    }
}
