//! The server of a lab: API, controllers, kubelets.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Context;
use k8s_openapi::api::core::v1::Service;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_api::{
    Api, ClientCertificates, Identity, Pems, Requests, Server, Sessions, Settings, Store, Tokens,
    kubeconfig,
};
use sluice_controller::{Allocator, Pools, Typed};
use sluice_lab::Cluster;
use tracing::{info, warn};

use crate::admission::{Admission, CheckMode};
use crate::control::Control;
use crate::events::Events;
use crate::host_resolver;
use crate::images;
use crate::journal::Journal;
use crate::kube_system;
use crate::lab_dir::{LabDir, Settings as LabSettings, write};
use crate::launch::Program;
use crate::logs::{self, Logs};
use crate::machines;
use crate::nodes::{AgentSettings, Nodes};
use crate::outside;
use crate::own_service;
use crate::pods::Pods;
use crate::programs::Programs;
use crate::reports::Reports;
use crate::resume;
use crate::usage::Usage;

/// The user whom the kubeconfig is of.
const USER: &str = "sluice-lab";

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
    // Before the first process is started: none may have this socket.
    let resolver = settings.asks_host().then(host_resolver::take_socket);
    let resolver = resolver.transpose()?;
    let of_lab = settings.clone();
    let check_mode: CheckMode = Box::new(move |mode| check_mode(mode, &of_lab));
    let (store, allocator) = open_store(lab_dir, &settings, check_mode)?;
    images::install_applets();
    let (machines, records) = resume::machines(lab_dir, lab.path.to_owned())?;
    let machines = Arc::new(machines);
    let addresses = Cluster::lan_addresses().map(|it| SocketAddr::new(it, own_service::PORT));
    let mut listeners = vec![host];
    for address in addresses {
        let lan = machines.lock().lan().run(|| TcpListener::bind(address));
        listeners.push(lan.with_context(|| format!("listen on {address} of the LAN"))?);
    }
    write(
        &lab_dir.resolv_conf_of_nodes(),
        outside::resolv_conf().as_bytes(),
    )?;
    outside::start(&machines, resolver)?;
    if !lab_dir.corefile().exists() {
        write(&lab_dir.corefile(), kube_system::COREFILE.as_bytes())?;
    }
    let identity = Identity::new(pems(lab_dir)?, ClientCertificates::Accepted)?;
    let url = format!("https://{}", listeners[0].local_addr()?);
    let agents = lab_dir.agents_kubeconfig();
    let text = |url: &str| kubeconfig(lab_dir.name(), url, Some(&identity.pems), None);
    write(&lab_dir.kubeconfig(), text(&url).as_bytes())?;
    write(
        &agents,
        text(&format!("https://{}", addresses[0])).as_bytes(),
    )?;

    let api = Arc::new(Api {
        store: store.clone(),
        logs: Some(Box::new(Logs(machines.clone()))),
        // Not used: clients have certificates, and pods tokens of their own.
        token: random()?,
        user: USER.to_owned(),
        dial: Some(Arc::new(machines::FromLan(machines.clone()))),
        tokens: Some(Tokens::new(&identity.pems.token_key)?),
        metrics: Some(Box::new(Usage::new(lab_dir.clone()))),
        programs: Some(Arc::new(Programs(machines.clone()))),
        sessions: Sessions::default(),
        requests: Requests::default(),
    });
    let of_logs = lab_dir.clone();
    thread::spawn(move || logs::keep_short(&of_logs));
    let _server = Server::start(api.clone(), listeners, &identity)?;
    info!(%url, mode = settings.mode, "the lab's API is served");

    // What kubelets tell and what controllers tell is limited apart, as that of different programs.
    let events = Events::new(store.clone());
    let reports = Arc::new(Reports {
        api: api.clone(),
        store: store.clone(),
        events: Events::new(store.clone()),
    });
    let settings = AgentSettings {
        has_agents: settings.has_agents(),
        mode: settings.mode,
        kubeconfig: agents,
        corefile: lab_dir.corefile(),
        is_synced,
    };
    let control = Control {
        store,
        api,
        allocator,
        nodes: Nodes::new(machines.clone(), reports.clone(), settings),
        pods: Pods::new(machines, reports.clone(), reports, records),
        events,
        corefile: lab_dir.corefile(),
        authority: identity.pems.authority.clone(),
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
    settings: &LabSettings,
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
    let is_new = read.objects.is_empty();
    if !is_new {
        let restored = store.restore(read.objects, read.revision);
        restored.context("the journal has an object that nothing can have written")?;
    }
    let cidrs = settings.service_cidrs();
    let made = own_service::make_range(&store, &cidrs);
    made.map_err(|it| anyhow::anyhow!("{it}"))?;
    if let Err(error) = own_service::keep(&store) {
        // The controllers try again.
        warn!(%error, "the Service kubernetes cannot be written");
    }
    if is_new && settings.has_agents() {
        let made = kube_system::make(&store, &cidrs);
        made.map_err(|it| anyhow::anyhow!("kube-system: {it}"))?;
    }
    Ok((store, allocator))
}

/// The certificates of an earlier run, so that kubeconfigs stay valid. New ones if an earlier version made them for fewer
/// names.
fn pems(lab_dir: &LabDir) -> anyhow::Result<Pems> {
    let path = lab_dir.dir().join("certificates.json");
    let hosts = [
        "127.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names = hosts.map(str::to_owned).to_vec();
    names.extend(own_service::addresses().iter().map(IpAddr::to_string));
    if let Ok(text) = std::fs::read(&path)
        && let Ok(pems) = serde_json::from_slice::<Pems>(&text)
        && pems.names == names
    {
        return Ok(pems);
    }
    let pems = Pems::make("sluice-lab", &names, USER)?;
    write(&path, &serde_json::to_vec(&pems)?)?;
    Ok(pems)
}
