//! The iptables mode as a [`DataPlane`].

use std::fs;

use sluice_model::IpFamily;
use sluice_netlink::nfacct::Accounts;
use sluice_plan::explain::Explanation;
use sluice_plan::{Plan, PortPlan};
use sluice_plane::kube_proxy::MARKS;
use sluice_plane::{
    DataPlane, FailureMetrics, ForeignChange, Keep, Leftovers, Live, Options, PacketCounters,
    RenderedObject, RuleCount, RuleMetrics, ServiceBackend, Sysctl, Unserved,
};
use sluice_reconcile::BackendError;
use sluice_xtables::programs::Programs;
use tracing::{debug, info, warn};

use crate::accounts::Accounting;
use crate::backend::{Iptables, concerns, render_plan};
use crate::layout::Conntrack;
use crate::leftovers::ChainsAndAccounts;
use crate::object::{Key, Object};
use crate::{live, text};

/// Routes packets from 127.0.0.1 to pods. The rules that drop packets of other hosts to loopback addresses
/// are written before (CVE-2020-8558).
const ROUTE_LOOPBACK: Sysctl = Sysctl {
    path: "/proc/sys/net/ipv4/conf/all/route_localnet",
    value: 1,
    without: "NodePorts do not answer on 127.0.0.1: set the sysctl to 1 on the machine, or turn them \
              off by --iptables-localhost-nodeports=false",
};
const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

impl ServiceBackend for Iptables {
    /// As kube-proxy's large-cluster mode: from here on the rules of endpoints have no comments,
    /// which are most of what they take.
    const LARGE: usize = 1000;
    const PART: usize = 4096;

    /// Rules: three of a frontend, four of an endpoint with its chain, one of a source.
    fn cost(port: &PortPlan) -> usize {
        3 * port.frontends.len() + 4 * port.members() + port.sources()
    }
}

impl DataPlane for Iptables {
    const NAME: &'static str = "iptables";
    const RUNS_PROGRAMS: bool = true;
    const PAUSE: u32 = 2;
    const METRICS: RuleMetrics = RuleMetrics {
        tells_full_syncs: true,
        failures: FailureMetrics::RestoreAndPartial,
        counts_rules: true,
        counts_denials: false,
        has_tables: false,
    };
    const UNCOUNTED: &'static str = "the iptables mode does not count connections: `iptables -t nat \
                                     -nvL KUBE-SERVICES` shows packets by Service; the nftables \
                                     mode counts with --count-connections, the ipvs mode always";
    const LEFTOVERS: &'static dyn Leftovers = &ChainsAndAccounts;

    /// Prepares NodePorts on loopback: the rules that drop packets of other hosts, then the sysctl.
    fn initialize(options: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        if !options.config.node_ports_on_loopback() || routes_loopback() {
            return Ok(Vec::new());
        }
        let mut plane = Self::with(programs()?, conntrack())?;
        if !plane.families.serves(IpFamily::V4) {
            return Ok(Vec::new());
        }
        match plane.write_loopback_firewall() {
            Ok(()) => Ok(vec![ROUTE_LOOPBACK]),
            Err(error) if plane.families.serves(IpFamily::V6) => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "NodePorts do not answer on 127.0.0.1 yet");
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn open(options: &Options<'_>) -> Result<Self, BackendError> {
        let mut plane = Self::with(programs()?, conntrack())?;
        plane.routes_loopback = options.config.node_ports_on_loopback();
        Ok(plane)
    }

    fn keep(&self) -> Box<Keep> {
        let own = self.programs.variant();
        Box::new(move |trace| trace.is_chain_of(own, concerns))
    }

    fn started(&mut self, _: ForeignChange) -> Vec<Sysctl> {
        // Without the rules that drop packets of other hosts it would open loopback to them.
        let is_safe = self.routes_loopback && self.families.serves(IpFamily::V4);
        let wanted = is_safe.then_some(ROUTE_LOOPBACK);
        wanted.into_iter().collect()
    }

    fn unserved(&self) -> Option<Unserved> {
        self.families.unserved().cloned()
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        self.counts.all()
    }

    fn packet_counters(&self) -> Option<Box<dyn PacketCounters>> {
        match Accounts::open() {
            Ok(accounts) => Some(Box::new(accounts)),
            Err(error) => {
                debug!(%error, "packets that rules count are not shown");
                None
            }
        }
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        live::live(explanation)
    }

    fn text(plan: &Plan, _: &Options<'_>) -> String {
        text::ruleset(&rendered(plan))
    }

    fn objects(plan: &Plan, _: &Options<'_>) -> Vec<RenderedObject> {
        rendered(plan).iter().map(rendered_object).collect()
    }
}

fn rendered(plan: &Plan) -> Vec<(Key, Object)> {
    render_plan(plan, Conntrack::default(), Accounting::default())
}

fn rendered_object((key, object): &(Key, Object)) -> RenderedObject {
    let chain = &key.place().chain;
    let text = match (key, object) {
        (Key::Rule(_, rule), _) => format!("-A {chain} {rule}"),
        (_, Object::Present) => format!(":{chain} - [0:0]"),
        (_, Object::Rules(rules)) => {
            let lines = rules.iter().map(|rule| format!("-A {chain} {rule}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    RenderedObject {
        key: key.to_string(),
        comment: String::new(),
        text,
    }
}

/// The programs of the host, which are logged.
fn programs() -> Result<Programs, BackendError> {
    let programs = Programs::detect(MARKS);
    let programs = programs
        .map_err(|error| BackendError::new("find out which iptables this host uses", error))?;
    let (variant, version) = (programs.variant(), programs.version());
    info!(%variant, %version, "iptables");
    Ok(programs)
}

/// Reads whether conntrack accepts packets outside the TCP window. Rules follow the setting at start.
fn conntrack() -> Conntrack {
    let value = fs::read_to_string(BE_LIBERAL).unwrap_or_default();
    match value.trim() {
        "" | "0" => Conntrack::Strict,
        _ => Conntrack::Liberal,
    }
}

fn routes_loopback() -> bool {
    fs::read_to_string(ROUTE_LOOPBACK.path).is_ok_and(|it| it.trim() == "1")
}
