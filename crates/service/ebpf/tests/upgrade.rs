//! An agent of a new version comes after one whose maps have another layout.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sluice_bpf::{MapType, Pins, Table};
use sluice_bpf_abi::{Flow, Tuple, VERSION};
use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes};
use sluice_lab::{Cluster, Protocol, Server, Session, eventually, require_netns};
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, node, service};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, golden};

use crate::loaded::world::{SOON, count_at, programs_at};

/// Length of a value of FLOWS in version 1.
const OLD_FLOW: usize = 48;
const NODE_PORT: u16 = 30080;

fn open(cluster: &Cluster, events: Vec<Event>) -> Proxy<Ebpf> {
    let plane = crate::common::open(Patterns::none(), Sizes::default(), Facts::default());
    let mut proxy = Proxy::new(golden::settings(), plane);
    let own = cluster.node("node-a");
    proxy.tell(vec![node(&format!("node-a {} {}", own.ipv4(), own.ipv6()))]);
    proxy.change(events);
    proxy
}

fn web(cluster: &Cluster) -> Vec<Event> {
    let mut events = vec![service("default/web 10.96.0.10 :80@30080 NodePort")];
    let pods = ["web-0", "web-1"].map(|it| format!("{}:8080@node-a", cluster.pod(it).ipv4()));
    events.extend(endpoints("default/web", &pods.join(" ")));
    events
}

fn version(root: &Path, version: u32) -> PathBuf {
    root.join(format!("v{version}"))
}

/// Gives the pins of our version the layout of version 1: the folder's name, and FLOWS an LRU map with shorter values. The
/// programs that are attached keep the map that they have.
fn make_old(root: &Path) {
    fs::rename(version(root, VERSION), version(root, 1)).unwrap();
    let old = Pins::of_namespace(root, 1).unwrap();
    let flows = Table::<Tuple, [u8; size_of::<Flow>()]>::open(&old, "FLOWS").unwrap();
    let mut shorter =
        Table::<Tuple, [u8; OLD_FLOW]>::create(MapType::LruHash, "FLOWS", 65_536).unwrap();
    for (key, flow) in flows.entries().unwrap() {
        let flow = flow[..OLD_FLOW].try_into().unwrap();
        shorter.insert(&key, &flow).unwrap();
    }
    fs::remove_file(old.maps().join("FLOWS")).unwrap();
    shorter.pin(&old).unwrap();
}

#[test]
fn connections_outlive_an_upgrade() {
    require_netns!();
    upgrade();
}

/// Connections go on, of a pod and masqueraded ones of a client outside, also those that are idle meanwhile. Of the older
/// programs nothing is left.
pub(crate) fn upgrade() {
    let builder = Cluster::builder().node("node-a").client("outside");
    let builder = builder.pod("cli", "node-a").pod("web-0", "node-a");
    let cluster = builder.pod("web-1", "node-a").build().unwrap();
    let _servers = ["web-0", "web-1"]
        .map(|pod| Server::start(cluster.pod(pod).netns(), pod, 8080, Protocol::Tcp).unwrap());
    let netns = cluster.node("node-a").netns();
    let first = netns.run(|| open(&cluster, web(&cluster)));
    let [inside, outside] = [
        (cluster.pod("cli").netns(), ([10, 96, 0, 10], 80)),
        (
            cluster.client("outside").netns(),
            (cluster.node("node-a").ipv4().octets(), NODE_PORT),
        ),
    ]
    .map(|(client, target)| (client, SocketAddr::from(target)));
    let connect = || {
        let both = [inside, outside].into_iter();
        both.map(|(client, target)| Session::connect(client, target).unwrap())
    };
    let mut sessions: Vec<Session> = (0..10).flat_map(|_| connect()).collect();
    drop(first);
    let _second = netns.run(|| {
        let root = crate::common::pins();
        let before = programs_at("eth0");
        make_old(&root);
        let second = open(&cluster, web(&cluster));
        assert!(!version(&root, 1).exists(), "the older pins are gone");
        let one_each = || (count_at("eth0") == 2).then_some(());
        eventually(SOON, one_each).unwrap();
        assert_ne!(programs_at("eth0"), before);
        second
    });
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    connect().for_each(|mut it| it.ping().unwrap());
}
