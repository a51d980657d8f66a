//! The ebpf mode as a [`DataPlane`].

use std::fs;
use std::time::Duration;

use sluice_bpf::Patterns;
use sluice_bpf_abi::{Counter, node_flags};
use sluice_model::IpFamily;
use sluice_netlink::conntrack;
use sluice_plan::Plan;
use sluice_plan::explain::Explanation;
use sluice_plan::settings::{DirectReturn, LocalDetector};
use sluice_plane::{
    DataPlane, DenialCounters, DenialReason, Denied, FLOWS, FailureMetrics, FlowTable,
    ForeignChange, Keep, Leftovers, Live, Options, RenderedObject, RuleMetrics, Sockets, Sysctl,
    TableFills, Trace, Watched, Witness,
};
use sluice_reconcile::BackendError;
use tracing::{info, warn};

use crate::backend::{Ebpf, failed, render_plan};
use crate::flows::{ENTRIES, ProgramFlows, Timeouts};
use crate::leftovers::{PINS, PinnedPrograms};
use crate::maps::CounterTable;
use crate::programs::{BUILT, Setup, not_built};
use crate::render::{Facts, masquerade_ports};
use crate::sizes::Sizes;
use crate::sockets::SocketSetup;
use crate::witness::EventWitness;
use crate::{live, text, tunnel};

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
        has_tables: true,
    };
    const UNCOUNTED: &'static str = "the ebpf mode does not count connections by endpoint";
    const LEFTOVERS: &'static dyn Leftovers = &PinnedPrograms;

    fn prepare(_: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        if !BUILT {
            return Err(failed(not_built()));
        }
        Ok(sysctls())
    }

    fn open(options: &Options<'_>) -> Result<Self, BackendError> {
        let setup = Setup {
            pins: PINS.into(),
            interfaces: interfaces(options),
            pods: pods(&options.settings.local_detector),
            sizes: Sizes {
                flows: options.ebpf.flows.unwrap_or_else(flows),
                ..Sizes::default()
            },
        };
        let limits = &options.config.conntrack;
        let or = |it: Duration, default| if it.is_zero() { default } else { it };
        let default = Timeouts::default();
        let timeouts = Timeouts {
            tcp_established: or(limits.tcp_established, default.tcp_established),
            tcp_close_wait: or(limits.tcp_close_wait, default.tcp_close_wait),
            udp: or(limits.udp, default.udp),
            udp_stream: or(limits.udp_stream, default.udp_stream),
            ..default
        };
        let facts = Facts {
            maglev_size: options.ebpf.maglev_size,
            tunnel_ifindex: tunnel_of(options)?,
            tunnel_port: tunnel_port(options),
            ..facts()
        };
        let sockets = SocketSetup::of(options.ebpf);
        Self::connect(setup, facts)?
            .with_timeouts(timeouts)
            .with_sockets(sockets)
            .with_dns(options.settings)
    }

    fn enters_namespaces(options: &Options<'_>) -> bool {
        options.ebpf.sockets.and(options.ebpf.ended_sockets) != Sockets::Off
    }

    fn keep(&self) -> Box<Keep> {
        Box::new(|trace| matches!(trace, Trace::Programs))
    }

    /// Connections of an earlier proxy outlive its rules.
    fn started(&mut self, _: ForeignChange) -> Vec<Sysctl> {
        match self.settle() {
            Ok(0) => {}
            Ok(connections) => info!(
                connections,
                "taken over from netfilter: its NAT stays until they end"
            ),
            Err(error) => {
                warn!(%error, "connections of an earlier proxy may break: the next resync looks again");
            }
        }
        Vec::new()
    }

    fn table_fills(&self) -> Option<TableFills> {
        Some(self.fills().reader())
    }

    fn denial_counters(&self) -> Result<Option<Box<dyn DenialCounters>>, BackendError> {
        let table = CounterTable::open(self.programs().pins()).map_err(failed)?;
        Ok(Some(Box::new(Denials(table))))
    }

    fn flow_table(&self) -> Box<dyn FlowTable> {
        let pins = self.programs().pins().clone();
        Box::new(ProgramFlows::new(pins, self.ended_sockets()))
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        live::live(explanation)
    }

    fn witness(watched: Watched) -> Result<Option<Box<dyn Witness>>, BackendError> {
        let witness = EventWitness::open(watched).map_err(failed)?;
        Ok(witness.map(|it| Box::new(it) as Box<dyn Witness>))
    }

    fn text(plan: &Plan, options: &Options<'_>) -> String {
        text::maps(&render_plan(plan, &rendered(options)))
    }

    fn objects(plan: &Plan, options: &Options<'_>) -> Vec<RenderedObject> {
        let objects = render_plan(plan, &rendered(options)).into_iter();
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

/// The interfaces whose packets pass the programs: those of the operator, and the tunnel.
fn interfaces(options: &Options<'_>) -> Patterns {
    let wanted = options.ebpf.interfaces.iter().map(String::as_str);
    let is_list = wanted.clone().any(|it| !it.starts_with('!'));
    Patterns::new(wanted.chain(is_list.then_some(tunnel::NAME)))
}

/// The number of the tunnel, which is made or removed as the options say.
fn tunnel_of(options: &Options<'_>) -> Result<u32, BackendError> {
    let failed = |error| BackendError::new(format!("make the interface {}", tunnel::NAME), error);
    match options.settings.direct_return {
        DirectReturn::Off => {
            tunnel::remove().map_err(failed)?;
            Ok(0)
        }
        DirectReturn::Annotated | DirectReturn::All => {
            tunnel::create(options.ebpf.tunnel_port).map_err(failed)
        }
    }
}

/// The UDP port of the tunnel; 0 without one.
fn tunnel_port(options: &Options<'_>) -> u16 {
    match options.settings.direct_return {
        DirectReturn::Off => 0,
        DirectReturn::Annotated | DirectReturn::All => options.ebpf.tunnel_port,
    }
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

/// The facts that follow from the options, on any machine.
fn rendered(options: &Options<'_>) -> Facts {
    Facts {
        maglev_size: options.ebpf.maglev_size,
        ..Facts::default()
    }
}

/// How many entries hold as many connections as netfilter tracks.
fn flows() -> u32 {
    /// Connections where netfilter has no limit, or is not there: what it tracks on a machine with more than 4 GiB
    /// (`nf_conntrack_init_start` in `net/netfilter/nf_conntrack_core.c`).
    const USUAL: u64 = 262_144;
    let limit = conntrack::Table::now().map(|it| it.limit);
    let connections = limit.filter(|it| *it != 0).unwrap_or(USUAL);
    let entries = connections.saturating_mul(ENTRIES);
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    entries.clamp(*FLOWS.start(), *FLOWS.end())
}

/// The facts of the machine; the kernel's default where one cannot be read.
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

/// The counter of each reason.
const DENIALS: [(DenialReason, Counter); 9] = [
    (DenialReason::NoEndpoints, Counter::NoEndpoints),
    (DenialReason::UndefinedPort, Counter::UndefinedPort),
    (DenialReason::NoLocalEndpoints, Counter::NoLocalEndpoints),
    (DenialReason::SourceRanges, Counter::SourceRanges),
    (
        DenialReason::UnallocatedClusterIp,
        Counter::UnallocatedClusterIp,
    ),
    (DenialReason::NoSourcePort, Counter::NoSourcePort),
    (DenialReason::Unanswered, Counter::Unanswered),
    (DenialReason::ForeignNumbers, Counter::Unbelieved),
    (DenialReason::ForeignSource, Counter::ForeignSource),
];

struct Denials(CounterTable);

impl DenialCounters for Denials {
    fn read(&mut self) -> Result<Vec<Denied>, BackendError> {
        let mut all = Vec::new();
        for (reason, counter) in DENIALS {
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
