//! Values of labels, as small numbers.

use std::net::IpAddr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

/// Label `family`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Values of the label, in the order of declaration.
    pub(super) const NAMES: [&str; 2] = ["1", "2"];

    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// Types of queries with a value of their own in label `type` (CoreDNS's
/// `plugin/metrics/vars/monitor.go`). All others are `other`.
const TYPES: [(RecordType, &str); 18] = [
    (RecordType::A, "A"),
    (RecordType::AAAA, "AAAA"),
    (RecordType::SRV, "SRV"),
    (RecordType::PTR, "PTR"),
    (RecordType::TXT, "TXT"),
    (RecordType::MX, "MX"),
    (RecordType::NS, "NS"),
    (RecordType::SOA, "SOA"),
    (RecordType::CNAME, "CNAME"),
    (RecordType::HTTPS, "HTTPS"),
    (RecordType::ANY, "ANY"),
    (RecordType::DS, "DS"),
    (RecordType::DNSKEY, "DNSKEY"),
    (RecordType::RRSIG, "RRSIG"),
    (RecordType::NSEC, "NSEC"),
    (RecordType::NSEC3, "NSEC3"),
    (RecordType::AXFR, "AXFR"),
    (RecordType::IXFR, "IXFR"),
];

/// Number of values of label `type`.
pub(super) const TYPE_COUNT: usize = TYPES.len() + 1;

pub(super) fn type_index(record_type: RecordType) -> usize {
    let known = TYPES.iter().position(|(it, _)| *it == record_type);
    known.unwrap_or(TYPES.len())
}

pub(super) fn type_label(index: usize) -> &'static str {
    TYPES.get(index).map_or("other", |(_, it)| it)
}

/// Values of label `rcode`: the codes up to BADCOOKIE (IANA's registry of DNS parameters), and one for
/// all others.
pub(super) const CODES: [&str; 25] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "DSOTYPENI",
    "RCODE12",
    "RCODE13",
    "RCODE14",
    "RCODE15",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADMODE",
    "BADNAME",
    "BADALG",
    "BADTRUNC",
    "BADCOOKIE",
    "other",
];

pub(super) fn code_index(code: ResponseCode) -> usize {
    usize::from(u16::from(code)).min(CODES.len() - 1)
}

/// CoreDNS's word for a response code.
pub(crate) fn code_label(code: ResponseCode) -> &'static str {
    CODES[code_index(code)]
}

/// Label `plugin`: who made the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// No plugin: the server itself refused the query, or every plugin passed it on.
    #[default]
    None,
    Acl,
    Any,
    Autopath,
    Cache,
    Chaos,
    Forward,
    Hosts,
    Kubernetes,
    Loop,
    Template,
    Whoami,
}

impl Plugin {
    /// Values of the label, in the order of declaration.
    pub(super) const NAMES: [&str; 12] = [
        "",
        "acl",
        "any",
        "autopath",
        "cache",
        "chaos",
        "forward",
        "hosts",
        "kubernetes",
        "loop",
        "template",
        "whoami",
    ];
}
