//! Values of arguments: names, numbers, durations, addresses.

mod address;
mod duration;
mod selector;
mod zone;

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, RecordType};
use ipnet::IpNet;
use regex::RegexBuilder;

use crate::Pattern;
pub(crate) use address::{bind_target, host_port, ip_with_interface, listen};
pub(crate) use duration::duration;
pub(crate) use selector::selector;
pub(crate) use zone::{is_reverse, key, name, zones};

/// Characters of the Corefile that a message repeats.
const SHOWN: usize = 80;
/// CoreDNS's bound on a regular expression, in bytes.
const MAX_PATTERN: usize = 10_000;
/// Nested groups and repetitions in a regular expression.
const MAX_NESTING: u32 = 100;

/// A word of the Corefile in a message: in quotes, in one line, not longer than 80 characters.
pub(crate) fn quoted(word: &str) -> String {
    match word.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &word[..end]),
        None => format!("{word:?}"),
    }
}

/// `: did you mean "forward"?` when one of the known words is similar, else nothing.
pub(crate) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let word = word.to_lowercase();
    if word.len() > SHOWN {
        return String::new();
    }
    let distance = |it: &str| strsim::damerau_levenshtein(&word, it);
    let nearest = known.into_iter().min_by_key(|it| distance(it));
    match nearest.filter(|it| distance(it) <= (it.len() / 3).max(1)) {
        Some(known) => format!(": did you mean {known:?}?"),
        None => String::new(),
    }
}

/// A whole number within a range.
pub(crate) fn number<T>(word: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = word.parse().ok().filter(|it| range.contains(it));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| format!("{} is no number from {least} to {most}", quoted(word)))
}

/// One of a few words, in lower or upper case.
pub(crate) fn one_of<T: Copy>(word: &str, known: &[(&str, T)]) -> Result<T, String> {
    let lower = word.to_lowercase();
    let found = known.iter().find(|(it, _)| *it == lower);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let similar = suggestion(word, names.iter().copied());
        if similar.is_empty() {
            format!("{} is not one of {}", quoted(word), names.join(", "))
        } else {
            format!("unknown value {}{similar}", quoted(word))
        }
    })
}

/// A regular expression.
pub(crate) fn pattern(word: &str) -> Result<Pattern, String> {
    if word.len() > MAX_PATTERN {
        let length = word.len();
        return Err(format!(
            "the regular expression has {length} bytes, at most {MAX_PATTERN} are allowed"
        ));
    }
    let built = RegexBuilder::new(word).nest_limit(MAX_NESTING).build();
    built.map(Pattern).map_err(|why| {
        let why = why.to_string();
        let last = why.lines().last().unwrap_or_default();
        let why = last.strip_prefix("error: ").unwrap_or(last);
        format!(
            "regular expression {}: {}",
            quoted(word),
            why.escape_debug()
        )
    })
}

/// Types that the library reads only as numbers.
const MORE_TYPES: [(&str, u16); 9] = [
    ("RP", 17),
    ("AFSDB", 18),
    ("LOC", 29),
    ("DHCID", 49),
    ("SPF", 99),
    ("EUI48", 108),
    ("EUI64", 109),
    ("URI", 256),
    ("IXFR", 251),
];

/// A type of records, as `AAAA` or `TYPE28`.
pub(crate) fn record_type(word: &str) -> Result<RecordType, String> {
    let upper = word.to_uppercase();
    let number = |it: &str| it.strip_prefix("TYPE").and_then(|it| it.parse().ok());
    let more = MORE_TYPES.iter().find(|(name, _)| *name == upper);
    let found = upper.parse().ok();
    found
        .or_else(|| {
            more.map(|(_, it)| *it)
                .or_else(|| number(&upper))
                .map(RecordType::from)
        })
        .ok_or_else(|| format!("unknown record type {}", quoted(word)))
}

/// A class: `IN`, `CH`, `HS`, `NONE` or `ANY`.
pub(crate) fn class(word: &str) -> Result<DNSClass, String> {
    let class = word.to_uppercase().parse();
    class.map_err(|_| {
        format!(
            "{} is not one of the classes IN, CH, HS, NONE, ANY",
            quoted(word)
        )
    })
}

/// Names of response codes (RFC 6895), as miekg/dns spells them.
const RESPONSE_CODES: [(&str, ResponseCode); 19] = [
    ("noerror", ResponseCode::NoError),
    ("formerr", ResponseCode::FormErr),
    ("servfail", ResponseCode::ServFail),
    ("nxdomain", ResponseCode::NXDomain),
    ("notimp", ResponseCode::NotImp),
    ("refused", ResponseCode::Refused),
    ("yxdomain", ResponseCode::YXDomain),
    ("yxrrset", ResponseCode::YXRRSet),
    ("nxrrset", ResponseCode::NXRRSet),
    ("notauth", ResponseCode::NotAuth),
    ("notzone", ResponseCode::NotZone),
    ("badsig", ResponseCode::BADSIG),
    ("badkey", ResponseCode::BADKEY),
    ("badtime", ResponseCode::BADTIME),
    ("badmode", ResponseCode::BADMODE),
    ("badname", ResponseCode::BADNAME),
    ("badalg", ResponseCode::BADALG),
    ("badtrunc", ResponseCode::BADTRUNC),
    ("badcookie", ResponseCode::BADCOOKIE),
];

/// A response code by name.
pub(crate) fn response_code(word: &str) -> Result<ResponseCode, String> {
    let lower = word.to_lowercase();
    let found = RESPONSE_CODES.iter().find(|(name, _)| *name == lower);
    found.map(|(_, code)| *code).ok_or_else(|| {
        let similar = suggestion(word, RESPONSE_CODES.iter().map(|(name, _)| *name));
        format!("unknown response code {}{similar}", quoted(word))
    })
}

/// A network in CIDR notation, or one address.
pub(crate) fn network(word: &str) -> Result<IpNet, String> {
    let address = || word.parse::<IpAddr>().ok().map(IpNet::from);
    let network = word.parse().ok().map(|it: IpNet| it.trunc());
    network
        .or_else(address)
        .ok_or_else(|| format!("{} is no network such as 10.0.0.0/8", quoted(word)))
}
