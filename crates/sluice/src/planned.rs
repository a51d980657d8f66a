//! The plan of a node for a command: from a folder of manifests, or from an API server.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::bail;
use sluice_model::Event;
use sluice_node::addresses;
use sluice_plan::Planner;
use sluice_source::apiserver::{self, Client, Timeouts};

use crate::cli::NodeArgs;
use crate::config::{self, NodeConfig, Source};
use crate::error::{Invalid, say};
use crate::proxy;

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
}

/// Plans the source of these flags as the agent would. Prints warnings and problems to stderr.
pub(crate) fn plan(args: &NodeArgs) -> anyhow::Result<Planned> {
    let config = args.validate(&config::host_name())?;
    config.warnings.iter().for_each(|it| say(it));
    let mut planner = Planner::new(config.settings.clone());
    let (of_source, client) = match proxy::access(&config.source) {
        Err(folder) => (read_folder(folder, &mut planner)?, None),
        Ok(access) if access.kubeconfig.is_none() && access.master.is_none() => {
            return Err(anyhow::Error::new(Invalid {
                problems: vec![
                    "give --manifests, a folder of Services and EndpointSlices, or --kubeconfig, \
                     the file with the way to an API server"
                        .to_owned(),
                ],
                exit_code: 2,
            }));
        }
        Ok(access) => {
            let client = apiserver::connect(&access)?;
            let problems = read_api_server(&client, &config.source, &mut planner)?;
            (problems, Some(client))
        }
    };
    let node_name = &config.settings.node_name;
    let node = planner.state().node(node_name).cloned();
    if let Some(found) = addresses::if_node(node.as_deref()) {
        planner.absorb(Event::LocalAddresses(found));
    }
    planner.replan();
    let of_plan = planner.issues().map(|it| it.to_string());
    let problems: Vec<String> = of_source.into_iter().chain(of_plan).collect();
    problems.iter().for_each(|it| say(it));
    Ok(Planned {
        planner,
        config,
        problems: problems.len(),
        client,
    })
}

/// Reads a folder once. Returns its problems.
fn read_folder(folder: &Path, planner: &mut Planner) -> anyhow::Result<Vec<String>> {
    let loaded = sluice_source::load(folder, &proxy::wanted(planner.settings()).kinds())?;
    let objects = loaded.objects.into_iter().map(Event::Set);
    objects
        .chain([Event::Synced])
        .for_each(|it| planner.absorb(it));
    Ok(loaded.problems.iter().map(ToString::to_string).collect())
}

/// Lists the objects of an API server once. Returns its problems.
fn read_api_server(
    client: &Client,
    source: &Source,
    planner: &mut Planner,
) -> anyhow::Result<Vec<String>> {
    let (sender, events) = mpsc::channel();
    let sink = move |batch: Vec<Event>| {
        // The command has all that it needs.
        let _ = sender.send(batch);
    };
    let timeouts = Timeouts {
        node: NODE_PATIENCE,
        ..Timeouts::default()
    };
    let wanted = proxy::wanted(planner.settings());
    let _follow = apiserver::follow(client, wanted, timeouts, sink, Arc::new(|_| {}))?;
    let start = Instant::now();
    while !planner.is_synced() {
        let has_failed = planner.problems().next().is_some();
        let patience = if has_failed { FAILING } else { PATIENCE };
        match events.recv_timeout(patience.saturating_sub(start.elapsed())) {
            Ok(batch) => batch.into_iter().for_each(|it| planner.absorb(it)),
            Err(RecvTimeoutError::Timeout) => {
                let why: Vec<&str> = planner.problems().map(|(_, it)| it.as_str()).collect();
                bail!("no complete list from the {source}: {}", why.join("; "));
            }
            Err(RecvTimeoutError::Disconnected) => bail!("no list from the {source}"),
        }
    }
    let problems = planner.problems().map(|(_, problem)| problem.clone());
    Ok(problems.collect())
}
