//! Programs of others at the interfaces where ours are: both see packets, and theirs stay when ours go.

mod neighbour;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use aya::programs::SchedClassifier;
use aya::programs::tc::TcAttachType;
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes};
use sluice_lab::{Cluster, Probe, Protocol, Server, eventually, require_netns};
use sluice_plan::testing::{endpoints, node, service};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, golden};

use neighbour::{Attachment, Neighbour, Verdict};

/// Where clients on the node and outside dial.
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// For what the kernel does in the background.
const SOON: Duration = Duration::from_secs(10);

const DIRECTIONS: [TcAttachType; 2] = [TcAttachType::Ingress, TcAttachType::Egress];

/// A node with a client and an endpoint, a client outside, and neighbours at the endpoint's interface and at the
/// node's.
struct World {
    neighbours: Vec<Neighbour>,
    agent: Option<Proxy<Ebpf>>,
    _server: Server,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        let builder = Cluster::builder().node("node-a").client("outside");
        let builder = builder.pod("inside", "node-a").pod("web", "node-a");
        let cluster = builder.build().unwrap();
        let client = cluster.client("outside");
        let vip = IpAddr::from(VIP).into();
        client.route_via(vip, cluster.node("node-a")).unwrap();
        let server = Server::start(cluster.pod("web").netns(), "web", 8080, Protocol::Tcp);
        Self {
            neighbours: Vec::new(),
            agent: None,
            _server: server.unwrap(),
            cluster,
        }
    }

    /// The endpoint's end on the node, and the way to other machines.
    fn interfaces(&self) -> [String; 2] {
        let pod = self.cluster.pod("web").host_interface().unwrap();
        [pod, "eth0".to_owned()]
    }

    fn add_neighbours(&mut self, place: Attachment, verdict: Verdict) {
        let interfaces = self.interfaces();
        let all = self.cluster.node("node-a").netns().run(|| {
            let all = interfaces.iter().flat_map(|interface| {
                DIRECTIONS.map(|at| Neighbour::attach(interface, at, place, verdict))
            });
            all.collect::<Vec<_>>()
        });
        self.neighbours.extend(all);
    }

    /// An agent takes over what an earlier one left.
    fn start(&mut self) {
        self.agent = None;
        let pod = self.cluster.pod("web").ipv4();
        let home = self.cluster.node("node-a");
        self.agent = Some(home.netns().run(|| {
            let plane = crate::common::open(Patterns::none(), Sizes::default(), Facts::default());
            let mut proxy = Proxy::new(golden::settings(), plane);
            let text = format!("default/web {CLUSTER_IP} :80 LoadBalancer lb={VIP}");
            let home = node(&format!("node-a {} {}", home.ipv4(), home.ipv6()));
            let mut events = vec![home, service(&text)];
            events.extend(endpoints("default/web", &format!("{pod}:8080@")));
            proxy.change(events);
            proxy
        }));
    }

    /// What `cleanup` does.
    fn clean_up(&mut self) {
        let agent = self.agent.take().unwrap();
        self.cluster.node("node-a").netns().run(|| {
            let mut agent = agent;
            let plane = agent.reconciler_mut().backend_mut();
            let pins = plane.programs().pins().clone();
            drop(agent);
            sluice_ebpf::remove(&pins).unwrap();
        });
        let ours = || {
            let all = self.programs();
            let has_ours = all.iter().flatten().any(|it| it.starts_with("sluice_"));
            (!has_ours).then_some(())
        };
        eventually(SOON, ours).unwrap_or_else(|| panic!("{:?}", self.programs()));
    }

    /// The programs of TCX in their order, of each interface at ingress and at egress.
    fn programs(&self) -> Vec<Vec<String>> {
        let interfaces = self.interfaces();
        self.cluster.node("node-a").netns().run(|| {
            let of = |interface: &String, at| {
                let (_, programs) = SchedClassifier::query_tcx(interface, at).unwrap();
                let names = programs.iter().filter_map(|it| it.name_as_str());
                names.map(str::to_owned).collect()
            };
            let all = interfaces
                .iter()
                .flat_map(|interface| DIRECTIONS.map(|at| of(interface, at)));
            all.collect()
        })
    }

    /// Ours at each interface, in this order with the neighbours.
    #[track_caller]
    fn expect_order(&self, order: [&str; 2]) {
        let all = self.programs();
        let [ingress, egress] = ["sluice_ingress", "sluice_egress"]
            .map(|ours| order.map(|it| if it == "ours" { ours } else { it }));
        assert_eq!(all, [ingress, egress, ingress, egress]);
    }

    /// Both clients reach the endpoint through these addresses, and every neighbour sees packets.
    #[track_caller]
    fn works(&mut self, inside: SocketAddr, outside: SocketAddr) {
        let counts = |all: &mut Vec<Neighbour>| -> Vec<u64> {
            all.iter_mut().map(Neighbour::packets).collect()
        };
        let before = counts(&mut self.neighbours);
        for (target, netns) in [
            (inside, self.cluster.pod("inside").netns()),
            (outside, self.cluster.client("outside").netns()),
        ] {
            let outcome = Probe::tcp(target).timeout(SOON).from(netns);
            assert_eq!(outcome.name(), Some("web"), "{target}: {outcome}");
        }
        let after = counts(&mut self.neighbours);
        let have_run = before
            .iter()
            .zip(&after)
            .all(|(before, after)| before < after);
        assert!(have_run, "{before:?} packets, then {after:?}");
    }

    /// The Service is answered, and every neighbour sees packets.
    #[track_caller]
    fn serves(&mut self) {
        self.works((CLUSTER_IP, 80).into(), (VIP, 80).into());
    }

    /// Ours are gone, and every neighbour sees packets.
    #[track_caller]
    fn only_neighbours_are_left(&mut self) {
        self.clean_up();
        let endpoint = SocketAddr::from((self.cluster.pod("web").ipv4(), 8080));
        self.works(endpoint, endpoint);
        let probe = Probe::tcp((CLUSTER_IP, 80).into()).timeout(Duration::from_millis(300));
        let outcome = probe.from(self.cluster.pod("inside").netns());
        assert_eq!(outcome.name(), None, "the Service is still answered");
    }
}

/// Theirs were there before: ours are put before them, and stay there when the agent starts again.
#[test]
fn ours_are_put_before_others() {
    require_netns!();
    let mut world = World::new();
    world.add_neighbours(Attachment::First, Verdict::Next);
    for _ in 0..2 {
        world.start();
        world.expect_order(["ours", neighbour::NAME]);
        world.serves();
    }
    world.only_neighbours_are_left();
}

/// Theirs let packets pass, which ends the row of programs: behind them, ours would see none.
#[track_caller]
fn are_the_last_word(place: Attachment) {
    require_netns!();
    let mut world = World::new();
    world.add_neighbours(place, Verdict::Pass);
    world.start();
    world.serves();
    world.only_neighbours_are_left();
}

#[test]
fn others_that_are_the_last_word_run_after_ours() {
    are_the_last_word(Attachment::First);
}

/// The priority is that of our own filters, on a kernel without TCX.
#[test]
fn filters_that_are_the_last_word_run_after_ours() {
    are_the_last_word(Attachment::Filter(1));
}

/// Theirs come later, at the end.
#[test]
fn others_come_after_ours() {
    require_netns!();
    let mut world = World::new();
    world.start();
    world.add_neighbours(Attachment::Last, Verdict::Pass);
    for _ in 0..2 {
        world.expect_order(["ours", neighbour::NAME]);
        world.serves();
        world.start();
    }
    world.only_neighbours_are_left();
}

/// Theirs come later and want to be the first: they are, also when the agent starts again.
#[test]
fn others_come_before_ours() {
    require_netns!();
    let mut world = World::new();
    world.start();
    world.add_neighbours(Attachment::First, Verdict::Next);
    for _ in 0..2 {
        world.expect_order([neighbour::NAME, "ours"]);
        world.serves();
        world.start();
    }
    world.only_neighbours_are_left();
}

/// Filters of clsact that were there before ours, and those that come later. The kernel runs them after programs
/// of TCX.
#[test]
fn filters_of_others_run_after_ours() {
    require_netns!();
    let mut world = World::new();
    world.add_neighbours(Attachment::Filter(1), Verdict::Next);
    world.start();
    world.add_neighbours(Attachment::Filter(2), Verdict::Pass);
    for _ in 0..2 {
        world.serves();
        world.start();
    }
    world.only_neighbours_are_left();
}
