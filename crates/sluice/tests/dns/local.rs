//! `sluice proxy --dns`: pods of a node and the DNS server in its agent.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use simple_dns::{RCODE, TYPE};
use sluice_agent::status::Status;
use sluice_lab::require_netns;
use sluice_model::DNS_ADDRESSES;
use sluice_node::client::get;

use crate::common::{Agent, SLUICE};
use crate::dns::client::{Answer, ask};
use crate::dns::world::{CENTRAL, CLUSTER_DNS, LOCAL, WEB, World, web};

#[test]
fn pods_are_answered_by_their_node_and_by_the_cluster_without_it() {
    require_netns!();
    let world = World::new();
    for mode in ["nftables", "iptables", "ebpf"] {
        agent_and_cluster(&world, mode);
    }
}

/// Who answers while an agent runs, and after it was killed.
pub(crate) fn agent_and_cluster(world: &World, mode: &str) {
    let cluster_dns: IpAddr = CLUSTER_DNS.parse().unwrap();
    let agent = Agent::run(&world.files, world.proxy(mode));
    for server in [DNS_ADDRESSES[0], DNS_ADDRESSES[1], cluster_dns] {
        world.until(server, WEB, &[LOCAL]);
    }
    // The agent's socket is gone with it, and the cluster's DNS has another answer.
    drop(agent);
    for server in [DNS_ADDRESSES[0], cluster_dns] {
        world.until(server, WEB, &[CENTRAL]);
    }
}

#[test]
fn a_changed_corefile_is_served_and_a_wrong_one_is_a_problem() {
    require_netns!();
    let world = World::new();
    let log = world.files.0.path().join("log");
    let mut proxy = world.proxy("nftables");
    proxy.stderr(File::create(&log).unwrap());
    let _agent = Agent::run(&world.files, proxy);
    let [server, _] = DNS_ADDRESSES;
    world.until(server, WEB, &[LOCAL]);
    let printer = "printer.cluster.local";
    let hosts = |address: &str| format!("hosts {{\n{address} {printer}\nfallthrough\n}}\n");
    world.write_corefile(&hosts("192.0.2.1"));
    world.until(server, printer, &["192.0.2.1"]);
    world.write_corefile("horsts\n");
    let status = world
        .files
        .await_status("a problem", |it| !it.problems.is_empty());
    let [problem] = &status.problems[..] else {
        panic!("{status:#?}");
    };
    assert!(problem.origin.ends_with("Corefile"), "{problem:?}");
    assert!(problem.message.contains("did you mean"), "{problem:?}");
    world.until(server, printer, &["192.0.2.1"]);
    world.until(server, WEB, &[LOCAL]);
    std::fs::remove_file(world.corefile()).unwrap();
    let is_gone = |it: &str| it.contains("--dns-corefile: give a Corefile");
    world.files.await_status("another problem", |it| {
        it.problems.iter().any(|it| is_gone(&it.message))
    });
    world.write_corefile(&hosts("192.0.2.2"));
    world.until(server, printer, &["192.0.2.2"]);
    world
        .files
        .await_status("no problem", |it| it.problems.is_empty());
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(said.matches("did you mean").count(), 1, "{said}");
}

#[test]
fn what_the_cluster_does_not_have_is_an_issue() {
    require_netns!();
    let world = World::new();
    let dns = world.files.manifests().join("dns.yaml");
    let text = std::fs::read_to_string(&dns).unwrap();
    let moved = text.replace(CLUSTER_DNS, "10.96.0.99");
    world.files.write("dns.yaml", &moved);
    let _agent = Agent::run(&world.files, world.proxy("nftables"));
    let reasons = |wanted: &[&str]| {
        world.files.await_status("issues", |it| {
            let reasons = it.issues.iter().map(|it| &*it.reason);
            reasons
                .filter(|it| it.contains("DNS"))
                .eq(wanted.iter().copied())
        });
    };
    reasons(&["WrongDNSClusterIP"]);
    std::fs::remove_file(dns).unwrap();
    reasons(&["NoDNSService"]);
    world.files.write("dns.yaml", &text);
    reasons(&[]);
}

/// Addresses that nobody answers would be nameservers that time out.
#[test]
fn an_agent_without_it_removes_what_one_with_it_left() {
    require_netns!();
    let world = World::new();
    drop(Agent::run(&world.files, world.proxy("nftables")));
    switched_off(&world, "nftables");
}

/// An agent without it comes after one with it.
pub(crate) fn switched_off(world: &World, mode: &str) {
    let run = |program: &str, args: &[&str]| {
        let output = world.node().command(program, args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let left = || run("ip", &["address", "show", "dev", "lo"]) + &run("nft", &["list", "tables"]);
    let tables = left().matches("sluice-dns-replies").count();
    assert_eq!(tables, 2, "{}", left());
    run("ip", &["address", "add", "192.0.2.1/32", "dev", "lo"]);
    let _agent = Agent::run(&world.files, world.without_dns(mode));
    let [v4, v6] = DNS_ADDRESSES.map(|it| it.to_string());
    for gone in ["sluice-dns", &v4, &v6, CLUSTER_DNS] {
        assert!(!left().contains(gone), "{gone}: {}", left());
    }
    assert!(left().contains("192.0.2.1/32"), "{}", left());
    world.until(CLUSTER_DNS.parse().unwrap(), WEB, &[CENTRAL]);
}

#[test]
fn a_name_is_answered_as_its_object_changes() {
    require_netns!();
    let world = World::new();
    let _agent = Agent::run(&world.files, world.proxy("nftables"));
    let server = DNS_ADDRESSES[0];
    let name = WEB;
    world.until(server, name, &[LOCAL]);
    world.files.write("web.yaml", &web("10.96.0.21"));
    world.until(server, name, &["10.96.0.21"]);
    // The start and the change: the table for the server's queries is no foreign change, for which all rules would be
    // read again.
    let status: Status = get(&world.files.socket(), "/status").unwrap();
    assert_eq!(status.syncs, 2, "{status:?}");
    let gone = "missing.default.svc.cluster.local";
    let server = SocketAddr::new(server, 53);
    let answer = world.client().run(|| ask(server, gone, TYPE::A));
    let nothing = Answer {
        code: RCODE::NameError,
        records: Vec::new(),
    };
    assert_eq!(answer, Some(nothing));
    let mut query = Command::new(SLUICE);
    query.args(["dns", "query", name, "--socket"]);
    let output = query.arg(world.files.socket()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("A 10.96.0.21\n    the ClusterIP of Service default/web"),
        "{said}"
    );
}

#[test]
fn what_an_agent_cannot_do_is_said_at_its_start() {
    require_netns!();
    let world = World::new();
    let zone = |option: &str| format!("cluster.local {{\nkubernetes {{\n{option}\n}}\n}}\n");
    for (corefile, wanted) in [
        (zone("pods verified"), "pods verified: an agent knows"),
        (
            zone("endpoint https://10.0.0.1"),
            "endpoint: the DNS server inside the agent",
        ),
        (
            zone("labels app=web"),
            "labels: the DNS server inside the agent",
        ),
        (".:5353 {\n}\n".to_owned(), "the port is 53"),
        (
            ".  {\nbind 127.0.0.1\n}\n".to_owned(),
            "bind: --dns-address",
        ),
    ] {
        std::fs::write(world.corefile(), corefile).unwrap();
        let output = world.proxy("nftables").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert!(said.contains("Corefile:1: "), "{said}");
    }
}
