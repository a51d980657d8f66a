//! The DNS server inside the agent.
//!
//! ```text
//! source ─▶ Names: held until the rules are in ─▶ Objects ◀─ sluice_dns::Server ◀─ queries of this node's pods
//!             └─ once all is known: LocalDns::take
//! ```
//!
//! A name is answered only when its rules are in, since the objects wait for the syncs of the proxy. The
//! queries are taken from the cluster's DNS after the first of them, and given back before the server stops.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use sluice_config::Mode;
use sluice_corefile::{Autopath, BindTarget, Corefile, Pods, SearchPath, ServerBlock};
use sluice_dns::{Limits, Options, Server};
use sluice_dns_agent::local_dns::{self, DNS_PORT, LocalDns};
use sluice_dns_agent::{NameAnswers, Names};
use sluice_http::Budget;
use sluice_model::Notice;
use sluice_node::chain;
use sluice_plan::settings;
use sluice_source::{Watch, watch_file};
use sluice_zone::{Event, NamespaceRule, Objects};
use tracing::{error, info, warn};

use crate::config::{Answers, ProxyConfig};
use crate::dns::resolver::{self, RESOLV_CONF};
use crate::dns::{self, PathsOfPods, Served, read_file};
use crate::resolution::Asked;

/// Where the server listens in the ipvs mode: on port 53 the kernel's virtual server gets the packets. The table
/// changes the ports.
const IPVS_PORT: u16 = 10_053;

/// Bytes of encoded answers. An agent is on every node, so it holds less than a server for a whole cluster.
const WIRE_CACHE: usize = 4 << 20;

/// How long queries may be on their way to the sockets after they were given back.
const ON_THEIR_WAY: Duration = Duration::from_millis(100);

/// A running DNS server with its addresses.
pub(super) struct NodeDns {
    dns: settings::NodeDns,
    objects: Arc<RwLock<Objects>>,
    answers: Answers,
    served: Arc<Mutex<Served>>,
    local: Arc<Mutex<LocalDns>>,
    /// The watch of `--dns-corefile`.
    watch: Option<Watch>,
}

impl NodeDns {
    /// Starts the server; queries still go to the cluster's DNS. Call it after the privileges were given up, since it
    /// starts threads. `budget`: the connections to all pages of the process. `None` when the flags do not ask for it.
    ///
    /// # Errors
    ///
    /// An address or port cannot be had, or the Corefile is wrong.
    pub(super) fn start(config: &ProxyConfig, budget: Arc<Budget>) -> anyhow::Result<Option<Self>> {
        let settings = &config.node.settings;
        let Some((dns, answers)) = settings.dns.as_ref().zip(config.node.dns.as_ref()) else {
            remove_left();
            return Ok(None);
        };
        let port = match config.node.effective.mode {
            Mode::Ipvs => IPVS_PORT,
            _ => DNS_PORT,
        };
        let local = LocalDns::open(dns, &settings.local_detector, port).context("--dns")?;
        let content = answers.corefile.as_deref().map(read_file);
        let corefile = corefile(answers, content, &local)?;
        // An agent may not be permitted to read Namespaces. Each namespace with an object exists in any case.
        let rule = NamespaceRule::DeclaredOrImplied;
        let objects = Arc::new(RwLock::new(Objects::new(rule)));
        let local = Arc::new(Mutex::new(local));
        let options = Options {
            search_paths: Some(Arc::new(PathsOfPods {
                objects: objects.clone(),
                zone: answers.zone.clone(),
                of_node: resolver::search_path(),
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
            page_budget: budget,
            ..Options::default()
        };
        let running = Server::start(&corefile, objects.clone(), options).context("--dns")?;
        info!(addresses = ?running.addresses(), service = %dns.service, "DNS server started");
        Ok(Some(Self {
            dns: dns.clone(),
            objects,
            answers: answers.clone(),
            served: Arc::new(Mutex::new(Served::new(running, corefile))),
            local,
            watch: None,
        }))
    }

    /// Serves `--dns-corefile` again whenever it changes. One that cannot be served is a problem in status, log and
    /// metrics.
    pub(super) fn follow(&mut self, tell: impl Fn(Notice) + Send + 'static) -> anyhow::Result<()> {
        let Some(path) = self.answers.corefile.clone() else {
            return Ok(());
        };
        let (answers, local) = (self.answers.clone(), self.local.clone());
        let (served, file) = (self.served.clone(), path.clone());
        let origin: Arc<str> = format!("--dns-corefile {}", file.display()).into();
        let mut said = None;
        let changed = move |content| {
            let read = corefile(&answers, Some(content), &lock(&local));
            let error = lock(&served).reload(&file, read).err();
            let problem = error.as_ref().map(|it| {
                let why = chain(it.as_ref()).replace('\n', "; ");
                format!("not served, the last good one stays in force: {why}")
            });
            // The proxy syncs for every event.
            if problem != said {
                said.clone_from(&problem);
                tell(Notice::Problems {
                    origin: origin.clone(),
                    problems: problem.into_iter().collect(),
                });
            }
        };
        let watch = watch_file(&path, changed);
        self.watch = Some(watch.context("watch --dns-corefile")?);
        Ok(())
    }

    /// The consumer that gets the objects whose rules are in.
    pub(super) fn names(&self) -> Names {
        let objects = self.objects.clone();
        let metrics = lock(&self.served).running.cluster_metrics();
        let absorb = move |events: &[Event]| dns::absorb(&objects, events, &metrics);
        Names::new(absorb, self.local.clone(), &self.dns)
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
        lock(&self.served).running.registry().clone()
    }

    /// Gives the queries back, answers those that are here, and stops.
    pub(super) fn stop(self) {
        lock(&self.local).give_back();
        #[expect(clippy::disallowed_methods, reason = "queries are on their way")]
        thread::sleep(ON_THEIR_WAY);
        // Its thread has the server, too.
        drop(self.watch);
        let served = Arc::into_inner(self.served).expect("nobody else is left");
        let served = served.into_inner().unwrap_or_else(PoisonError::into_inner);
        served.running.stop();
    }
}

/// Removes what an agent with `--dns` left on this machine: nothing answers there any more. It is asked first, because
/// looking for tables loads nf_tables, which not every mode needs.
fn remove_left() {
    let removed = local_dns::addresses().and_then(|left| {
        if left.is_empty() {
            Ok(Vec::new())
        } else {
            local_dns::clean_up()
        }
    });
    match removed {
        Ok(removed) => removed
            .iter()
            .for_each(|it| info!("removed {it}: --dns is off")),
        Err(error) => {
            let why = chain(&error);
            warn!(why, "what an agent with --dns left stays");
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics with the lock held.
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(objects: &RwLock<Objects>, ask: impl FnOnce(&Objects) -> T) -> T {
    // Nothing panics with the lock held.
    ask(&objects.read().unwrap_or_else(PoisonError::into_inner))
}

/// The Corefile of the server, on its addresses. `content` is what is in `--dns-corefile`.
fn corefile(
    answers: &Answers,
    content: Option<io::Result<Vec<u8>>>,
    local: &LocalDns,
) -> anyhow::Result<Corefile> {
    let port = local.port();
    let mut corefile = match answers.corefile.as_ref().zip(content) {
        Some((path, content)) => dns::check_corefile("--dns-corefile", path, content, port)?,
        None => usual(answers, port)?,
    };
    let addresses: Vec<IpAddr> = local.sockets().map(|it| it.ip()).collect();
    for block in &mut corefile.blocks {
        // The Corefile of a cluster names the port of DNS, wherever this server listens.
        for key in block.keys.iter_mut().filter(|it| it.port == DNS_PORT) {
            key.port = port;
        }
        if let Some(why) = not_in_an_agent(block, port) {
            bail!("{}: {why}", block.place);
        }
        let addresses = addresses.iter().copied();
        block.plugins.bind.targets = addresses.map(BindTarget::Address).collect();
    }
    Ok(corefile)
}

/// What of a server block an agent cannot do, and what to do about it.
fn not_in_an_agent(block: &ServerBlock, port: u16) -> Option<String> {
    if block.keys.iter().any(|it| it.port != port) {
        return Some(format!(
            "the port is {port} for the DNS server inside the agent: leave it out"
        ));
    }
    let bind = &block.plugins.bind;
    if !bind.targets.is_empty() || !bind.except.is_empty() {
        let why = "bind: --dns-address says where the DNS server inside the agent listens";
        return Some(why.to_owned());
    }
    let plugin = block.plugins.kubernetes.as_ref()?;
    if plugin.pods == Pods::Verified {
        let why = "pods verified: an agent knows the pods of its own node only: use pods insecure";
        return Some(why.to_owned());
    }
    let of_a_source = [
        ("endpoint", plugin.endpoint.is_some()),
        ("tls", plugin.tls.is_some()),
        ("kubeconfig", plugin.kubeconfig.is_some()),
        ("labels", plugin.labels.is_some()),
        ("namespace_labels", plugin.namespace_labels.is_some()),
    ];
    let (option, _) = of_a_source.into_iter().find(|it| it.1)?;
    Some(format!(
        "{option}: the DNS server inside the agent answers from the agent's own objects: leave it out"
    ))
}

/// kubeadm's Corefile, and the search paths of this node's pods, which CoreDNS can complete only when it watches all
/// pods of the cluster.
fn usual(answers: &Answers, port: u16) -> anyhow::Result<Corefile> {
    let zone = answers.zone.to_ascii();
    let upstream = if resolver::has_server() {
        format!(
            "forward . {RESOLV_CONF} {{
            max_concurrent 1000
        }}
        cache 30 {{
            success 2048
            denial 1024
        }}
        loop"
        )
    } else {
        warn!("no nameserver in {RESOLV_CONF}: names outside the cluster are not answered");
        String::new()
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
