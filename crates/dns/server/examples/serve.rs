//! Answers for a made-up cluster, to measure the server: `serve PORT [SERVICES] [COREFILE]`.
//!
//! Services are called `s0`, `s1`… in namespaces `n0` to `n99`, number `i` in namespace `i % 100`; those
//! whose number ends in 0 are headless. Each has ten endpoints. Queries for dnsperf:
//! `serve names [SERVICES]` (ClusterIPs) and `serve headless [SERVICES]`.

use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use sluice_dns::{Options, Server};
use sluice_model::Event;
use sluice_zone::{NamespaceRule, Objects};

#[path = "../tests/support/cluster.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use more of it")]
mod cluster;

const NAMESPACES: usize = 100;
const ENDPOINTS: usize = 10;
const COREFILE: &str = ". {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    loadbalance
}";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "5300".into());
    let services = arguments
        .next()
        .map_or(10_000, |it| it.parse().expect("a number"));
    match &*first {
        "names" => queries(services, |it| it % 10 != 0),
        "headless" => queries(services, |it| it % 10 == 0),
        port => serve(port.parse().expect("a port"), services, arguments.next()),
    }
}

fn queries(services: usize, is_asked: fn(usize) -> bool) {
    for number in (0..services).filter(|it| is_asked(*it)) {
        println!("s{number}.n{}.svc.cluster.local. A", number % NAMESPACES);
    }
}

fn serve(port: u16, services: usize, corefile: Option<String>) {
    let corefile = corefile.map_or_else(
        || COREFILE.to_owned(),
        |it| std::fs::read_to_string(it).expect("a Corefile"),
    );
    let corefile = cluster::corefile(&corefile, port);
    let began = Instant::now();
    let mut objects = Objects::new(NamespaceRule::Declared);
    for number in 0..NAMESPACES {
        objects.absorb(&cluster::namespace(&format!("n{number}")), 1);
    }
    for number in 0..services {
        let (namespace, name) = (format!("n{}", number % NAMESPACES), format!("s{number}"));
        let (high, low) = (number / 250, number % 250 + 1);
        let ip = IpAddr::from([10, 96, high as u8, low as u8]);
        let ips = if number % 10 == 0 { vec![] } else { vec![ip] };
        objects.absorb(&cluster::service(&namespace, &name, &ips), 1);
        let addresses: Vec<_> = (0..ENDPOINTS)
            .map(|it| address(number * ENDPOINTS + it))
            .collect();
        objects.absorb(&cluster::endpoints(&namespace, &name, &addresses), 1);
    }
    objects.absorb(&Event::Synced, 1);
    let objects = Arc::new(RwLock::new(objects));
    let running = Server::start(&corefile, objects, Options::default()).expect("started");
    println!("{:?} after {:?}", running.addresses(), began.elapsed());
    loop {
        std::thread::park();
    }
}

/// The address of a pod.
fn address(number: usize) -> IpAddr {
    let [_, high, middle, low] = (number as u32).to_be_bytes();
    IpAddr::from([10, 128 + high, middle, low])
}
