//! The checksum of SCTP: a CRC of the whole packet (RFC 9260, 6.8), corrected without reading the packet.
//!
//! A CRC is linear: the CRC of two packets that differ in their ports differs by the CRC of that difference
//! followed by as many zero bytes as the packet has behind its ports. So many zero bytes are a linear map of the
//! 32 bits of the CRC, and so are two, four, eight: one table for each bit of their number, by four bits of the
//! CRC at a time. Tables, because a loop over bits is too much for the verifier.
//!
//! A packet that is refused is read, since its sender gets an answer: see [`is_crc_right`].

use aya_ebpf::programs::TcContext;

use crate::global::global;
use crate::packet::{Packet, load};

/// CRC-32C, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// A packet has less than 2^16 bytes.
const LENGTH_BITS: usize = 16;
/// Words of a packet that is read. One that opens a connection has some 20 (RFC 9260, 3.3.2).
const WORDS: u32 = 64;
/// The word that has the checksum, in the order of a little-endian machine.
const CHECKSUM: u32 = 2;

/// A linear map of a CRC: for each of its eight groups of four bits, the result by the group's value.
type Map = [[u32; 16]; 8];

/// The maps of `2^n` zero bytes.
static ZEROS: [Map; LENGTH_BITS] = zeros();

const fn zeros() -> [Map; LENGTH_BITS] {
    let mut maps = [[[0; 16]; 8]; LENGTH_BITS];
    let mut index = 0;
    while index < LENGTH_BITS {
        let mut part = 0;
        while part < 8 {
            let mut value = 0;
            while value < 16 {
                let crc = (value as u32) << (4 * part);
                maps[index][part][value] = match index {
                    0 => zero_byte(crc),
                    // Twice as many zeros as the map before.
                    _ => apply(&maps[index - 1], apply(&maps[index - 1], crc)),
                };
                value += 1;
            }
            part += 1;
        }
        index += 1;
    }
    maps
}

/// A CRC after one byte of zeros.
const fn zero_byte(mut crc: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        crc = (crc >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(crc & 1));
        bit += 1;
    }
    crc
}

#[inline(always)]
const fn apply(map: &Map, crc: u32) -> u32 {
    let (mut result, mut part) = (0, 0);
    while part < 8 {
        result ^= map[part][(crc >> (4 * part)) as usize & 15];
        part += 1;
    }
    result
}

/// The difference of the CRCs of two packets. Their first four bytes differ by `bytes`; `rest` equal bytes follow.
#[inline(never)]
pub fn difference(bytes: u32, rest: u32) -> u32 {
    // The CRC of four bytes is that of four zero bytes behind them.
    let mut crc = apply(&ZEROS[2], bytes);
    let mut index = 0;
    while index < LENGTH_BITS {
        let shifted = apply(&ZEROS[index], crc);
        if (rest >> index) & 1 != 0 {
            crc = shifted;
        }
        index += 1;
    }
    crc
}

global!(
    /// Whether the checksum of a packet is right. Not that of one with more than [`WORDS`]. A sender on this machine may leave it
    /// to the network card, and zero in its place (`sctp_packet_pack`).
    pub fn is_crc_right(ctx, packet: &Packet) -> bool = is_crc_right_body else false
);

#[inline(always)]
fn is_crc_right_body(ctx: &TcContext, packet: &Packet) -> bool {
    // Chunks have whole words.
    if packet.length & 3 != 0 || packet.length > WORDS * 4 {
        return false;
    }
    let (mut crc, mut wanted, mut word) = (!0, 0, 0);
    while word < WORDS && word * 4 < packet.length {
        let Some(mut value) = load::<u32>(ctx, packet.transport + word * 4) else {
            return false;
        };
        if word == CHECKSUM {
            wanted = value;
            value = 0;
        }
        // The CRC of four bytes is that of four zero bytes behind them.
        crc = apply(&ZEROS[2], crc ^ u32::from_le(value));
        word += 1;
    }
    wanted == 0 || u32::from_le(wanted) == !crc
}
