//! Pods that the agent has not heard of, in a namespace with a policy. Needs root.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sluice_lab::{Cluster, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

const PODS: usize = 12;
const BATCH: usize = 3;

const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\n\
                      spec: {podSelector: {}, policyTypes: [Egress]}\n";

/// Every pod sends from its first moment on, to where a policy of its namespace forbids. The agent hears of them one batch
/// after the other, and is killed meanwhile, at another moment each time. Nothing arrives until the policy goes.
#[test]
fn a_pod_is_closed_from_its_first_packet() {
    require_netns!();
    let mut builder = Cluster::builder().node("node-a").node("node-b");
    let names: Vec<String> = (0..PODS).map(|it| format!("p{it}")).collect();
    for name in &names {
        builder = builder.pod(name, "node-a");
    }
    let cluster = builder.pod("far", "node-b").build().expect("root");
    let files = Files::new();
    files.write("policy.yaml", POLICY);
    let node = cluster.node("node-a");
    let text = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: node-a}}\nspec: {{podCIDRs: ['{}', '{}']}}\n",
        node.pod_cidr_v4(),
        node.pod_cidr_v6()
    );
    let node = node.netns();
    files.write("node.yaml", &text);
    let run = || {
        let mut proxy = files.proxy(node);
        proxy.args(["--network-policy", "--policy-unknown-pods=drop"]);
        Agent::run(&files, proxy)
    };
    let in_force = |known: usize| {
        files.await_status_as("in force", |it: &serde_json::Value| {
            let policies = &it["network_policy"];
            policies["is_in_force"] == true
                && policies["addresses"] == 2 * known
                && policies["closed"]
                    .as_array()
                    .is_some_and(|it| it.len() == 2)
        });
    };
    let mut agent = Some(run());
    in_force(0);

    let bound = |name: &str| {
        let netns = cluster.pod(name).netns();
        let socket = netns
            .run(|| UdpSocket::bind("[::]:9000"))
            .expect("it is free");
        let pace = Some(Duration::from_millis(1));
        socket.set_read_timeout(pace).expect("not zero");
        socket
    };
    let receiver = bound("far");
    let senders: Vec<UdpSocket> = names.iter().map(|it| bound(it)).collect();
    let far = cluster.pod("far");
    let targets = [
        SocketAddr::new(far.ipv4().to_ipv6_mapped().into(), 9000),
        SocketAddr::new(far.ipv6().into(), 9000),
    ];
    let (is_over, sent, arrived) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for sender in &senders {
                    for to in targets {
                        sender.send_to(&[0], to).expect("there is a route");
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // Nothing comes: a pause.
                let _ = senders[0].recv(&mut [0]);
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let is_there = receiver.recv(&mut [0]).is_ok();
                arrived.fetch_add(u64::from(is_there), Ordering::Relaxed);
            }
        });
        // Where it has another outcome than expected, the threads end all the same.
        let _end = End(&is_over);
        for (batch, pods) in names.chunks(BATCH).enumerate() {
            let mut text = String::new();
            for name in pods {
                let pod = cluster.pod(name);
                write!(
                    text,
                    "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
                     spec: {{nodeName: node-a, containers: [{{name: c, image: i}}]}}\n\
                     status: {{podIPs: [{{ip: {}}}, {{ip: '{}'}}]}}\n",
                    pod.ipv4(),
                    pod.ipv6()
                )
                .expect("a string takes all");
            }
            let known = (batch + 1) * BATCH;
            let name = format!("pods-{batch}.yaml");
            if batch % 2 == 0 {
                drop(agent.take());
                files.write(&name, &text);
            } else {
                files.write(&name, &text);
                drop(agent.take());
            }
            agent = Some(run());
            in_force(known);
            let before = sent.load(Ordering::Relaxed);
            let went_on = eventually(WITHIN, || {
                (sent.load(Ordering::Relaxed) > before + 4 * PODS as u64).then_some(())
            });
            assert!(went_on.is_some(), "they send");
            assert_eq!(arrived.load(Ordering::Relaxed), 0, "batch {batch}");
        }
        std::fs::remove_file(files.manifests().join("policy.yaml")).expect("it is there");
        let opened = eventually(WITHIN, || {
            (arrived.load(Ordering::Relaxed) > 0).then_some(())
        });
        assert!(opened.is_some(), "without the policy they arrive");
    });
    drop(agent);
    let _ = node.command(SLUICE, &["cleanup"]).output();
}

/// Tells the threads that it is over.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
