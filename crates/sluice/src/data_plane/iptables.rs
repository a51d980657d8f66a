//! iptables: the host's programs, in the variant that the host uses.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::Sender;

use anyhow::Context;
use sluice_config::Effective;
use sluice_iptables::{Conntrack, Iptables, Ipv6, concerns};
use sluice_netlink::nfacct::Accounts;
use sluice_node::drift::Watched;
use sluice_node::metrics::Metrics;
use sluice_node::takeover::{Chains, Ours};
use sluice_node::{Input, privileges};
use sluice_xtables::programs::{Programs, Variant};
use sluice_xtables::rule::Table;
use sluice_xtables::watch::OwnWrites;
use tracing::{debug, info, warn};

use super::{DataPlane, watch_for_drift};
use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;

const ROUTE_LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";
const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

/// The iptables data plane.
pub(crate) struct IptablesPlane {
    backend: Iptables,
    localhost_node_ports: bool,
}

impl DataPlane for IptablesPlane {
    type Backend = Iptables;

    fn open(_: &ProxyArgs, config: &ProxyConfig) -> anyhow::Result<Self> {
        let programs = programs()?;
        let need = "this kernel does not let us use iptables";
        let backend = Iptables::open(programs, conntrack()).context(need)?;
        if let Ipv6::Impossible(reason) = backend.ipv6() {
            warn!(reason, "no iptables for IPv6: only IPv4 is served");
        }
        Ok(Self {
            backend,
            localhost_node_ports: config.node.effective.node_ports_on_loopback(),
        })
    }

    fn ours(&self) -> Ours {
        Ours {
            chains: Some(chains(self.backend.programs())),
            has,
            ipvs: false,
        }
    }

    /// iptables-restore has no figures; rules count some packets.
    fn meter(&mut self, metrics: &Arc<Metrics>) {
        match Accounts::open() {
            Ok(accounts) => metrics.show_packets(accounts),
            Err(error) => debug!(%error, "packets that rules count are not shown"),
        }
    }

    fn after_first_sync(&self, inputs: Sender<Input>) -> Box<dyn FnOnce() + Send> {
        let variant = self.backend.programs().variant();
        let own = self.backend.own_writes();
        let generation = self.backend.generation();
        let localhost = self.localhost_node_ports;
        Box::new(move || {
            watch_chains(variant, has, own, &generation, inputs);
            if localhost {
                route_loopback();
            }
        })
    }

    fn into_backend(self) -> Iptables {
        self.backend
    }
}

/// The programs of the host, and a line about which they are.
fn programs() -> anyhow::Result<Programs> {
    lend_privileges();
    let programs = Programs::detect().context("find out which iptables this host uses")?;
    let (variant, version) = (programs.variant(), programs.version());
    info!(%variant, %version, "iptables");
    Ok(programs)
}

/// What iptables' programs take, before they are run for the first time.
pub(super) fn lend_privileges() {
    if let Err(error) = privileges::lend(privileges::IPTABLES) {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "the programs of iptables get no privileges");
    }
}

/// Where these programs keep chains.
pub(super) fn chains(programs: &Programs) -> Chains {
    match programs.variant() {
        Variant::Nft => Chains::Nft,
        Variant::Legacy => Chains::Legacy,
    }
}

/// Begins to hear of foreign changes of chains, where the kernel tells of them.
pub(super) fn watch_chains(
    variant: Variant,
    has: fn(&str, &str) -> bool,
    own: OwnWrites,
    generation: &AtomicU32,
    inputs: Sender<Input>,
) {
    if variant == Variant::Nft {
        let watched = Watched::Chains {
            has,
            is_ours: Box::new(move |generation| own.made(generation)),
        };
        watch_for_drift(watched, &[], generation, inputs);
    }
}

/// Whether a chain, by its table and name, is ours or leads to ours.
fn has(table: &str, chain: &str) -> bool {
    table_of(table).is_some_and(|it| concerns(it, chain))
}

/// The table of this name, of those in which we have chains.
pub(super) fn table_of(name: &str) -> Option<Table> {
    Table::ALL.into_iter().find(|it| it.as_str() == name)
}

/// Sets what NodePorts on loopback need of the machine, for an agent in a container that may not:
/// the rules that guard it, then the sysctl.
pub(crate) fn prepare_machine(effective: &Effective) -> anyhow::Result<()> {
    if !effective.node_ports_on_loopback() || routes_loopback() {
        return Ok(());
    }
    let backend = Iptables::open(programs()?, conntrack());
    let mut backend = backend.context("open the iptables data plane")?;
    let guarded = backend.guard_loopback();
    guarded.context("guard the loopback address against other hosts")?;
    route_loopback();
    Ok(())
}

/// Whether the kernel lets packets outside the window through, as of now. Rules are written for what
/// it is at start.
pub(crate) fn conntrack() -> Conntrack {
    let value = fs::read_to_string(BE_LIBERAL).unwrap_or_default();
    match value.trim() {
        "" | "0" => Conntrack::Strict,
        _ => Conntrack::Liberal,
    }
}

fn routes_loopback() -> bool {
    fs::read_to_string(ROUTE_LOCALNET).is_ok_and(|it| it.trim() == "1")
}

/// Lets packets from 127.0.0.1 leave for a pod. The rules that keep other hosts from the loopback
/// address are in force by now (CVE-2020-8558).
fn route_loopback() {
    if routes_loopback() {
        return;
    }
    match fs::write(ROUTE_LOCALNET, "1") {
        Ok(()) => info!(path = ROUTE_LOCALNET, value = 1, "sysctl set"),
        Err(error) => warn!(
            %error,
            path = ROUTE_LOCALNET,
            "NodePorts do not answer on 127.0.0.1: set the sysctl to 1 on the machine, or turn them \
             off by --iptables-localhost-nodeports=false"
        ),
    }
}
