//! Packets of bytes: built, read, and their checksums proved.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, IpFragOffset, IpHeaders, IpNumber, Ipv4Options, LaxPacketHeaders, NetHeaders,
    NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket, TcpHeader, TcpOptionElement,
    TransportHeader, TransportSlice,
};

/// Length of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const PAYLOAD: &[u8] = b"what the client says";
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 8]];
const LIFETIME: u8 = 61;

/// Kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    /// SYN and ACK.
    Accept,
    /// TCP of an open connection.
    Data,
    Fin,
    Datagram,
}

/// The headers before that of the transport.
fn headers(from: SocketAddr, to: SocketAddr) -> PacketBuilderStep<IpHeaders> {
    let step = PacketBuilder::ethernet2(MACS[0], MACS[1]);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => step.ipv4(from.octets(), to.octets(), LIFETIME),
        (IpAddr::V6(from), IpAddr::V6(to)) => step.ipv6(from.octets(), to.octets(), LIFETIME),
        _ => panic!("{from} and {to} are of two families"),
    }
}

/// A packet with right checksums.
pub(crate) fn packet(kind: Kind, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let step = headers(from, to);
    let mut bytes = Vec::new();
    let (source, destination) = (from.port(), to.port());
    let tcp = |step: PacketBuilderStep<_>| step.tcp(source, destination, 1000, 5000);
    let written = match kind {
        Kind::Syn => tcp(step).syn().write(&mut bytes, &[]),
        Kind::Accept => tcp(step).syn().ack(1001).write(&mut bytes, &[]),
        Kind::Data => tcp(step).ack(77).psh().write(&mut bytes, PAYLOAD),
        Kind::Fin => tcp(step).ack(77).fin().write(&mut bytes, &[]),
        Kind::Datagram => step.udp(source, destination).write(&mut bytes, PAYLOAD),
    };
    written.expect("a buffer grows");
    bytes
}

/// A packet of TCP with numbers of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// [`SYN`] and so on.
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) window: u16,
    /// Of a SYN: the scale that it offers.
    pub(crate) scale: Option<u8>,
    pub(crate) payload: &'static [u8],
}

/// The number of a client's first byte, of an endpoint's, and how far another connection's numbers are away.
pub(crate) const CLIENT: u32 = 7_000;
pub(crate) const ENDPOINT: u32 = 90_000;
pub(crate) const AWAY: u32 = 3_000_000;

/// A segment without data.
pub(crate) fn tcp(flags: u8, sequence: u32, acknowledged: u32) -> Segment {
    Segment {
        flags,
        sequence,
        acknowledged,
        window: 500,
        ..Segment::default()
    }
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A packet of TCP with right checksums.
pub(crate) fn segment(from: SocketAddr, to: SocketAddr, it: Segment) -> Vec<u8> {
    let mut header = TcpHeader::new(from.port(), to.port(), it.sequence, it.window);
    header.acknowledgment_number = it.acknowledged;
    for (flag, field) in [
        (FIN, &mut header.fin),
        (SYN, &mut header.syn),
        (RST, &mut header.rst),
        (ACK, &mut header.ack),
    ] {
        *field = it.flags & flag != 0;
    }
    if let Some(scale) = it.scale {
        let options = [
            TcpOptionElement::MaximumSegmentSize(1460),
            TcpOptionElement::Noop,
            TcpOptionElement::WindowScale(scale),
        ];
        header.set_options(&options).expect("they are short");
    }
    let mut bytes = Vec::new();
    let step = headers(from, to).tcp_header(header);
    step.write(&mut bytes, it.payload).expect("a buffer grows");
    bytes
}

/// An IPv4 packet with options of IP before its datagram.
pub(crate) fn with_options(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    // "No operation", eight times.
    let options = Ipv4Options::try_from(&[1_u8; 8][..]).expect("two words");
    changed(&packet(Kind::Datagram, from, to), |headers| {
        if let Some(NetHeaders::Ipv4(ip, _)) = &mut headers.net {
            ip.options = options.clone();
            ip.total_len += 8;
        }
    })
}

/// A datagram with this payload.
pub(crate) fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let step = headers(from, to);
    let mut bytes = Vec::new();
    let written = step.udp(from.port(), to.port()).write(&mut bytes, payload);
    written.expect("a buffer grows");
    bytes
}

/// A packet that opens a connection of SCTP (RFC 9260, 3.3.2), with this checksum.
pub(crate) fn init(from: SocketAddr, to: SocketAddr, checksum: u32) -> Vec<u8> {
    let words = [
        u32::from(from.port()) << 16 | u32::from(to.port()),
        0,
        checksum.swap_bytes(),
        0x0100_0014,
        0x1234_5678,
        65_536,
        0x000a_000a,
        99,
    ];
    let mut bytes = Vec::new();
    let step = headers(from, to);
    let written = step.write(
        &mut bytes,
        IpNumber::SCTP,
        &words.map(u32::to_be_bytes).concat(),
    );
    written.expect("a buffer grows");
    bytes
}

/// The packet with another number as its protocol, or its first next header. The rest stays as it is.
pub(crate) fn of_protocol(mut bytes: Vec<u8>, protocol: u8) -> Vec<u8> {
    if is_ipv6(&bytes) {
        bytes[ETHERNET + 6] = protocol;
        return bytes;
    }
    changed(&bytes, |headers| {
        if let Some(NetHeaders::Ipv4(ip, _)) = &mut headers.net {
            ip.protocol = protocol.into();
        }
    })
}

/// A packet of IPv6 with this many options for the destination before its transport header.
pub(crate) fn with_extensions(bytes: &[u8], count: usize) -> Vec<u8> {
    const DESTINATION_OPTIONS: u8 = 60;
    let start = ETHERNET + 40;
    let mut out = bytes[..start].to_vec();
    let mut next = out[ETHERNET + 6];
    let mut extensions = Vec::new();
    for _ in 0..count {
        // A padding option of four bytes.
        extensions.splice(0..0, [next, 0, 1, 4, 0, 0, 0, 0]);
        next = DESTINATION_OPTIONS;
    }
    out[ETHERNET + 6] = next;
    let length = bytes.len() - start + extensions.len();
    let length = u16::try_from(length).expect("a packet");
    out[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
    out.extend(extensions);
    out.extend(&bytes[start..]);
    out
}

/// The first or the second fragment of a datagram that is longer than one.
pub(crate) fn fragment(from: SocketAddr, to: SocketAddr, is_first: bool) -> Vec<u8> {
    let whole = packet(Kind::Datagram, from, to);
    changed(&whole, |headers| {
        if let Some(NetHeaders::Ipv4(ip, _)) = &mut headers.net {
            ip.identification = 99;
            ip.dont_fragment = false;
            ip.more_fragments = is_first;
            let units = if is_first { 0 } else { 4 };
            ip.fragment_offset = IpFragOffset::try_new(units).expect("it is small");
        }
    })
}

/// An IPv4 packet with this number, that must not be fragmented.
pub(crate) fn unfragmentable(bytes: &[u8], id: u16) -> Vec<u8> {
    changed(bytes, |headers| {
        if let Some(NetHeaders::Ipv4(ip, _)) = &mut headers.net {
            ip.identification = id;
            ip.dont_fragment = true;
        }
    })
}

/// Writes the packet with other IPv4 headers, whose checksum is made right.
fn changed(bytes: &[u8], change: impl FnOnce(&mut LaxPacketHeaders<'_>)) -> Vec<u8> {
    let mut headers = LaxPacketHeaders::from_ethernet(bytes).expect("it has headers");
    change(&mut headers);
    let mut out = bytes[..ETHERNET].to_vec();
    if let Some(NetHeaders::Ipv4(ip, _)) = &mut headers.net {
        ip.header_checksum = ip.calc_header_checksum();
        ip.write(&mut out).expect("a buffer grows");
    }
    out.extend(&bytes[ETHERNET + 20..]);
    out
}

/// What a packet says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) lifetime: u8,
    /// Of TCP: RST, and the number that is acknowledged.
    pub(crate) reset: Option<u32>,
    pub(crate) payload: Vec<u8>,
    /// The checksums are right, that of UDP may be missing.
    pub(crate) is_right: bool,
}

/// Reads a packet of TCP or UDP; `None` for everything else.
pub(crate) fn read(bytes: &[u8]) -> Option<Read> {
    let sliced = SlicedPacket::from_ethernet(bytes).ok()?;
    let (from, to, lifetime, ip_is_right): (IpAddr, IpAddr, u8, bool) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            let is_right = header.header_checksum == header.calc_header_checksum();
            if header.is_fragmenting_payload() {
                return None;
            }
            (
                header.source.into(),
                header.destination.into(),
                header.time_to_live,
                is_right,
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            (
                header.source.into(),
                header.destination.into(),
                header.hop_limit,
                true,
            )
        }
        NetSlice::Arp(_) => return None,
    };
    let ip = etherparse::PacketHeaders::from_ethernet_slice(bytes)
        .ok()?
        .net?;
    let (ports, reset, payload, is_right) = match sliced.transport? {
        TransportSlice::Tcp(tcp) => {
            let header = tcp.to_header();
            let wanted = TransportHeader::Tcp(header.clone());
            let right = checksum(&wanted, &ip, tcp.payload());
            (
                (header.source_port, header.destination_port),
                header.rst.then_some(header.acknowledgment_number),
                tcp.payload().to_vec(),
                right == Some(header.checksum),
            )
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let right = checksum(&TransportHeader::Udp(header.clone()), &ip, udp.payload());
            (
                (header.source_port, header.destination_port),
                None,
                udp.payload().to_vec(),
                header.checksum == 0 || right == Some(header.checksum),
            )
        }
        _ => return None,
    };
    Some(Read {
        from: (from, ports.0).into(),
        to: (to, ports.1).into(),
        lifetime,
        reset,
        payload,
        is_right: ip_is_right && is_right,
    })
}

fn checksum(header: &TransportHeader, ip: &NetHeaders, payload: &[u8]) -> Option<u16> {
    match (header, ip) {
        (TransportHeader::Tcp(tcp), NetHeaders::Ipv4(ip, _)) => {
            tcp.calc_checksum_ipv4(ip, payload).ok()
        }
        (TransportHeader::Tcp(tcp), NetHeaders::Ipv6(ip, _)) => {
            tcp.calc_checksum_ipv6(ip, payload).ok()
        }
        (TransportHeader::Udp(udp), NetHeaders::Ipv4(ip, _)) => {
            udp.calc_checksum_ipv4(ip, payload).ok()
        }
        (TransportHeader::Udp(udp), NetHeaders::Ipv6(ip, _)) => {
            udp.calc_checksum_ipv6(ip, payload).ok()
        }
        _ => None,
    }
}

/// Whether a frame carries IPv6.
pub(crate) fn is_ipv6(bytes: &[u8]) -> bool {
    bytes.get(12..14) == Some(&EtherType::IPV6.0.to_be_bytes())
}

/// The length of the smallest IP header that a frame may have.
pub(crate) fn shortest(bytes: &[u8]) -> usize {
    match bytes.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 1,
    }
}
