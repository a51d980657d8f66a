//! The DNS server: as a process of its own, and inside the agent.
//!
//! The server has one processor, its clients the other. Both are in the namespace of a node.

mod load;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sluice_lab::{Netns, eventually};

use super::api::{self, Shape, kubeconfig};
use super::measure::{Samples, count, micros, millis, seconds};
use super::process::Process;
use super::synthetic::cluster_ip;
use load::{ask, dnsperf, paced};

/// The cluster that CoreDNS was measured with (docs/benchmarks.md, "DNS").
const SHAPE: Shape = Shape {
    services: 10_000,
    endpoints: 10,
};

/// One of so many Services is headless.
const HEADLESS: u32 = 10;

/// The server of the process.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);

/// Timeout of a start, and of an answer after a change.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Changes that are measured.
const CHANGES: u32 = 300;

/// A new ClusterIP, for each change another one.
const NEW_IPS: u32 = 20_000;

/// Prints the tables.
pub(super) fn run(program: &Path) -> anyhow::Result<()> {
    let (cluster, server, scratch) = api::prepare(SHAPE)?;
    server
        .put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))?;
    server.put_all((0..SHAPE.services).step_by(HEADLESS as usize).map(headless))?;
    let netns = cluster.node("node-a").netns();
    let corefile = scratch.path().join("Corefile");
    fs::write(&corefile, text(&kubeconfig(scratch.path()))).context("write a Corefile")?;

    let started = Instant::now();
    let child = start(program, netns, &corefile)?;
    netns.run(|| {
        eventually(TIMEOUT, || {
            ask(SERVER, &name(1)).filter(|it| !it.is_empty())
        })
        .context("the server did not answer")
    })?;
    let ready = started.elapsed();
    let process = Process(child.0.id().cast_signed());
    println!(
        "{} Services x {} endpoints from an API server, every tenth headless; one processor:\n",
        count(SHAPE.services),
        SHAPE.endpoints
    );
    println!(
        "Start to first answer {} s, {} MiB.\n",
        seconds(ready),
        process.rss_mib()?
    );
    println!("| names | queries/s | at half of it: p50, us | p99, us | max, us | RSS, MiB |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let all = || 0..SHAPE.services;
    let is_headless = |it: &u32| it.is_multiple_of(HEADLESS);
    let kinds: [(&str, Vec<String>); 3] = [
        (
            "A of a ClusterIP",
            all().filter(|it| !is_headless(it)).map(name).collect(),
        ),
        (
            "A of a headless Service of ten",
            all().filter(is_headless).map(name).collect(),
        ),
        (
            "of no zone here: the loop alone (REFUSED)",
            all().map(|it| format!("s{it}.example.")).collect(),
        ),
    ];
    for (what, names) in kinds {
        let rate = dnsperf(netns, scratch.path(), SERVER, &names)?;
        let mut samples = netns.run(|| paced(SERVER, &names, rate / 2))?;
        let [p50, p99, max] = [50, 99, 100].map(|it| micros(samples.percentile(it)));
        let rss = process.rss_mib()?;
        println!(
            "| {what} | {} | {p50} | {p99} | {max} | {rss} |",
            count(rate)
        );
    }
    netns.run(|| changes(&|it| Ok(server.put(it).map(drop)?)))?;
    drop(child);
    agent(program)
}

/// Prints the time from a change at the API server to the first answer that has it.
fn changes(put: &dyn Fn(Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut samples = Samples::default();
    for round in 0..CHANGES {
        let index = 1 + round * HEADLESS;
        let (mut service, wanted) = (api::service(index), cluster_ip(NEW_IPS + round));
        service["spec"]["clusterIP"] = json!(wanted);
        service["spec"]["clusterIPs"] = json!([wanted]);
        let name = name(index);
        let deadline = Instant::now() + TIMEOUT;
        let started = Instant::now();
        put(service)?;
        while ask(SERVER, &name) != Some(vec![wanted]) {
            ensure!(
                Instant::now() < deadline,
                "{name}: the change was not answered"
            );
        }
        samples.push(started.elapsed());
    }
    let [p50, p99, max] = [50, 99, 100].map(|it| millis(samples.percentile(it)));
    println!(
        "\nChange of a ClusterIP at the API server to the new answer, ms: p50 {p50}, p99 {p99}, max {max}."
    );
    Ok(())
}

/// Prints the memory of an agent without and with a DNS server, each in a node of its own.
fn agent(program: &Path) -> anyhow::Result<()> {
    println!("\nThe agent, MiB after the first sync, and at most:\n");
    println!("| | RSS | peak |\n| --- | --- | --- |");
    for (what, flags) in [("without", &[][..]), ("with `--dns`", &["--dns"])] {
        let (cluster, server, scratch) = api::prepare(SHAPE)?;
        let dns = (0..SHAPE.services).step_by(HEADLESS as usize).map(headless);
        server.put_all(dns)?;
        let agent = api::start_agent(program, cluster.node("node-a"), scratch.path(), flags)?;
        let process = Process(agent.pid().as_raw());
        println!(
            "| {what} | {} | {} |",
            process.rss_mib()?,
            process.peak_mib()?
        );
    }
    Ok(())
}

/// Ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, netns: &Netns, corefile: &Path) -> anyhow::Result<Server> {
    let program = program.to_str().context("the path is not UTF-8")?;
    let corefile = corefile.to_str().context("the path is not UTF-8")?;
    let arguments = ["-c", "0", program, "dns", "--conf", corefile, "--quiet"];
    let mut command = netns.command("taskset", &arguments);
    let child = command.stdout(Stdio::null()).spawn();
    Ok(Server(child.context("start sluice dns")?))
}

/// kubeadm's, without upstreams: nothing leaves the namespace.
fn text(kubeconfig: &Path) -> String {
    let port = SERVER.port();
    format!(
        "cluster.local:{port} in-addr.arpa:{port} ip6.arpa:{port} {{\n    bind 127.0.0.1\n    errors\n    kubernetes {{\n        \
         kubeconfig {}\n        pods insecure\n        ttl 30\n    }}\n    loadbalance\n}}\n",
        kubeconfig.display()
    )
}

fn name(index: u32) -> String {
    format!("svc-{index}.default.svc.cluster.local.")
}

fn headless(index: u32) -> Value {
    let mut service = api::service(index);
    service["spec"]["clusterIP"] = json!("None");
    service["spec"]["clusterIPs"] = json!(["None"]);
    service
}
