//! The plan of a node for a command: from a folder of manifests, or from an API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::bail;
use hickory_proto::rr::Name;
use sluice_model::Notice;
use sluice_node::addresses;
use sluice_plan::{Event, Planner};
use sluice_policy_plan::Event as PolicyObject;
use sluice_source::apiserver::{self, Client, Timeouts};
use sluice_source::{Hub, Wants};
use sluice_zone::{Event as NameEvent, NamespaceRule, Objects};

use crate::cli::NodeArgs;
use crate::config::{self, NodeConfig, Source};
use crate::error::say;
use crate::source;
use crate::wanted::{self, Permission, Pods, Services};
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
    plan_of(args, None)
}

/// As [`plan`], with the objects that have DNS names.
pub(crate) fn plan_with_names(args: &NodeArgs) -> anyhow::Result<Planned> {
    // A user may not be permitted to read Namespaces. Each namespace with an object exists in any case.
    let mut objects = Objects::new(NamespaceRule::DeclaredOrImplied);
    let planned = plan_of(args, Some(&mut objects))?;
    let zone = args.dns.zone().map_err(anyhow::Error::msg)?;
    Ok(Planned {
        names: Some(Names { objects, zone }),
        ..planned
    })
}

/// An event of a source for a plan or for names.
enum Told {
    Plan(Event),
    Name(NameEvent),
    Policy(Option<PolicyObject>),
    Notice(Notice),
}

fn plan_of(args: &NodeArgs, mut objects: Option<&mut Objects>) -> anyhow::Result<Planned> {
    let config = args.validate(&config::host_name())?;
    config.warnings.iter().for_each(|it| say(it));
    let mut planner = Planner::new(config.settings.clone());
    let wants = Wants::new(Told::Notice);
    let wants = match objects {
        Some(_) => {
            let names = wanted::Names {
                pods: Pods::All,
                permission: Permission::Optional,
                ..wanted::Names::default()
            };
            let of_plan = wanted::of_plan(&config.settings, Services::All);
            wants
                .and(of_plan, Told::Plan)
                .and(names.wants(), Told::Name)
        }
        None => wants.and(
            wanted::of_plan(&config.settings, Services::Proxied),
            Told::Plan,
        ),
    };
    let mut absorb = |told| match (told, &mut objects) {
        (Told::Plan(it), _) => planner.absorb(it),
        (Told::Name(it), Some(objects)) => objects.absorb(&it, 0),
        (Told::Name(_), None) | (Told::Policy(_), _) => {}
        (Told::Notice(it), objects) => {
            if let Some(objects) = objects {
                objects.absorb(&NameEvent::Notice(it.clone()), 0);
            }
            planner.absorb(Event::Notice(it));
        }
    };
    let read = read(&config.source, wants, &mut absorb)?;
    let node_name = &config.settings.node_name;
    let node = planner.state().node(node_name).cloned();
    if let Some(found) = addresses::if_node(node.as_deref(), sluice_plane::kube_proxy::DEVICE) {
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

/// Reads the source of these flags into `objects`, for an answer that needs no plan. Prints problems to stderr.
///
/// # Errors
///
/// The flags are wrong, or the source cannot be read.
pub(crate) fn read_names(
    args: &NodeArgs,
    names: &wanted::Names,
    objects: &mut Objects,
) -> anyhow::Result<()> {
    let config = args.validate(&config::host_name())?;
    let wants = Wants::new(Told::Notice).and(names.wants(), Told::Name);
    let read = read(&config.source, wants, &mut |told| match told {
        Told::Plan(_) | Told::Policy(_) => {}
        Told::Name(it) => objects.absorb(&it, 0),
        Told::Notice(it) => objects.absorb(&NameEvent::Notice(it), 0),
    })?;
    read.problems.iter().for_each(|it| say(it));
    Ok(())
}

/// Reads all that network policies follow from the source of these flags. Prints problems to stderr.
///
/// # Errors
///
/// The flags are wrong, or the source cannot be read.
pub(crate) fn read_policies(args: &NodeArgs) -> anyhow::Result<Vec<PolicyObject>> {
    let config = args.validate(&config::host_name())?;
    let wants = Wants::new(Told::Notice).and(wanted::of_policy_objects(), Told::Policy);
    let mut objects = Vec::new();
    let read = read(&config.source, wants, &mut |told| match told {
        Told::Policy(it) => objects.extend(it),
        Told::Plan(_) | Told::Name(_) | Told::Notice(_) => {}
    })?;
    read.problems.iter().for_each(|it| say(it));
    Ok(objects)
}

/// Reads a source once: its events, and that they are complete, go to `sink`.
fn read(source: &Source, wants: Wants<Told>, sink: &mut dyn FnMut(Told)) -> anyhow::Result<Read> {
    match source::access(source) {
        Err(folder) => read_folder(folder, &wants, sink),
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
            let problems = read_api_server(&client, source, wants, sink)?;
            let client = Some(client);
            Ok(Read { problems, client })
        }
    }
}

fn read_folder(
    folder: &Path,
    wants: &Wants<Told>,
    sink: &mut dyn FnMut(Told),
) -> anyhow::Result<Read> {
    let loaded = sluice_source::load(folder, wants)?;
    let synced = Told::Notice(Notice::Synced);
    loaded.events.into_iter().chain([synced]).for_each(sink);
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
    wants: Wants<Told>,
    sink: &mut dyn FnMut(Told),
) -> anyhow::Result<Vec<String>> {
    let (sender, events) = mpsc::channel();
    let send = move |batch: Vec<Told>| {
        // The command has all that it needs.
        let _ = sender.send(batch);
    };
    let timeouts = Timeouts {
        node: NODE_PATIENCE,
        late: PATIENCE,
        ..Timeouts::default()
    };
    let hub = Hub::default();
    let _subscription = hub.subscribe(wants, send);
    let _follow = hub.follow(client, timeouts, Arc::new(|_| {}))?;
    let start = Instant::now();
    let mut problems = BTreeMap::new();
    let mut is_synced = false;
    while !is_synced {
        let has_failed = problems.values().any(|it: &Vec<String>| !it.is_empty());
        let patience = if has_failed { FAILING } else { PATIENCE };
        match events.recv_timeout(patience.saturating_sub(start.elapsed())) {
            Ok(batch) => {
                for event in batch {
                    match &event {
                        Told::Notice(Notice::Synced) => is_synced = true,
                        Told::Notice(Notice::Problems {
                            origin,
                            problems: of_it,
                        }) => {
                            problems.insert(origin.clone(), of_it.clone());
                        }
                        Told::Plan(_) | Told::Name(_) | Told::Policy(_) => {}
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
