//! Zones: names, and networks that stand for reverse zones.

use hickory_proto::rr::Name;
use ipnet::IpNet;

use super::quoted;

/// A domain name, in lower case and fully qualified.
pub(crate) fn name(word: &str) -> Result<Name, String> {
    let wrong = || format!("{} is no domain name", quoted(word));
    if word.is_empty() {
        return Err(wrong());
    }
    let mut name = Name::from_ascii(word).map_err(|_| wrong())?.to_lowercase();
    name.set_fqdn(true);
    Ok(name)
}

/// The zones of an argument: like a key of a server block, whose scheme and port are of no importance.
pub(crate) fn zones(word: &str) -> Result<Vec<Name>, String> {
    let schemes = [
        "dns://",
        "tls://",
        "quic://",
        "grpc://",
        "https://",
        "https3://",
    ];
    let bare = schemes.iter().find_map(|it| word.strip_prefix(it));
    key(bare.unwrap_or(word)).map(|(zones, _)| zones)
}

/// The zones and the port of a key without scheme. What follows the last colon is a port if it is a number.
/// A network in CIDR notation stands for its reverse zones.
pub(crate) fn key(word: &str) -> Result<(Vec<Name>, Option<u16>), String> {
    let (zone, port) = match word.rsplit_once(':') {
        Some((_, "")) => return Err(format!("{}: the port is missing", quoted(word))),
        Some((zone, port)) => match port.parse::<i64>() {
            Ok(port) => {
                let port = u16::try_from(port);
                let port =
                    port.map_err(|_| format!("{}: a port is at most 65535", quoted(word)))?;
                (zone, Some(port))
            }
            Err(_) => (word, None),
        },
        None => (word, None),
    };
    let zones = match zone.parse::<IpNet>() {
        Ok(network) => reverse_zones(network),
        Err(_) => vec![name(zone)?],
    };
    Ok((zones, port))
}

/// The reverse zones that make up a network: one for each label's worth of bits.
fn reverse_zones(network: IpNet) -> Vec<Name> {
    let bits = match network {
        IpNet::V4(_) => 8,
        IpNet::V6(_) => 4,
    };
    let prefix = network.prefix_len().next_multiple_of(bits);
    let parts = network.trunc().subnets(prefix);
    let parts = parts.expect("the prefix is between that of the network and that of an address");
    parts
        .map(|part| {
            // Beside the labels of the address there are `in-addr.arpa` or `ip6.arpa`.
            let mut zone = Name::from(part.addr()).trim_to(usize::from(prefix / bits) + 2);
            zone.set_fqdn(true);
            zone
        })
        .collect()
}

/// Whether a zone is within `in-addr.arpa` or `ip6.arpa`.
pub(crate) fn is_reverse(zone: &Name) -> bool {
    let labels: Vec<&[u8]> = zone.iter().rev().take(2).collect();
    matches!(labels.as_slice(), [b"arpa", b"in-addr" | b"ip6"])
}
