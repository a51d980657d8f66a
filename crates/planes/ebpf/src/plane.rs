//! The ebpf mode as a [`DataPlane`].

use std::fs;

use sluice_bpf::{CounterTable, Patterns, Setup, Sizes};
use sluice_bpf_abi::{Counter, node_flags};
use sluice_model::IpFamily;
use sluice_plan::Plan;
use sluice_plan::explain::Explanation;
use sluice_plan::settings::LocalDetector;
use sluice_plane::{
    DataPlane, DenialCounters, DenialReason, Denied, FailureMetrics, FlowTable, ForeignChange,
    Keep, Leftovers, Live, Options, RenderedObject, RuleMetrics, Sysctl, Trace,
};
use sluice_reconcile::BackendError;
use tracing::{info, warn};

use crate::backend::{Ebpf, failed, render_plan};
use crate::flows::{self, ProgramFlows, Timeouts};
use crate::leftovers::{PINS, PinnedPrograms};
use crate::render::{Facts, masquerade_ports};
use crate::{live, text};

/// The ports that sockets get by themselves.
const LOCAL_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

impl DataPlane for Ebpf {
    const NAME: &'static str = "ebpf";
    const RUNS_PROGRAMS: bool = false;
    const LOADS_BPF: bool = true;
    const METRICS: RuleMetrics = RuleMetrics {
        tells_full_syncs: true,
        failures: FailureMetrics::Nftables,
        counts_rules: false,
        counts_denials: true,
    };
    const UNCOUNTED: &'static str = "the ebpf mode does not count connections by endpoint";
    const LEFTOVERS: &'static dyn Leftovers = &PinnedPrograms;

    fn prepare(_: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        if !sluice_bpf::BUILT {
            return Err(failed(sluice_bpf::BpfError::NotBuilt));
        }
        Ok(sysctls())
    }

    fn open(options: &Options<'_>) -> Result<Self, BackendError> {
        let setup = Setup {
            pins: PINS.into(),
            interfaces: Patterns::all(),
            pods: pods(&options.settings.local_detector),
            sizes: Sizes::default(),
        };
        let limits = &options.config.conntrack;
        let or = |it: std::time::Duration, default| if it.is_zero() { default } else { it };
        let default = Timeouts::default();
        let timeouts = Timeouts {
            tcp_established: or(limits.tcp_established, default.tcp_established),
            tcp_close_wait: or(limits.tcp_close_wait, default.tcp_close_wait),
            udp: or(limits.udp, default.udp),
            udp_stream: or(limits.udp_stream, default.udp_stream),
        };
        Ok(Self::connect(setup, facts())?.with_timeouts(timeouts))
    }

    fn keep(&self) -> Box<Keep> {
        Box::new(|trace| matches!(trace, Trace::Programs))
    }

    /// Connections of an earlier proxy become ours before its rules go.
    fn started(&mut self, _: ForeignChange) -> Vec<Sysctl> {
        match flows::import(self.maps_mut()) {
            Ok(0) => {}
            Ok(connections) => info!(connections, "taken over from netfilter"),
            Err(error) => warn!(%error, "connections of an earlier proxy may break"),
        }
        Vec::new()
    }

    fn denial_counters(&self) -> Result<Option<Box<dyn DenialCounters>>, BackendError> {
        let table = CounterTable::open(self.programs().pins()).map_err(failed)?;
        Ok(Some(Box::new(Denials(table))))
    }

    fn flow_table(&self) -> Box<dyn FlowTable> {
        match sluice_bpf::Maps::open(self.programs().pins()) {
            Ok(maps) => Box::new(ProgramFlows::new(maps.flows)),
            Err(error) => {
                warn!(%error, "UDP clients may send to endpoints that are gone");
                Box::new(sluice_plane::NetfilterFlows::default())
            }
        }
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        live::live(explanation)
    }

    fn text(plan: &Plan, _: &Options<'_>) -> String {
        text::maps(&render_plan(plan, &Facts::default()))
    }

    fn objects(plan: &Plan, _: &Options<'_>) -> Vec<RenderedObject> {
        let objects = render_plan(plan, &Facts::default()).into_iter();
        let rendered = objects.map(|(key, object)| RenderedObject {
            comment: String::new(),
            text: text::element(&key, &object).to_string(),
            key: key.to_string(),
        });
        rendered.collect()
    }
}

/// The sysctls of the way through loopback: `bpf/README.md`.
fn sysctls() -> Vec<Sysctl> {
    let node = "the node's own connections to Services do not work without it";
    [
        ("/proc/sys/net/ipv4/conf/lo/accept_local", 1, node),
        ("/proc/sys/net/ipv4/conf/lo/rp_filter", 2, node),
        ("/proc/sys/net/ipv4/ip_forward", 1, "pods get no packets"),
    ]
    .map(|(path, value, without)| Sysctl {
        path,
        value,
        without,
    })
    .into()
}

/// The interfaces whose packets come from pods of this node, where that is how they are told.
pub(crate) fn pods(detector: &LocalDetector) -> Patterns {
    match detector {
        LocalDetector::Bridge(name) => Patterns::new([&**name]),
        LocalDetector::InterfacePrefix(prefix) => Patterns::new([&*format!("{prefix}*")]),
        LocalDetector::None | LocalDetector::ClusterCidrs(_) | LocalDetector::NodeCidr => {
            Patterns::none()
        }
    }
}

/// What the machine says; the kernel's default where it says nothing.
fn facts() -> Facts {
    let range = fs::read_to_string(LOCAL_PORTS).unwrap_or_default();
    let mut numbers = range.split_whitespace().filter_map(|it| it.parse().ok());
    let mut facts = Facts::default();
    if let (Some(first), Some(last)) = (numbers.next(), numbers.next()) {
        facts.masquerade_ports = masquerade_ports(first, last);
    }
    if knows_ipv6_sums(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()) {
        facts.flags |= node_flags::CSUM_IPV6;
    }
    facts
}

/// Whether a kernel of this release has `BPF_F_IPV6` (Linux 6.16).
fn knows_ipv6_sums(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    number().zip(number()).is_some_and(|it| it >= (6, 16))
}

struct Denials(CounterTable);

impl DenialCounters for Denials {
    fn read(&mut self) -> Result<Vec<Denied>, BackendError> {
        let mut all = Vec::new();
        for reason in DenialReason::ALL {
            let counter = match reason {
                DenialReason::NoEndpoints => Counter::NoEndpoints,
                DenialReason::UndefinedPort => Counter::UndefinedPort,
                DenialReason::NoLocalEndpoints => Counter::NoLocalEndpoints,
                DenialReason::SourceRanges => Counter::SourceRanges,
                DenialReason::UnallocatedClusterIp => Counter::UnallocatedClusterIp,
            };
            let packets = self.0.read(counter).map_err(failed)?;
            all.extend(
                IpFamily::ALL
                    .into_iter()
                    .zip(packets)
                    .map(|(family, packets)| Denied {
                        family,
                        reason,
                        packets,
                    }),
            );
        }
        Ok(all)
    }
}
