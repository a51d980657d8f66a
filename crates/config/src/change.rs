//! What a new configuration asks of a running program.

use crate::effective::{Effective, Mode};

/// What is to be done about a new configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It means the same.
    Nothing,
    /// The program can take it on while it runs.
    Apply,
    /// Only a new process can take it on: the fields that ask for it.
    Restart(Vec<&'static str>),
}

/// Compares two configurations.
///
/// Safe at run time are those that only the plan, the agent's clock, the log and the kernel's
/// settings know: masquerading, detection of local traffic, NodePort addresses, periods,
/// verbosity, connection tracking. The rest is decided at start; in the ipvs mode also the mark bit
/// that says "masquerade", because marks of near clients are laid out around it, and in the iptables
/// mode NodePort addresses that add loopback, because the machine is set up for that after the first
/// sync, and `tcpBeLiberal`, because rules are written for what the kernel does at start.
pub fn change(old: &Effective, new: &Effective) -> Change {
    if old == new {
        return Change::Nothing;
    }
    // Every field has a place here, or this does not compile.
    let Effective {
        hostname_override,
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
        health_address,
        metrics_address,
        bind_address_hard_fail,
        profiling,
        client,
        config_sync_period,
        localhost_node_ports,
        ipvs,
        verbosity: _,
        log_format,
    } = new;
    let fixed = [
        (
            "hostnameOverride",
            *hostname_override == old.hostname_override,
        ),
        ("mode", *mode == old.mode),
        (
            "nodePortAddresses",
            *node_ports == old.node_ports
                || !new.node_ports_on_loopback()
                || old.node_ports_on_loopback(),
        ),
        (
            "conntrack.tcpBeLiberal",
            *mode != Mode::Iptables || !conntrack.tcp_be_liberal || old.conntrack.tcp_be_liberal,
        ),
        ("bindAddress", *node_ip == old.node_ip),
        ("oomScoreAdj", *oom_score_adj == old.oom_score_adj),
        ("healthzBindAddress", *health_address == old.health_address),
        (
            "metricsBindAddress",
            *metrics_address == old.metrics_address,
        ),
        (
            "bindAddressHardFail",
            *bind_address_hard_fail == old.bind_address_hard_fail,
        ),
        ("enableProfiling", *profiling == old.profiling),
        ("clientConnection", *client == old.client),
        (
            "configSyncPeriod",
            *config_sync_period == old.config_sync_period,
        ),
        (
            "iptables.localhostNodePorts",
            *localhost_node_ports == old.localhost_node_ports,
        ),
        (
            "iptables.masqueradeBit",
            *mode != Mode::Ipvs || *masquerade_mark == old.masquerade_mark,
        ),
        ("ipvs", *ipvs == old.ipvs),
        ("logging.format", *log_format == old.log_format),
    ];
    let changed = fixed.into_iter().filter(|(_, same)| !same);
    let changed: Vec<&str> = changed.map(|(field, _)| field).collect();
    match changed.is_empty() {
        true => Change::Apply,
        false => Change::Restart(changed),
    }
}

#[cfg(test)]
mod tests;
