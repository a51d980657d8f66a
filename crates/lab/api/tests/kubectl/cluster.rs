//! A server with some objects, and the programs that talk to it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use sluice_api::answer::Pieces;
use sluice_api::{
    Api, ClientCertificates, Identity, LogOptions, Logs, Pems, Server, Settings, Status, Store,
    kubeconfig,
};
use tempfile::TempDir;

pub(crate) struct Cluster {
    pub(crate) store: Arc<Store>,
    folder: TempDir,
    program: PathBuf,
    _server: Server,
}

struct Lines;

impl Logs for Lines {
    fn read(&self, pod: &Value, options: &LogOptions) -> Result<Pieces, Status> {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let text = format!(
            "log of {name} {:?} {:?}\n",
            options.container, options.tail_lines
        );
        Ok(stream::iter([text.into()]).boxed())
    }
}

/// The kubectls of this machine.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let bookworm = root.join("target/kubectl-bookworm/kubectl");
    let mut programs = Vec::new();
    if bookworm.exists() {
        programs.push(bookworm);
    } else if std::env::var_os("CI").is_some() {
        panic!("no kubectl of Debian 12: run `make setup`");
    } else {
        eprintln!("SKIP: kubectl of Debian 12 is not there: run `make setup`");
    }
    let version = Command::new("kubectl")
        .args(["version", "--client"])
        .output();
    match version {
        Ok(it) if it.status.success() => programs.push("kubectl".into()),
        _ => eprintln!("SKIP: no kubectl on PATH"),
    }
    programs
}

/// Runs `test` with every kubectl, each with a cluster of its own.
pub(crate) fn with_each(test: impl Fn(&Cluster)) {
    for program in programs() {
        eprintln!("with {}", program.display());
        test(&Cluster::start(program));
    }
}

impl Cluster {
    fn start(program: PathBuf) -> Self {
        let store = Store::new(Settings::default());
        let pems = Pems::make("test", &["127.0.0.1".to_owned()], "admin").unwrap();
        let identity = Identity::new(pems, ClientCertificates::Accepted).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let config = kubeconfig("test", &url, Some(&identity.pems), Some("secret"));
        std::fs::write(folder.path().join("config"), config).unwrap();
        let config = kubeconfig("test", &url, Some(&identity.pems), None);
        std::fs::write(folder.path().join("certificate"), config).unwrap();
        let api = Arc::new(Api {
            store: store.clone(),
            logs: Some(Box::new(Lines)),
            token: "secret".to_owned(),
            user: "admin".to_owned(),
            tokens: None,
            dial: None,
            metrics: None,
            programs: None,
            sessions: sluice_api::Sessions::default(),
            requests: sluice_api::Requests::default(),
        });
        let server = Server::start(api, vec![listener], &identity).unwrap();
        for object in objects() {
            store.create(object).unwrap();
        }
        let pod = store.get("Pod", "default", "web").unwrap();
        let mut pod = Value::clone(&pod);
        pod["status"] = json!({
            "phase": "Running",
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 2,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
        });
        let pod = store.update_status(pod).unwrap();
        let event = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "web.1"},
            "involvedObject": {
                "kind": "Pod", "name": "web", "namespace": "default", "uid": pod["metadata"]["uid"],
            },
            "type": "Normal", "reason": "Started", "message": "it runs", "count": 1,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        store.create(event).unwrap();
        Self {
            store,
            folder,
            program,
            _server: server,
        }
    }

    pub(crate) fn is_old(&self) -> bool {
        self.program.is_absolute()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(self.folder.path().join("config"))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(words(line))
            .current_dir(self.folder.path());
        command
    }

    /// Writes a file for `-f`.
    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// What kubectl prints when it succeeds.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What kubectl says when it fails.
    #[track_caller]
    pub(crate) fn fail(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "kubectl {line}: {text}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Lines of a table, their columns separated by one space.
    #[track_caller]
    pub(crate) fn table(&self, line: &str) -> Vec<String> {
        let text = self.run(line);
        let lines = text
            .lines()
            .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect()
    }

    pub(crate) fn start_in_background(&self, line: &str) -> Background {
        let child = self.command(line).stdout(Stdio::piped()).spawn().unwrap();
        Background(child)
    }
}

pub(crate) struct Background(pub(crate) Child);

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Words of a command line; quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|it| !it.is_empty());
    words
}

fn objects() -> Vec<Value> {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": 2, "selector": selector, "template": template});
    let named = |kind: &str, version: &str, name: &str| json!({"kind": kind, "apiVersion": version, "metadata": {"name": name}});
    let with = |mut object: Value, fields: Value| {
        for (field, value) in fields.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    };
    let mut stateful = spec.clone();
    stateful["serviceName"] = "web".into();
    let mut daemon = spec.clone();
    daemon.as_object_mut().unwrap().remove("replicas");
    let labelled = json!({"name": "web", "labels": {"app": "web", "tier": "front"}});
    vec![
        with(
            named("Node", "v1", "n1"),
            json!({
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
                    "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
                    "nodeInfo": {
                        "kubeletVersion": "v1.36.0", "osImage": "linux", "kernelVersion": "6.12",
                        "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "lab://1",
                        "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux",
                        "systemUUID": "",
                    },
                    "capacity": {"cpu": "4", "pods": "110"},
                    "allocatable": {"cpu": "4", "pods": "110"},
                },
            }),
        ),
        with(
            named("Pod", "v1", "web"),
            json!({"metadata": labelled, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}]}}),
        ),
        with(
            named("Service", "v1", "web"),
            json!({"spec": {
                "clusterIP": "10.96.0.1", "type": "ClusterIP", "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
            }}),
        ),
        with(
            named("Endpoints", "v1", "web"),
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "http", "port": 8080}]}]}),
        ),
        with(
            named("EndpointSlice", "discovery.k8s.io/v1", "web-1"),
            json!({
                "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
                "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}}],
            }),
        ),
        with(named("ConfigMap", "v1", "c"), json!({"data": {"a": "b"}})),
        with(
            named("Secret", "v1", "s"),
            json!({"data": {"a": "Yg=="}, "type": "Opaque"}),
        ),
        named("ServiceAccount", "v1", "robot"),
        with(named("Deployment", "apps/v1", "web"), json!({"spec": spec})),
        with(
            named("ReplicaSet", "apps/v1", "web-1"),
            json!({"spec": spec}),
        ),
        with(
            named("StatefulSet", "apps/v1", "web"),
            json!({"spec": stateful}),
        ),
        with(
            named("DaemonSet", "apps/v1", "web"),
            json!({"spec": daemon}),
        ),
        with(
            named("ControllerRevision", "apps/v1", "web-1"),
            json!({"revision": 1}),
        ),
        with(
            named("ServiceCIDR", "networking.k8s.io/v1", "kubernetes"),
            json!({"spec": {"cidrs": ["10.96.0.0/16"]}}),
        ),
        with(
            named("IPAddress", "networking.k8s.io/v1", "10.96.0.1"),
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}}),
        ),
    ]
}
