//! The server of a lab: API, controllers, kubelets.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Context;
use k8s_openapi::api::core::v1::Service;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use sluice_api::{Api, ClientCertificates, Identity, Pems, Server, Settings, Store, kubeconfig};
use sluice_controller::{Allocator, Pools, Typed};
use sluice_lab::Cluster;
use tracing::{info, warn};

use crate::admission::{Admission, CheckMode};
use crate::control::Control;
use crate::events::Events;
use crate::journal::Journal;
use crate::lab_dir::{LabDir, Settings as LabSettings, write};
use crate::launch::Program;
use crate::logs::{self, Logs};
use crate::nodes::{AgentSettings, Nodes};
use crate::object::key_of;
use crate::pods::Pods;
use crate::reports::Reports;
use crate::resume;

/// The port of the API on the LAN, for nodes and pods.
const PORT: u16 = 6443;

/// Most changes that a watch may lag behind.
const HISTORY: usize = 20_000;

/// Serves until the process is killed; `sluice lab serve`. `host` is the socket of the API on the machine. `is_synced`
/// tells whether the agent behind a socket has written all rules. `check_mode` tells why nodes of a lab cannot run a
/// data plane.
///
/// # Errors
///
/// The folder cannot be read or written, or a namespace cannot be made.
pub fn serve(
    lab: Program<'_>,
    host: TcpListener,
    is_synced: fn(&Path) -> bool,
    check_mode: impl Fn(&str, &LabSettings) -> Result<(), String> + Send + 'static,
) -> anyhow::Result<()> {
    // A panic of any thread ends the server: process 1 starts another one.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    raise_descriptors();
    let lab_dir = lab.lab_dir;
    let settings = lab_dir.settings()?;
    let of_lab = settings.clone();
    let check_mode: CheckMode = Box::new(move |mode| check_mode(mode, &of_lab));
    let (store, allocator) = open_store(lab_dir, check_mode)?;
    let (machines, records) = resume::machines(lab_dir, lab.path.to_owned())?;
    let machines = Arc::new(machines);
    let address = SocketAddr::new(Cluster::lan_address().into(), PORT);
    let listen = || TcpListener::bind(address);
    let lan = machines.lock().lan().run(listen);
    let lan = lan.with_context(|| format!("listen on {address} of the LAN"))?;
    let identity = Identity::new(pems(lab_dir)?, ClientCertificates::Accepted)?;
    let url = format!("https://{}", host.local_addr()?);
    let agents = lab_dir.agents_kubeconfig();
    let text = |url: &str| kubeconfig(lab_dir.name(), url, Some(&identity.pems), None);
    write(&lab_dir.kubeconfig(), text(&url).as_bytes())?;
    write(&agents, text(&format!("https://{address}")).as_bytes())?;

    let api = Arc::new(Api {
        store: store.clone(),
        logs: Some(Box::new(Logs {
            lab_dir: lab_dir.clone(),
        })),
        // Not used: clients have certificates.
        token: random()?,
    });
    let of_logs = lab_dir.clone();
    thread::spawn(move || logs::keep_short(&of_logs));
    let _server = Server::start(api, vec![host, lan], &identity)?;
    info!(%url, mode = settings.mode, "the lab's API is served");

    let events = Events::new(store.clone());
    let reports = Arc::new(Reports {
        store: store.clone(),
        events: events.clone(),
    });
    let settings = AgentSettings {
        has_agents: settings.agent != "none",
        mode: settings.mode,
        kubeconfig: agents,
        is_synced,
    };
    let control = Control {
        store,
        allocator,
        nodes: Nodes::new(machines.clone(), reports.clone(), settings),
        pods: Pods::new(machines, reports, records),
        events,
    };
    control.run();
    Ok(())
}

/// Raises the soft limit of open descriptors to the hard limit: the API's connections are a share of it.
fn raise_descriptors() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open descriptors");
    }
}

/// 32 random bytes in hexadecimal.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}

fn open_store(
    lab_dir: &LabDir,
    check_mode: CheckMode,
) -> anyhow::Result<(Arc<Store>, Arc<Mutex<Allocator>>)> {
    let (journal, read) = Journal::open(&lab_dir.journal())?;
    let mut allocator = Allocator::new(Pools {
        service_cidrs: Vec::new(),
        node_ports: 30000..=32767,
        load_balancers: vec![
            sluice_lab::LOAD_BALANCER_CIDR_V4.into(),
            sluice_lab::LOAD_BALANCER_CIDR_V6.into(),
        ],
    });
    let services = read.objects.iter().filter(|it| it["kind"] == "Service");
    let services: Vec<Service> = services.filter_map(|it| Service::read(it).ok()).collect();
    // Two Services never have the same address or port: every write was admitted.
    drop(allocator.recover(&services));
    let allocator = Arc::new(Mutex::new(allocator));
    let admission = Admission::new(allocator.clone(), &read.objects, check_mode);
    let store = Store::new(Settings {
        history: HISTORY,
        admission: Box::new(admission),
        journal: Some(Box::new(journal)),
    });
    if !read.objects.is_empty() {
        let restored = store.restore(read.objects, read.revision);
        restored.context("the journal has an object that nothing can have written")?;
    }
    for it in first_objects() {
        let key = key_of(&it);
        let kind = it["kind"].as_str().unwrap_or_default();
        if store.get(kind, &key.namespace, &key.name).is_none() {
            store.create(it).map_err(|it| anyhow::anyhow!("{it}"))?;
        }
    }
    Ok((store, allocator))
}

/// The objects that kube-apiserver makes: the default ServiceCIDR, and the Service `kubernetes`.
fn first_objects() -> [Value; 3] {
    let cidrs = [
        sluice_lab::SERVICE_CIDR_V4.to_string(),
        sluice_lab::SERVICE_CIDR_V6.to_string(),
    ];
    let first: IpAddr = Ipv4Addr::from(u32::from(sluice_lab::SERVICE_CIDR_V4.network()) + 1).into();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let slice_labels = json!({"kubernetes.io/service-name": "kubernetes"});
    [
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "clusterIP": first.to_string(),
                "ports": [{"name": "https", "port": 443, "targetPort": PORT}],
            },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": slice_labels},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
            "endpoints": [{
                "addresses": [Cluster::lan_address().to_string()],
                "conditions": {"ready": true},
            }],
        }),
    ]
}

/// The certificates of an earlier run, so that kubeconfigs stay valid, or new ones.
fn pems(lab_dir: &LabDir) -> anyhow::Result<Pems> {
    let path = lab_dir.dir().join("certificates.json");
    if let Ok(text) = std::fs::read(&path) {
        return serde_json::from_slice(&text).with_context(|| path.display().to_string());
    }
    let names = [
        "127.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
        &Cluster::lan_address().to_string(),
    ];
    let pems = Pems::make("sluice-lab", &names.map(str::to_owned), "sluice-lab")?;
    write(&path, &serde_json::to_vec(&pems)?)?;
    Ok(pems)
}
