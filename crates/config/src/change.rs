//! Whether a running program can take over a new configuration.

use crate::effective::{Effective, Mode};

/// How a running program takes over a new configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Both configurations mean the same.
    Nothing,
    /// The program applies it while it runs.
    Apply,
    /// These fields differ and need a new process.
    Restart(Vec<&'static str>),
}

/// Compares two configurations.
///
/// Masquerading, detection of local traffic, NodePort addresses, periods, verbosity and connection
/// tracking change at run time; every other field needs a restart. Three exceptions need one, too:
/// - ipvs mode, the mark bit for masquerading: the marks of local clients are laid out around it;
/// - iptables mode, NodePort addresses that add loopback: the node sets its sysctls for them once,
///   after the first sync;
/// - iptables mode, `tcpBeLiberal` turned on: the rules depend on the kernel's value at the start.
pub fn change(old: &Effective, new: &Effective) -> Change {
    if old == new {
        return Change::Nothing;
    }
    // Names every field, so that a new one does not compile before somebody decides about it.
    let Effective {
        hostname_override: hostname,
        mode,
        mode_is_default: _,
        masquerade_all: _,
        masquerade_mark,
        local_detector: _,
        node_ports,
        node_ip,
        periods: _,
        conntrack,
        oom_score_adj,
        health_address: health,
        metrics_address: metrics,
        bind_address_hard_fail: hard_fail,
        profiling,
        client,
        config_sync_period: resync,
        localhost_node_ports: loopback,
        ipvs,
        verbosity: _,
        log_format,
    } = old;
    let same_ports = *node_ports == new.node_ports
        || !new.node_ports_on_loopback()
        || old.node_ports_on_loopback();
    let (liberal, was_liberal) = (new.conntrack.tcp_be_liberal, conntrack.tcp_be_liberal);
    let same_liberal = new.mode != Mode::Iptables || !liberal || was_liberal;
    let same_mark = new.mode != Mode::Ipvs || *masquerade_mark == new.masquerade_mark;
    let mut changed = Vec::new();
    let mut fixed = |field, same: bool| {
        if !same {
            changed.push(field);
        }
    };
    fixed("hostnameOverride", *hostname == new.hostname_override);
    fixed("mode", *mode == new.mode);
    fixed("nodePortAddresses", same_ports);
    fixed("conntrack.tcpBeLiberal", same_liberal);
    fixed("bindAddress", *node_ip == new.node_ip);
    fixed("oomScoreAdj", *oom_score_adj == new.oom_score_adj);
    fixed("healthzBindAddress", *health == new.health_address);
    fixed("metricsBindAddress", *metrics == new.metrics_address);
    fixed(
        "bindAddressHardFail",
        *hard_fail == new.bind_address_hard_fail,
    );
    fixed("enableProfiling", *profiling == new.profiling);
    fixed("clientConnection", *client == new.client);
    fixed("configSyncPeriod", *resync == new.config_sync_period);
    fixed(
        "iptables.localhostNodePorts",
        *loopback == new.localhost_node_ports,
    );
    fixed("iptables.masqueradeBit", same_mark);
    fixed("ipvs", *ipvs == new.ipvs);
    fixed("logging.format", *log_format == new.log_format);
    if changed.is_empty() {
        Change::Apply
    } else {
        Change::Restart(changed)
    }
}

#[cfg(test)]
mod tests;
