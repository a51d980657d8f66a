//! The DNS server inside the agent.
//!
//! ```text
//! source ─▶ agent: rules ─after each sync─▶ names ─▶ Objects ◀─ sluice_dns::Server ◀─ queries of this node's pods
//!                                             └─ once all is known: LocalDns::take
//! ```
//!
//! A name is answered only when its rules are in, since the objects come from the agent after its syncs. The
//! queries are taken from the cluster's DNS after the first of them, and given back before the server stops.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use sluice_config::Mode;
use sluice_corefile::{Autopath, BindTarget, Corefile, Pods, SearchPath};
use sluice_dns::{Limits, Options, Running, Server};
use sluice_node::local_dns::{DNS_PORT, LocalDns};
use sluice_node::{NameAnswers, Names, chain};
use sluice_zone::{NamespaceRule, Objects};
use tracing::{error, info, warn};

use crate::config::{Answers, ProxyConfig};
use crate::dns::{self, Asked, PathsOfPods};

/// Where the server listens in the ipvs mode: on port 53 the kernel's virtual server gets the packets. The table
/// changes the ports.
const IPVS_PORT: u16 = 10_053;

/// The resolver of the node.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Bytes of encoded answers. An agent is on every node, so it holds less than a server for a whole cluster.
const WIRE_CACHE: usize = 4 << 20;

/// How long queries may be on their way to the sockets after they were given back.
const ON_THEIR_WAY: Duration = Duration::from_millis(100);

/// A running DNS server with its addresses.
pub(super) struct NodeDns {
    objects: Arc<RwLock<Objects>>,
    answers: Answers,
    running: Running,
    local: Arc<Mutex<LocalDns>>,
}

impl NodeDns {
    /// Starts the server; queries still go to the cluster's DNS. Call it after the privileges were given up, since it
    /// starts threads. `None` when the flags do not ask for it.
    ///
    /// # Errors
    ///
    /// An address or port cannot be had, or the Corefile is wrong.
    pub(super) fn start(config: &ProxyConfig) -> anyhow::Result<Option<Self>> {
        let settings = &config.node.settings;
        let Some((dns, answers)) = settings.dns.as_ref().zip(config.node.dns.as_ref()) else {
            return Ok(None);
        };
        let port = match config.node.effective.mode {
            Mode::Ipvs => IPVS_PORT,
            _ => DNS_PORT,
        };
        let local = LocalDns::open(dns, &settings.local_detector, port).context("--dns")?;
        let sockets: Vec<SocketAddr> = local.sockets().collect();
        let corefile = corefile(answers, &sockets, port)?;
        // An agent may not be permitted to read Namespaces. Each namespace with an object exists in any case.
        let rule = NamespaceRule::DeclaredOrImplied;
        let objects = Arc::new(RwLock::new(Objects::new(rule)));
        let local = Arc::new(Mutex::new(local));
        let options = Options {
            search_paths: Some(Arc::new(PathsOfPods {
                objects: objects.clone(),
                zone: answers.zone.clone(),
                of_node: dns::own_search_path(),
            })),
            limits: Limits {
                wire_cache: WIRE_CACHE,
                ..Limits::default()
            },
            fatal: {
                let local = local.clone();
                Arc::new(move |why| {
                    error!(why, "queries of this node go to the cluster's DNS");
                    lock(&local).give_back();
                })
            },
            ..Options::default()
        };
        let running = Server::start(&corefile, objects.clone(), options).context("--dns")?;
        info!(addresses = ?running.addresses(), service = %dns.service, "DNS server started");
        Ok(Some(Self {
            objects,
            answers: answers.clone(),
            running,
            local,
        }))
    }

    /// Gets the objects whose rules are in.
    pub(super) fn names(&self) -> Names {
        let (objects, local) = (self.objects.clone(), self.local.clone());
        let metrics = self.running.cluster_metrics();
        let mut is_taken = false;
        Box::new(move |events| {
            dns::absorb(&objects, &events, &metrics);
            let is_synced = read(&objects, Objects::is_synced);
            if is_synced && !is_taken {
                match lock(&local).take() {
                    Ok(()) => {
                        info!("DNS queries of this node are answered here");
                        is_taken = true;
                    }
                    // Tried again after the next sync.
                    Err(error) => {
                        let why = chain(&error);
                        error!(why, "DNS queries of this node go to the cluster's DNS");
                    }
                }
            }
        })
    }

    /// Answers `sluice dns query`.
    pub(super) fn questions(&self) -> NameAnswers {
        let (objects, zone) = (self.objects.clone(), self.answers.zone.clone());
        Arc::new(move |name, record_type, from| {
            let asked = Asked::of(name, record_type, from).map_err(|it| it.to_string())?;
            let found = read(&objects, |it| asked.in_objects(it, &zone));
            let found = found.map_err(|it| it.to_string())?;
            serde_json::to_string(&found).map_err(|it| it.to_string())
        })
    }

    /// All metrics of the server.
    pub(super) fn registry(&self) -> prometheus::Registry {
        self.running.registry().clone()
    }

    /// Gives the queries back, answers those that are here, and stops.
    pub(super) fn stop(self) {
        lock(&self.local).give_back();
        thread::sleep(ON_THEIR_WAY);
        self.running.stop();
    }
}

fn lock(local: &Mutex<LocalDns>) -> MutexGuard<'_, LocalDns> {
    // Nothing panics with the lock held.
    local.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(objects: &RwLock<Objects>, ask: impl FnOnce(&Objects) -> T) -> T {
    // Nothing panics with the lock held.
    ask(&objects.read().unwrap_or_else(PoisonError::into_inner))
}

/// A machine without a resolver is a node all the same.
fn has_upstream() -> bool {
    let text = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    text.lines()
        .any(|it| it.trim_start().starts_with("nameserver"))
}

/// The Corefile of the server, on its addresses.
fn corefile(answers: &Answers, sockets: &[SocketAddr], port: u16) -> anyhow::Result<Corefile> {
    let mut corefile = match &answers.corefile {
        Some(path) => dns::read_corefile(path, port)?,
        None => usual(answers, port)?,
    };
    let addresses: Vec<IpAddr> = sockets.iter().map(SocketAddr::ip).collect();
    for block in &mut corefile.blocks {
        let place = &block.place;
        if block.keys.iter().any(|it| it.port != port) {
            bail!("{place}: the port is {port} for the DNS server inside the agent: leave it out");
        }
        let bind = &mut block.plugins.bind;
        if !bind.targets.is_empty() || !bind.except.is_empty() {
            bail!(
                "{place}: bind: --dns-address says where the DNS server inside the agent listens"
            );
        }
        let verified = block.plugins.kubernetes.as_ref();
        if verified.is_some_and(|it| it.pods == Pods::Verified) {
            bail!(
                "{place}: pods verified: an agent knows the pods of its own node only: use pods insecure"
            );
        }
        bind.targets = addresses.iter().copied().map(BindTarget::Address).collect();
    }
    Ok(corefile)
}

/// kubeadm's Corefile, and the search paths of this node's pods, which CoreDNS can complete only when it watches all
/// pods of the cluster.
fn usual(answers: &Answers, port: u16) -> anyhow::Result<Corefile> {
    let zone = answers.zone.to_ascii();
    let upstream = match has_upstream() {
        true => {
            "forward . /etc/resolv.conf {
                max_concurrent 1000
            }
            cache 30 {
                success 2048
                denial 1024
            }
            loop"
        }
        false => {
            warn!("no nameserver in {RESOLV_CONF}: names outside the cluster are not answered");
            ""
        }
    };
    let text = format!(
        ".:{port} {{
            errors
            kubernetes {zone} in-addr.arpa ip6.arpa {{
                pods insecure
                fallthrough in-addr.arpa ip6.arpa
                ttl 30
            }}
            loadbalance
            {upstream}
        }}"
    );
    let mut corefile = dns::parse_corefile("the usual Corefile", &text, port)?;
    for block in &mut corefile.blocks {
        block.plugins.autopath = Some(Autopath {
            zones: vec![answers.zone.clone()],
            search: SearchPath::Kubernetes,
        });
    }
    Ok(corefile)
}
