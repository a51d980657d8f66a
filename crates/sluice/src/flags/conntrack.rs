//! Flags of the kernel's connection tracking.

use super::value::{duration, integer, switch};
use super::{BOOL, Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Conntrack, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("conntrack-max-per-core", "N")
        .help("Most tracked connections per CPU core; 0 leaves the kernel's limit [default: 32768]")
        .fields(&["conntrack.maxPerCore"])
        .set(|c, v| integer(&mut c.conntrack.max_per_core, v)),
    flag("conntrack-min", "N")
        .help("Least value of that limit, whatever the number of cores [default: 131072]")
        .fields(&["conntrack.min"])
        .set(|c, v| integer(&mut c.conntrack.min, v)),
    flag("conntrack-tcp-timeout-established", "TIME")
        .help("Timeout of established TCP connections; 0 leaves the kernel's [default: 24h]")
        .fields(&["conntrack.tcpEstablishedTimeout"])
        .set(|c, v| duration(&mut c.conntrack.tcp_established_timeout, v)),
    flag("conntrack-tcp-timeout-close-wait", "TIME")
        .help("Timeout of TCP connections in CLOSE_WAIT; 0 leaves the kernel's [default: 1h]")
        .fields(&["conntrack.tcpCloseWaitTimeout"])
        .set(|c, v| duration(&mut c.conntrack.tcp_close_wait_timeout, v)),
    flag("conntrack-tcp-be-liberal", BOOL)
        .help("Accept packets outside the TCP window as valid")
        .fields(&["conntrack.tcpBeLiberal"])
        .set(|c, v| switch(&mut c.conntrack.tcp_be_liberal, v)),
    flag("conntrack-udp-timeout", "TIME")
        .help("Timeout of UDP flows without an answer; 0 leaves the kernel's [default: 0s]")
        .fields(&["conntrack.udpTimeout"])
        .set(|c, v| duration(&mut c.conntrack.udp_timeout, v)),
    flag("conntrack-udp-timeout-stream", "TIME")
        .help("Timeout of UDP flows with answers; 0 leaves the kernel's [default: 0s]")
        .fields(&["conntrack.udpStreamTimeout"])
        .set(|c, v| duration(&mut c.conntrack.udp_stream_timeout, v)),
];
