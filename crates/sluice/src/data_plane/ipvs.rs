//! IPVS: virtual servers and sets over netlink, a constant set of rules by the host's iptables.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context;
use sluice_config::{IpvsSettings, Mode};
use sluice_ipvs::{Arp, Ipvs, Options, Timeouts, concerns, sysctls};
use sluice_model::IpFamily;
use sluice_netlink::ipvs;
use sluice_node::Input;
use sluice_node::metrics::Metrics;
use sluice_node::sysctl::{self, WantedBy, Write};
use sluice_node::takeover::Ours;
use sluice_xtables::programs::search_path;

use super::DataPlane;
use super::iptables::{chains, lend_privileges, table_of, watch_chains};
use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;

/// The IPVS data plane.
pub(crate) struct IpvsPlane(Ipvs);

impl DataPlane for IpvsPlane {
    type Backend = Ipvs;

    fn open(_: &ProxyArgs, config: &ProxyConfig) -> anyhow::Result<Self> {
        let settings = &config.node.effective.ipvs;
        let options = Options {
            scheduler: settings.scheduler.as_str().into(),
            exclude_cidrs: settings.exclude_cidrs.clone(),
            timeouts: timeouts(settings),
            masquerade_mark: config.node.settings.masquerade_mark,
            families: IpFamily::ALL.to_vec(),
        };
        prepare_machine(settings)?;
        lend_privileges();
        let backend = Ipvs::open(options).context("open the ipvs data plane")?;
        Ok(Self(backend))
    }

    fn ours(&self) -> Ours {
        Ours {
            chains: Some(chains(self.0.programs())),
            has,
            ipvs: true,
        }
    }

    /// Requests to IPVS and ipset are not counted.
    fn meter(&mut self, _: &Arc<Metrics>) {}

    /// Only chains: the kernel tells nobody of changes of virtual servers and sets, so the resync
    /// repairs them.
    fn after_first_sync(&self, inputs: Sender<Input>) -> Box<dyn FnOnce() + Send> {
        let variant = self.0.programs().variant();
        let (own, generation) = (self.0.own_writes(), self.0.generation());
        Box::new(move || watch_chains(variant, has, own, &generation, inputs))
    }

    fn into_backend(self) -> Ipvs {
        self.0
    }
}

/// Whether a chain, by its table and name, is ours or leads to ours.
fn has(table: &str, chain: &str) -> bool {
    table_of(table).is_some_and(|it| concerns(it, chain))
}

/// Loads IPVS and sets what that needs of the machine.
pub(crate) fn prepare_machine(settings: &IpvsSettings) -> anyhow::Result<()> {
    let arp = match settings.strict_arp {
        true => Arp::Strict,
        false => Arp::Loose,
    };
    load_module();
    let needed = sysctls(arp).context("set the machine up for IPVS")?;
    let wanted = needed.into_iter().map(|it| Write {
        path: it.path,
        wanted_by: WantedBy::Mode(Mode::Ipvs.name()),
        value: it.value,
    });
    sysctl::write(wanted).context("set the machine up for IPVS")
}

/// Since 5.16 the kernel loads the module for whoever asks for IPVS (`MODULE_ALIAS_GENL_FAMILY`,
/// `ip_vs_ctl.c`); on older ones kube-proxy runs this program, too. That it fails shows when IPVS is
/// opened.
fn load_module() {
    if matches!(ipvs::Ipvs::open(), Ok(None)) {
        let mut program = Command::new("modprobe");
        program.arg("ip_vs").stdin(Stdio::null());
        let _ = program.env_clear().env("PATH", search_path()).status();
    }
}

fn timeouts(settings: &IpvsSettings) -> Timeouts {
    // Whole seconds: zero leaves what the kernel has, so less than one is one.
    let seconds = |it: Duration| match it.is_zero() {
        true => 0,
        false => u32::try_from(it.as_secs()).unwrap_or(u32::MAX).max(1),
    };
    Timeouts {
        tcp: seconds(settings.tcp_timeout),
        tcp_fin: seconds(settings.tcp_fin_timeout),
        udp: seconds(settings.udp_timeout),
    }
}
