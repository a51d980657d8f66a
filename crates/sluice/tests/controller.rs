//! `sluice controller`: manifests completed as a control plane does, and served by an agent.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use sluice_lab::{Cluster, Probe, Protocol, Server, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

const WEB: &str = "kind: Service\napiVersion: v1\nmetadata: {name: web}\n\
    spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n";

fn pod(name: &str, ip: &str) -> String {
    format!(
        "kind: Pod\napiVersion: v1\nmetadata: {{name: {name}, labels: {{app: web}}}}\n\
         spec: {{nodeName: node-a, containers: [{{name: c, ports: [{{name: http, containerPort: 8080}}]}}]}}\n\
         status: {{podIPs: [{{ip: {ip}}}]}}\n"
    )
}

/// Two folders, and the controller between them.
struct World {
    files: Files,
    /// Its manifests are what the controller writes.
    served: Files,
    controller: Option<Child>,
}

impl World {
    fn new() -> Self {
        let files = Files::new();
        files.write("web.yaml", WEB);
        Self {
            files,
            served: Files::new(),
            controller: None,
        }
    }

    fn output(&self) -> PathBuf {
        self.served.manifests()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(SLUICE);
        command
            .arg("controller")
            .arg("--manifests")
            .arg(self.files.manifests());
        command.arg("--output").arg(self.output());
        command.stderr(Stdio::piped());
        command
    }

    fn once(&self) -> Output {
        self.command().arg("--once").output().unwrap()
    }

    fn start(&mut self) {
        self.controller = Some(self.command().spawn().unwrap());
    }

    /// `kill -9`. What it said.
    fn kill(&mut self) -> String {
        let mut child = self.controller.take().unwrap();
        child.kill().unwrap();
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        child.wait().unwrap();
        said
    }

    /// The objects of a kind in the file of a Service; none where there is no file.
    fn written(&self, service: &str, kind: &str) -> Vec<Value> {
        let text = fs::read(self.output().join(format!("default/{service}.json")));
        let list: Value = text.map_or(Value::Null, |it| serde_json::from_slice(&it).unwrap());
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().filter(|it| it["kind"] == kind).collect()
    }

    fn address(&self, service: &str) -> Option<String> {
        let services = self.written(service, "Service");
        Some(services.first()?["spec"]["clusterIP"].as_str()?.to_owned())
    }

    fn endpoints(&self, service: &str) -> Vec<String> {
        let slices = self.written(service, "EndpointSlice");
        let endpoints = slices
            .iter()
            .flat_map(|it| it["endpoints"].as_array().unwrap());
        endpoints
            .map(|it| it["addresses"][0].as_str().unwrap().to_owned())
            .collect()
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let found = eventually(WITHIN, || holds(self).then_some(()));
        assert!(found.is_some(), "{what}: {:?}", self.endpoints("web"));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(child) = &mut self.controller {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_service_gets_an_address_a_port_and_its_pods() {
    let world = World::new();
    world.files.write(
        "pods.yaml",
        &[pod("web-1", "10.244.0.5"), pod("web-2", "10.244.0.6")].join("---\n"),
    );
    let output = world.once();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert_eq!(world.endpoints("web"), ["10.244.0.5", "10.244.0.6"]);
    let address = world.address("web").unwrap();
    assert_eq!(
        world.written("web", "IPAddress")[0]["metadata"]["name"],
        address.as_str()
    );
    let mut explain = Command::new(SLUICE);
    explain.args([
        "explain",
        "10.244.0.9",
        &format!("{address}:80"),
        "--hostname-override=node-a",
    ]);
    let explain = explain
        .arg("--manifests")
        .arg(world.output())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&explain.stdout);
    assert!(
        text.contains("10.244.0.5:8080") && text.contains("10.244.0.6:8080"),
        "{explain:?}"
    );
    // The same manifests are the same cluster, wherever they are read.
    let other = World::new();
    other.once();
    assert_eq!(other.address("web"), Some(address));
}

#[test]
fn an_agent_serves_what_it_writes() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").pod("cli", "node-a");
    let cluster = builder
        .pod("one", "node-a")
        .pod("two", "node-a")
        .build()
        .unwrap();
    let _servers = ["one", "two"]
        .map(|it| Server::start(cluster.pod(it).netns(), it, 8080, Protocol::Tcp).unwrap());
    let mut world = World::new();
    let manifest = |it: &str| pod(it, &cluster.pod(it).ipv4().to_string());
    world.files.write("one.yaml", &manifest("one"));
    world.start();
    world.until("an address", |it| !it.endpoints("web").is_empty());
    let node = cluster.node("node-a").netns();
    let _agent = Agent::run(&world.served, world.served.proxy(node));
    let target = SocketAddr::new(world.address("web").unwrap().parse().unwrap(), 80);
    let ask = || {
        Probe::tcp(target)
            .from(cluster.pod("cli").netns())
            .name()
            .map(str::to_owned)
    };
    assert_eq!(ask().as_deref(), Some("one"));
    world.files.write("two.yaml", &manifest("two"));
    fs::remove_file(world.files.manifests().join("one.yaml")).unwrap();
    eventually(WITHIN, || (ask().as_deref() == Some("two")).then_some(())).expect("the other pod");
}

#[test]
fn addresses_outlive_a_kill() {
    let mut world = World::new();
    world.start();
    world.until("an address", |it| it.address("web").is_some());
    let address = world.address("web").unwrap();
    let second = said(&world.once());
    assert!(
        second.contains("another controller writes there"),
        "{second}"
    );
    world.kill();
    let inode = || {
        fs::metadata(world.output().join("default/web.json"))
            .unwrap()
            .ino()
    };
    let before = inode();
    let rival = WEB
        .replace("name: web", "name: rival")
        .replace("spec: {", &format!("spec: {{clusterIP: {address}, "));
    world.files.write("a-rival.yaml", &rival);
    let output = world.once();
    assert!(
        said(&output).contains(&format!(
            "Service default/rival: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: \
             provided IP is already allocated: Service default/web has it"
        )),
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        (world.address("web"), inode()),
        (Some(address.clone()), before),
        "nothing is written twice"
    );
    fs::remove_file(world.files.manifests().join("web.yaml")).unwrap();
    assert!(world.once().status.success());
    assert_eq!(
        (world.address("web"), world.address("rival")),
        (None, Some(address))
    );
}

#[test]
fn what_cannot_be_read_takes_nothing_away() {
    let mut world = World::new();
    world.files.write("pod.yaml", &pod("web-1", "10.244.0.5"));
    world.start();
    world.until("an endpoint", |it| !it.endpoints("web").is_empty());
    world.files.write("web.yaml", "kind: Service\nspec: [\n");
    world.files.write("pod.yaml", &pod("web-1", "10.244.0.7"));
    world.until("other objects are followed", |it| {
        it.endpoints("web").contains(&"10.244.0.7".to_owned())
    });
    fs::remove_file(world.files.manifests().join("pod.yaml")).unwrap();
    world.files.write("web.yaml", WEB);
    world.until("what is gone goes", |it| {
        it.address("web").is_some() && it.endpoints("web").is_empty()
    });
    let said = world.kill();
    assert!(said.contains("web.yaml:"), "{said}");
    // Also what an earlier run wrote of files that cannot be read now.
    let nodes = "kind: Node\napiVersion: v1\nmetadata: {name: node-a}\n---\n";
    world.files.write(
        "pod.yaml",
        &(nodes.to_owned() + &pod("web-1", "10.244.0.5")),
    );
    assert!(world.once().status.success());
    let cluster = || fs::read_to_string(world.output().join("cluster.json")).unwrap();
    let before = (world.endpoints("web"), cluster());
    assert!(before.1.contains("node-a"), "{}", before.1);
    world.files.write("pod.yaml", "kind: Pod\nspec: [\n");
    assert_eq!(world.once().status.code(), Some(1));
    assert_eq!((world.endpoints("web"), cluster()), before);
    // An object that is none of its kind is one of those.
    world.files.write(
        "wrong.yaml",
        "kind: Service\napiVersion: v1\nmetadata: {name: wrong}\nspec: {ports: 80}\n",
    );
    let output = world.once();
    assert!(
        self::said(&output).contains("wrong.yaml:1: Service wrong: "),
        "{output:?}"
    );
    assert!(world.address("web").is_some());
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let world = World::new();
    fs::write(world.output().join("notes.txt"), "mine").unwrap();
    let output = world.once();
    assert!(
        said(&output).contains("has files of somebody else: name an empty folder"),
        "{output:?}"
    );
    assert_eq!(fs::read_dir(world.output()).unwrap().count(), 1);
    let inside = |manifests: PathBuf, output: PathBuf| {
        let mut command = Command::new(SLUICE);
        command
            .args(["controller", "--once", "--manifests"])
            .arg(manifests);
        said(&command.arg("--output").arg(output).output().unwrap())
    };
    let manifests = world.files.manifests();
    for text in [
        inside(manifests.clone(), manifests.join("out")),
        inside(manifests.clone(), manifests.clone()),
        inside(manifests.clone(), world.files.0.path().to_owned()),
    ] {
        assert!(text.contains("neither may be in the other"), "{text}");
    }
    let missing = inside(manifests.join("missing"), world.files.0.path().join("out"));
    assert!(missing.contains("missing"), "{missing}");
}

#[test]
fn a_failed_write_is_tried_again() {
    let mut world = World::new();
    assert!(world.once().status.success());
    // A file where a folder is needed: the kernel says no, whoever asks.
    fs::remove_dir_all(world.output().join("default")).unwrap();
    fs::write(world.output().join("default"), "").unwrap();
    let output = world.once();
    assert!(said(&output).contains("default/web.json"), "{output:?}");
    world.start();
    world.files.write("pod.yaml", &pod("web-1", "10.244.0.5"));
    fs::remove_file(world.output().join("default")).unwrap();
    world.until("the next try", |it| !it.endpoints("web").is_empty());
}
