//! Prints keys and values of elements as nft does, by nft's numbers of data types.

use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_model::Protocol;
use sluice_nft::shape::{
    TYPE_INET_PROTO, TYPE_INET_SERVICE, TYPE_INTEGER, TYPE_IPV4_ADDR, TYPE_IPV6_ADDR,
};

/// Bits of a type in a concatenation (`TYPE_BITS` in nft's `include/datatype.h`).
const TYPE_BITS: u32 = 6;

/// The bytes of a key or value with fields of these types; in hexadecimal for types that neither we nor
/// kube-proxy use.
pub(super) fn value(type_id: u32, bytes: &[u8]) -> String {
    fields(type_id, bytes).unwrap_or_else(|| {
        let digits = bytes.iter().map(|it| format!("{it:02x}"));
        format!("0x{}", digits.collect::<String>())
    })
}

fn fields(type_id: u32, mut bytes: &[u8]) -> Option<String> {
    let shifts = (0..u32::BITS / TYPE_BITS).rev().map(|it| it * TYPE_BITS);
    let types = shifts.map(|it| type_id >> it & ((1 << TYPE_BITS) - 1));
    let mut words = Vec::new();
    for kind in types.filter(|it| *it != 0) {
        let (text, length) = match kind {
            TYPE_IPV4_ADDR => (Ipv4Addr::from(*bytes.first_chunk()?).to_string(), 4),
            TYPE_IPV6_ADDR => (Ipv6Addr::from(*bytes.first_chunk()?).to_string(), 16),
            TYPE_INET_PROTO => (protocol(*bytes.first()?), 4),
            TYPE_INET_SERVICE => (u16::from_be_bytes(*bytes.first_chunk()?).to_string(), 4),
            TYPE_INTEGER => (u32::from_ne_bytes(*bytes.first_chunk()?).to_string(), 4),
            _ => return None,
        };
        words.push(text);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    (bytes.is_empty() && !words.is_empty()).then(|| words.join(" . "))
}

fn protocol(number: u8) -> String {
    let known = Protocol::ALL.into_iter().find(|it| it.number() == number);
    known.map_or_else(|| number.to_string(), |it| it.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_nft_writes_them() {
        let frontend = [10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0];
        assert_eq!(value(0x7_30d, &frontend), "10.96.0.10 . tcp . 80");
        assert_eq!(value(4, &7_u32.to_ne_bytes()), "7");
        assert_eq!(value(7, &[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(value(8, &[0; 16]), "::");
        // A type of interface names, and bytes that do not fit the types.
        assert_eq!(value(41, &[1, 2]), "0x0102");
        assert_eq!(value(0x7_30d, &frontend[..5]), "0x0a60000a06");
        assert_eq!(value(0, &[]), "0x");
    }
}
