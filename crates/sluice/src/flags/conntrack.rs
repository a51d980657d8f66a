//! Connection tracking of the kernel.

use super::value::{self, to};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::Conntrack,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "conntrack-max-per-core",
        value: Some("N"),
        help: "Connections per core, 0 leaves the kernel's limit [default: 32768]",
        fields: &["conntrack.maxPerCore"],
        set: |c, v| to(&mut c.conntrack.max_per_core, value::integer(v).map(Some)),
        ..BASE
    },
    Flag {
        name: "conntrack-min",
        value: Some("N"),
        help: "Connections at least [default: 131072]",
        fields: &["conntrack.min"],
        set: |c, v| to(&mut c.conntrack.min, value::integer(v).map(Some)),
        ..BASE
    },
    Flag {
        name: "conntrack-tcp-timeout-established",
        value: Some("TIME"),
        help: "Of established TCP connections, 0 leaves it [default: 24h]",
        fields: &["conntrack.tcpEstablishedTimeout"],
        set: |c, v| {
            to(
                &mut c.conntrack.tcp_established_timeout,
                value::duration(v).map(Some),
            )
        },
        ..BASE
    },
    Flag {
        name: "conntrack-tcp-timeout-close-wait",
        value: Some("TIME"),
        help: "Of TCP connections in CLOSE_WAIT, 0 leaves it [default: 1h]",
        fields: &["conntrack.tcpCloseWaitTimeout"],
        set: |c, v| {
            to(
                &mut c.conntrack.tcp_close_wait_timeout,
                value::duration(v).map(Some),
            )
        },
        ..BASE
    },
    Flag {
        name: "conntrack-tcp-be-liberal",
        help: "Take packets outside the TCP window for valid",
        fields: &["conntrack.tcpBeLiberal"],
        set: |c, v| to(&mut c.conntrack.tcp_be_liberal, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "conntrack-udp-timeout",
        value: Some("TIME"),
        help: "Of UDP flows without an answer, 0 leaves it [default: 0s]",
        fields: &["conntrack.udpTimeout"],
        set: |c, v| to(&mut c.conntrack.udp_timeout, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "conntrack-udp-timeout-stream",
        value: Some("TIME"),
        help: "Of UDP flows with answers, 0 leaves it [default: 0s]",
        fields: &["conntrack.udpStreamTimeout"],
        set: |c, v| to(&mut c.conntrack.udp_stream_timeout, value::duration(v)),
        ..BASE
    },
];
