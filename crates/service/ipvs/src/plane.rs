//! The ipvs mode as a [`DataPlane`].

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_config::IpvsSettings;
use sluice_netlink::ipvs;
use sluice_plan::explain::Explanation;
use sluice_plan::{Plan, PortPlan};
use sluice_plane::kube_proxy::MARKS;
use sluice_plane::{
    Counters, DataPlane, FailureMetrics, Keep, Leftovers, Live, Options, RenderedObject, RuleCount,
    RuleMetrics, ServiceBackend, Sysctl, Trace, Unserved,
};
use sluice_reconcile::BackendError;
use sluice_xtables::programs::{self, Programs};
use tracing::debug;

use crate::backend::{Ipvs, IpvsOptions, render_plan};
use crate::chain::concerns;
use crate::counters::RealServerCounters;
use crate::leftovers::VirtualServers;
use crate::object::{Key, Object};
use crate::sysctl::{Arp, sysctls};
use crate::{Timeouts, live, text};

/// Timeout of the program that loads the module.
const LOADING: Duration = Duration::from_secs(60);

impl ServiceBackend for Ipvs {
    const LARGE: usize = usize::MAX;
    const PART: usize = 8192;

    /// Virtual servers, their real servers, and members of sets.
    fn cost(port: &PortPlan) -> usize {
        port.weight() + port.frontends.len() * (1 + port.sources())
    }
}

impl DataPlane for Ipvs {
    const NAME: &'static str = "ipvs";
    const RUNS_PROGRAMS: bool = true;
    const METRICS: RuleMetrics = RuleMetrics {
        tells_full_syncs: false,
        failures: FailureMetrics::Restore,
        counts_rules: false,
        counts_denials: false,
        has_tables: false,
    };
    const LEFTOVERS: &'static dyn Leftovers = &VirtualServers;

    fn prepare(options: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        let arp = if options.config.ipvs.strict_arp {
            Arp::Strict
        } else {
            Arp::Loose
        };
        load_module();
        sysctls(arp)
    }

    fn open(options: &Options<'_>) -> Result<Self, BackendError> {
        let settings = &options.config.ipvs;
        let programs = Programs::detect(MARKS);
        let programs = programs
            .map_err(|error| BackendError::new("find out which iptables this host uses", error))?;
        let options = IpvsOptions {
            scheduler: settings.scheduler.as_str().into(),
            exclude_cidrs: settings.exclude_cidrs.clone(),
            timeouts: timeouts(settings),
            masquerade_mark: options.settings.masquerade_mark,
        };
        Self::with(programs, options)
    }

    fn keep(&self) -> Box<Keep> {
        let own = self.kernel.programs.variant();
        Box::new(move |trace| {
            matches!(trace, Trace::VirtualServers) || trace.is_chain_of(own, concerns)
        })
    }

    fn unserved(&self) -> Option<Unserved> {
        self.families.unserved().cloned()
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        self.rules.all()
    }

    fn counters(&self) -> Result<Option<Box<dyn Counters>>, BackendError> {
        Ok(Some(Box::new(RealServerCounters::open(
            self.families.all(),
        )?)))
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        live::live(explanation)
    }

    fn text(plan: &Plan, options: &Options<'_>) -> String {
        text::data_plane(&render_plan(plan, &options.config.ipvs.scheduler))
    }

    fn objects(plan: &Plan, options: &Options<'_>) -> Vec<RenderedObject> {
        let objects = render_plan(plan, &options.config.ipvs.scheduler);
        objects.into_iter().map(rendered_object).collect()
    }
}

fn rendered_object((key, object): (Key, Object)) -> RenderedObject {
    let name = key.to_string();
    let text = text::data_plane(&BTreeMap::from([(key, object)]));
    // The first line names the program.
    let text = text.split_once('\n').map_or("", |(_, text)| text);
    RenderedObject {
        key: name,
        comment: String::new(),
        text: text.trim_end().to_owned(),
    }
}

/// Since 5.16 the kernel loads the module when a program opens IPVS (`MODULE_ALIAS_GENL_FAMILY`,
/// `ip_vs_ctl.c`); on older ones kube-proxy runs this program, too. Without the module IPVS cannot be
/// opened, which is an error then.
fn load_module() {
    if matches!(ipvs::Ipvs::open(), Ok(None))
        && let Err(error) = programs::run("modprobe", &["ip_vs"], LOADING)
    {
        debug!(%error, "module ip_vs");
    }
}

fn timeouts(settings: &IpvsSettings) -> Timeouts {
    // In whole seconds. 0 keeps the kernel's timeout, so less than 1 s is 1 s.
    let seconds = |it: Duration| {
        if it.is_zero() {
            0
        } else {
            u32::try_from(it.as_secs()).unwrap_or(u32::MAX).max(1)
        }
    };
    Timeouts {
        tcp: seconds(settings.tcp_timeout),
        tcp_fin: seconds(settings.tcp_fin_timeout),
        udp: seconds(settings.udp_timeout),
    }
}
