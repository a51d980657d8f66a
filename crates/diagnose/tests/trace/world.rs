//! A cluster whose first node has rules, and the traces on it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sluice_diagnose::trace::{End, Hop, Request, Source, Trace, TraceError, trace};
use sluice_lab::{Attach, Cluster, Netns, Pod, Server};
use sluice_model::Protocol;
use sluice_nftables::Nftables;
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{endpoints, node, service};
use sluice_plane::Proxy;
use sluice_scenarios::Drive as _;

/// The Service of every test, with pod web-1 as its endpoint.
pub(crate) const SERVICE_V4: &str = "10.96.0.10:80";
pub(crate) const SERVICE_V6: &str = "[fd00:10:96::a]:80";

pub(crate) struct World {
    /// Declared first, so that they stop before their namespaces are removed.
    _servers: Vec<Server>,
    pub(crate) cluster: Cluster,
}

impl World {
    /// node-a with the pods cli and web-1, whose server listens at port 8080; the pod far on node-b; a
    /// client.
    pub(crate) fn new() -> Self {
        Self::attached(Attach::Routed)
    }

    /// The same with pods that are connected so.
    pub(crate) fn attached(attach: Attach) -> Self {
        let builder = Cluster::builder().attach(attach);
        let builder = builder.node("node-a").node("node-b");
        let builder = builder.pod("cli", "node-a").pod("web-1", "node-a");
        let cluster = builder
            .pod("far", "node-b")
            .client("client")
            .build()
            .unwrap();
        let servers = ["web-1", "far"].iter().flat_map(|it| {
            let start = |protocol| Server::start(cluster.pod(it).netns(), it, 8080, protocol);
            [sluice_lab::Protocol::Tcp, sluice_lab::Protocol::Udp].map(|it| start(it).unwrap())
        });
        Self {
            _servers: servers.collect(),
            cluster,
        }
    }

    /// The network namespace of node-a.
    pub(crate) fn home(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    pub(crate) fn pod(&self, name: &str) -> &Pod {
        self.cluster.pod(name)
    }

    /// Writes Sluice's rules of the mode nftables.
    pub(crate) fn serve(&self, endpoint: &str) {
        let plane = self.home().run(|| Nftables::connect().unwrap());
        let pod = self.pod(endpoint);
        let places = format!("{}:8080@ [{}]:8080@", pod.ipv4(), pod.ipv6());
        let home = self.cluster.node("node-a");
        let mut events: Vec<Event> = vec![
            node(&format!("node-a {} {}", home.ipv4(), home.ipv6())),
            service("default/web NodePort 10.96.0.10 fd00:10:96::a :80@30080"),
            service("default/dns 10.96.0.53 fd00:10:96::35 dns:53/udp"),
        ];
        events.extend(endpoints("default/web", &places));
        events.extend(endpoints("default/dns:dns/udp", &places));
        Proxy::new(Settings::for_node("node-a"), plane).change(events);
    }

    /// Runs a program in node-a.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &str) -> String {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = self.home().command(program, &arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Loads text of `nft` in node-a.
    #[track_caller]
    pub(crate) fn nft(&self, text: &str) {
        // nft ends a block with its line.
        let text = &text.replace('}', "}\n");
        let output = self.home().command("nft", &[text]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {error}");
    }

    /// Traces in node-a, and asserts that nothing is left behind.
    #[track_caller]
    pub(crate) fn try_trace(&self, request: &Request) -> Result<Trace, TraceError> {
        let before = self.run("nft", "-s list ruleset");
        let result = self.home().run(|| trace(request, None));
        assert_eq!(self.run("nft", "-s list ruleset"), before);
        result
    }

    /// Sends one packet from a local pod.
    #[track_caller]
    pub(crate) fn trace_pod(&self, to: &str) -> Trace {
        let to: SocketAddr = to.parse().unwrap();
        let cli = self.pod("cli");
        let ip: IpAddr = if to.is_ipv4() {
            cli.ipv4().into()
        } else {
            cli.ipv6().into()
        };
        self.try_trace(&send(Source::Address(ip), to)).unwrap()
    }
}

pub(crate) fn send(source: Source, destination: SocketAddr) -> Request {
    Request {
        protocol: Protocol::Tcp,
        source,
        destination,
        wait: None,
    }
}

pub(crate) fn wait(source: Source, destination: SocketAddr, seconds: u64) -> Request {
    Request {
        wait: Some(Duration::from_secs(seconds)),
        ..send(source, destination)
    }
}

/// The names of the hooks.
pub(crate) fn hooks(trace: &Trace) -> Vec<&str> {
    trace.stages.iter().map(|it| it.hook).collect()
}

/// The rule that dropped the packet.
#[track_caller]
pub(crate) fn dropper(trace: &Trace) -> &Hop {
    match &trace.end {
        End::Dropped { hop, .. } => hop,
        _ => panic!("{trace}"),
    }
}
