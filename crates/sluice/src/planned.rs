//! The plan of a node for a command: from a folder of manifests, or from an API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::bail;
use hickory_proto::rr::Name;
use sluice_model::Event;
use sluice_node::addresses;
use sluice_plan::Planner;
use sluice_plan::settings::Settings;
use sluice_source::Pods;
use sluice_source::apiserver::{self, Client, Timeouts, Wanted};
use sluice_zone::{NamespaceRule, Objects};

use crate::cli::NodeArgs;
use crate::config::{self, NodeConfig, Source};
use crate::error::say;
use crate::source;
use sluice_config::Invalid;

/// How long an API server has for its lists, and how long when a request has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const FAILING: Duration = Duration::from_secs(3);
/// How long it has for the Node and the ServiceCIDRs, which it may refuse to show.
const NODE_PATIENCE: Duration = Duration::from_secs(5);

/// A plan and where it comes from.
pub(crate) struct Planned {
    pub(crate) planner: Planner,
    pub(crate) config: NodeConfig,
    /// Number of problems of the objects and the plan.
    pub(crate) problems: usize,
    /// The API server; `None` for a folder.
    pub(crate) client: Option<Client>,
    /// The objects with DNS names; `None` unless they were asked for.
    pub(crate) names: Option<Names>,
}

/// The objects with DNS names.
pub(crate) struct Names {
    pub(crate) objects: Objects,
    /// The domain of the cluster.
    pub(crate) zone: Name,
}

/// Plans the source of these flags as the agent would. Prints warnings and problems to stderr.
pub(crate) fn plan(args: &NodeArgs) -> anyhow::Result<Planned> {
    plan_of(args, |_| {}, source::wanted)
}

/// As [`plan`], with the objects that have DNS names.
pub(crate) fn plan_with_names(args: &NodeArgs) -> anyhow::Result<Planned> {
    // A user may not be permitted to read Namespaces. Each namespace with an object exists in any case.
    let mut objects = Objects::new(NamespaceRule::DeclaredOrImplied);
    let wanted = |settings: &Settings| Wanted {
        pods: Pods::All,
        ..source::wanted(settings).with_dns(settings.node_name.clone())
    };
    let planned = plan_of(args, |it| objects.absorb(it, 0), wanted)?;
    let zone = args.dns.zone().map_err(anyhow::Error::msg)?;
    Ok(Planned {
        names: Some(Names { objects, zone }),
        ..planned
    })
}

/// Every event is passed to `also`, too.
fn plan_of(
    args: &NodeArgs,
    mut also: impl FnMut(&Event),
    wanted: impl FnOnce(&Settings) -> Wanted,
) -> anyhow::Result<Planned> {
    let config = args.validate(&config::host_name())?;
    config.warnings.iter().for_each(|it| say(it));
    let mut planner = Planner::new(config.settings.clone());
    let wanted = wanted(&config.settings);
    let mut absorb = |it| {
        also(&it);
        planner.absorb(it);
    };
    let read = read(&config.source, wanted, &mut absorb)?;
    let node_name = &config.settings.node_name;
    let node = planner.state().node(node_name).cloned();
    if let Some(found) = addresses::if_node(node.as_deref()) {
        planner.absorb(Event::LocalAddresses(found));
    }
    planner.replan();
    let of_plan = planner.issues().map(|it| it.to_string());
    let problems: Vec<String> = read.problems.into_iter().chain(of_plan).collect();
    problems.iter().for_each(|it| say(it));
    Ok(Planned {
        planner,
        config,
        problems: problems.len(),
        client: read.client,
        names: None,
    })
}

/// The result of reading a source once, beside its objects.
#[derive(Default)]
struct Read {
    problems: Vec<String>,
    /// The API server; `None` for a folder.
    client: Option<Client>,
}

/// The objects of the source of these flags, for an answer that needs no plan. Prints problems to stderr.
///
/// # Errors
///
/// The flags are wrong, or the source cannot be read.
pub(crate) fn objects(
    args: &NodeArgs,
    wanted: Wanted,
    mut sink: impl FnMut(Event),
) -> anyhow::Result<()> {
    let config = args.validate(&config::host_name())?;
    let read = read(&config.source, wanted, &mut sink)?;
    read.problems.iter().for_each(|it| say(it));
    Ok(())
}

/// Reads a source once: its events, and that they are complete, go to `sink`.
fn read(source: &Source, wanted: Wanted, sink: &mut dyn FnMut(Event)) -> anyhow::Result<Read> {
    match source::access(source) {
        Err(folder) => read_folder(folder, &wanted, sink),
        Ok(access) if access.kubeconfig.is_none() && access.master.is_none() => {
            Err(anyhow::Error::new(Invalid {
                problems: vec![
                    "give --manifests, a folder of Services and EndpointSlices, or --kubeconfig, \
                     the file with the way to an API server"
                        .to_owned(),
                ],
                exit_code: 2,
            }))
        }
        Ok(access) => {
            let client = apiserver::connect(&access)?;
            let problems = read_api_server(&client, source, wanted, sink)?;
            let client = Some(client);
            Ok(Read { problems, client })
        }
    }
}

fn read_folder(
    folder: &Path,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Event),
) -> anyhow::Result<Read> {
    let loaded = sluice_source::load(folder, &wanted.kinds())?;
    let objects = loaded.objects.into_iter().map(Event::Set);
    objects.chain([Event::Synced]).for_each(sink);
    let problems = loaded.problems.iter().map(ToString::to_string);
    Ok(Read {
        problems: problems.collect(),
        client: None,
    })
}

/// Lists the objects of an API server. Returns its problems.
fn read_api_server(
    client: &Client,
    source: &Source,
    wanted: Wanted,
    sink: &mut dyn FnMut(Event),
) -> anyhow::Result<Vec<String>> {
    let (sender, events) = mpsc::channel();
    let send = move |batch: Vec<Event>| {
        // The command has all that it needs.
        let _ = sender.send(batch);
    };
    let timeouts = Timeouts {
        node: NODE_PATIENCE,
        ..Timeouts::default()
    };
    let _follow = apiserver::follow(client, wanted, timeouts, send, Arc::new(|_| {}))?;
    let start = Instant::now();
    let mut problems = BTreeMap::new();
    let mut is_synced = false;
    while !is_synced {
        let has_failed = problems.values().any(|it: &Vec<String>| !it.is_empty());
        let patience = if has_failed { FAILING } else { PATIENCE };
        match events.recv_timeout(patience.saturating_sub(start.elapsed())) {
            Ok(batch) => {
                for event in batch {
                    is_synced |= event == Event::Synced;
                    if let Event::Problems {
                        origin,
                        problems: of_it,
                    } = &event
                    {
                        problems.insert(origin.clone(), of_it.clone());
                    }
                    sink(event);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let why: Vec<String> = problems.into_values().flatten().collect();
                bail!("no complete list from the {source}: {}", why.join("; "));
            }
            Err(RecvTimeoutError::Disconnected) => bail!("no list from the {source}"),
        }
    }
    Ok(problems.into_values().flatten().collect())
}
