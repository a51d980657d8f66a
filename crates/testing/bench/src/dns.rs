//! The DNS server: as a process of its own, and inside the agent.
//!
//! The server has one processor, its clients the other. Both are in the namespace of a node.

mod load;

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hickory_proto::op::ResponseCode;
use serde_json::{Value, json};
use sluice_lab::{Netns, eventually};

use super::api::{self, Shape, kubeconfig};
use super::measure::{Samples, count, micros, millis, seconds};
use super::process::Process;
use super::synthetic::cluster_ip;
use load::{addresses, ask, dnsperf, paced};

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
    server.put_all(more())?;
    let netns = cluster.node("node-a").netns();
    let corefile = scratch.path().join("Corefile");
    fs::write(&corefile, text(&kubeconfig(scratch.path()))).context("write a Corefile")?;

    let started = Instant::now();
    let child = start(program, netns, &corefile)?;
    // What does not exist is denied only when everything is known.
    let is_complete = || {
        let response = ask(SERVER, "missing.default.svc.cluster.local.")?;
        (response.metadata.response_code == ResponseCode::NXDomain).then_some(())
    };
    let complete = netns.run(|| eventually(TIMEOUT, is_complete));
    complete.context("the server did not learn of everything")?;
    let ready = started.elapsed();
    let process = Process(child.0.id().cast_signed());
    println!(
        "{} Services x {} endpoints from an API server, every tenth headless; one processor:\n",
        count(SHAPE.services),
        SHAPE.endpoints
    );
    println!(
        "From the start until all is known {} s, {} MiB.\n",
        seconds(ready),
        process.rss_mib()?
    );
    queries(netns, scratch.path(), &process)?;
    netns.run(|| changes(&|it| Ok(server.put(it).map(drop)?)))?;
    drop(child);
    agent(program)
}

/// Prints the most queries a second, and the latency at half of that.
fn queries(netns: &Netns, scratch: &Path, process: &Process) -> anyhow::Result<()> {
    println!("| names | queries/s | at half of it: p50, us | p99, us | max, us | RSS, MiB |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let services = 0..SHAPE.services;
    let (headless, others): (Vec<u32>, Vec<u32>) =
        services.partition(|it| it.is_multiple_of(HEADLESS));
    let names = |indexes: &[u32]| -> Vec<String> { indexes.iter().copied().map(name).collect() };
    let elsewhere = others.iter().map(|it| format!("s{it}.example."));
    for (what, code, names) in [
        ("A of a ClusterIP", "NOERROR", names(&others)),
        (
            "A of a headless Service of ten",
            "NOERROR",
            names(&headless),
        ),
        (
            "of no zone here: the loop alone",
            "REFUSED",
            elsewhere.collect(),
        ),
    ] {
        let rate = dnsperf(netns, scratch, SERVER, &names, code)?;
        let mut samples = netns.run(|| paced(SERVER, &names, rate / 2))?;
        let [p50, p99, max] = [50, 99, 100].map(|it| micros(samples.percentile(it)));
        let (rate, rss) = (count(rate), process.rss_mib()?);
        println!("| {what} | {rate} | {p50} | {p99} | {max} | {rss} |");
    }
    Ok(())
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
        while ask(SERVER, &name).is_none_or(|it| addresses(&it) != [wanted]) {
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
        server.put_all(more())?;
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
    let path = corefile.to_str().context("the path is not UTF-8")?;
    let arguments = ["-c", "0", program, "dns", "--conf", path, "--quiet"];
    let mut command = netns.command("taskset", &arguments);
    // Before all is known each question is an error in its log.
    let log = File::create(corefile.with_file_name("log")).context("create a log")?;
    let child = command.stdout(Stdio::null()).stderr(log).spawn();
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

/// What a DNS server needs beside the objects of every benchmark.
fn more() -> impl Iterator<Item = Value> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let headless = (0..SHAPE.services).step_by(HEADLESS as usize).map(headless);
    headless.chain([namespace])
}

fn headless(index: u32) -> Value {
    let mut service = api::service(index);
    service["spec"]["clusterIP"] = json!("None");
    service["spec"]["clusterIPs"] = json!(["None"]);
    service
}
