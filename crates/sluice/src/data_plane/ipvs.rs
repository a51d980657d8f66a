//! IPVS: virtual servers and sets over netlink, a constant set of rules by the host's iptables.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context;
use sluice_agent::Input;
use sluice_agent::metrics::Metrics;
use sluice_agent::takeover::Ours;
use sluice_config::IpvsSettings;
use sluice_core::model::IpFamily;
use sluice_ipvs::{Arp, Ipvs, Options, Timeouts, concerns, prepare};

use super::DataPlane;
use super::iptables::{chains, lend_privileges, table_of};
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
        lend_privileges();
        let backend = Ipvs::open(options).context("open the ipvs data plane")?;
        prepare_machine(settings)?;
        Ok(Self(backend))
    }

    fn ours(&self) -> Ours {
        Ours {
            chains: Some(chains(self.0.programs())),
            has: |table, chain| table_of(table).is_some_and(|it| concerns(it, chain)),
            ipvs: true,
        }
    }

    /// Requests to IPVS and ipset are not counted.
    fn meter(&mut self, _: &Arc<Metrics>) {}

    /// The kernel tells nobody of changes of virtual servers and sets: the resync repairs them.
    fn after_first_sync(&self, _: Sender<Input>) -> Box<dyn FnOnce() + Send> {
        Box::new(|| {})
    }

    fn into_backend(self) -> Ipvs {
        self.0
    }
}

/// Sets what IPVS needs of the machine, once its module is there.
pub(crate) fn prepare_machine(settings: &IpvsSettings) -> anyhow::Result<()> {
    let arp = match settings.strict_arp {
        true => Arp::Strict,
        false => Arp::Loose,
    };
    prepare(arp).context("set the machine up for IPVS")
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
