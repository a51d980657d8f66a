//! Flags of the ipvs mode.

use super::value::{duration, list, switch, text};
use super::{BOOL, Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Ipvs, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("ipvs-sync-period", "TIME")
        .help("Time between two comparisons with the kernel, unless --resync-period is given [default: 5m]")
        .fields(&["ipvs.syncPeriod"])
        .set(|c, v| duration(&mut c.ipvs.sync_period, v)),
    flag("ipvs-min-sync-period", "TIME")
        .help("Shortest time between two syncs [default: 0s]")
        .fields(&["ipvs.minSyncPeriod"])
        .set(|c, v| duration(&mut c.ipvs.min_sync_period, v)),
    flag("ipvs-scheduler", "NAME")
        .help("IPVS scheduler, which chooses the endpoint [default: rr]")
        .fields(&["ipvs.scheduler"])
        .set(|c, v| text(&mut c.ipvs.scheduler, v)),
    flag("ipvs-exclude-cidrs", "CIDR,..")
        .help("Virtual servers in these prefixes are left alone")
        .fields(&["ipvs.excludeCIDRs"])
        .set(|c, v| list(&mut c.ipvs.exclude_cidrs, v)),
    flag("ipvs-strict-arp", BOOL)
        .help("Set arp_ignore and arp_announce")
        .fields(&["ipvs.strictARP"])
        .set(|c, v| switch(&mut c.ipvs.strict_arp, v)),
    flag("ipvs-tcp-timeout", "TIME")
        .help("Timeout of idle TCP connections; 0 leaves the kernel's [default: 0s]")
        .fields(&["ipvs.tcpTimeout"])
        .set(|c, v| duration(&mut c.ipvs.tcp_timeout, v)),
    flag("ipvs-tcpfin-timeout", "TIME")
        .help("Timeout of TCP connections after a FIN; 0 leaves the kernel's [default: 0s]")
        .fields(&["ipvs.tcpFinTimeout"])
        .set(|c, v| duration(&mut c.ipvs.tcp_fin_timeout, v)),
    flag("ipvs-udp-timeout", "TIME")
        .help("Timeout of UDP flows; 0 leaves the kernel's [default: 0s]")
        .fields(&["ipvs.udpTimeout"])
        .set(|c, v| duration(&mut c.ipvs.udp_timeout, v)),
];
