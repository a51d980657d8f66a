//! The ipvs mode.

use super::value::{self, list, text, to};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::Ipvs,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "ipvs-sync-period",
        value: Some("TIME"),
        help: "Between two comparisons with the kernel, unless --resync-period is given [default: 5m]",
        fields: &["ipvs.syncPeriod"],
        set: |c, v| to(&mut c.ipvs.sync_period, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "ipvs-min-sync-period",
        value: Some("TIME"),
        help: "Between two syncs at least [default: 0s]",
        fields: &["ipvs.minSyncPeriod"],
        set: |c, v| to(&mut c.ipvs.min_sync_period, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "ipvs-scheduler",
        value: Some("NAME"),
        help: "How endpoints are chosen [default: rr]",
        fields: &["ipvs.scheduler"],
        set: |c, v| text(&mut c.ipvs.scheduler, v),
        ..BASE
    },
    Flag {
        name: "ipvs-exclude-cidrs",
        value: Some("CIDR,.."),
        help: "Virtual servers in these prefixes are left alone",
        fields: &["ipvs.excludeCIDRs"],
        set: |c, v| list(&mut c.ipvs.exclude_cidrs, v),
        ..BASE
    },
    Flag {
        name: "ipvs-strict-arp",
        help: "Set arp_ignore and arp_announce",
        fields: &["ipvs.strictARP"],
        set: |c, v| to(&mut c.ipvs.strict_arp, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "ipvs-tcp-timeout",
        value: Some("TIME"),
        help: "Of idle TCP connections, 0 leaves it [default: 0s]",
        fields: &["ipvs.tcpTimeout"],
        set: |c, v| to(&mut c.ipvs.tcp_timeout, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "ipvs-tcpfin-timeout",
        value: Some("TIME"),
        help: "Of TCP connections after a FIN, 0 leaves it [default: 0s]",
        fields: &["ipvs.tcpFinTimeout"],
        set: |c, v| to(&mut c.ipvs.tcp_fin_timeout, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "ipvs-udp-timeout",
        value: Some("TIME"),
        help: "Of UDP, 0 leaves it [default: 0s]",
        fields: &["ipvs.udpTimeout"],
        set: |c, v| to(&mut c.ipvs.udp_timeout, value::duration(v)),
        ..BASE
    },
];
