//! `sluice policy diff`: what policies would change.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde::Serialize;
use sluice_model::{Change, NamespacedName};
use sluice_policy_agent::{End, forbidden};
use sluice_policy_plan::diff::{PairChange, diff};
use sluice_policy_plan::lookup::Packet;
use sluice_policy_plan::{ClusterNetworkPolicy, Event, Mode, NetworkPolicy, Planner};

use super::texts;
use crate::cli::DiffArgs;
use crate::output::{format, print};
use crate::{planned, wanted};

#[derive(Serialize)]
struct Difference {
    changes: Vec<Shown>,
    /// `None` unless they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Vec<Connection>>,
}

/// What changes between some pods, all as text.
#[derive(Serialize)]
struct Shown {
    from: Vec<String>,
    to: Vec<String>,
    closed: Vec<String>,
    opened: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

/// A connection that would not be allowed to begin.
#[derive(Serialize)]
struct Connection {
    from: String,
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<String>,
}

/// Compares the cluster as it is with the cluster as it would be.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let mut new = Vec::new();
    for file in &args.files {
        new.extend(policies_of(file)?);
    }
    if args.enforce {
        new = new.into_iter().map(enforced).collect();
    }
    let [mut before, mut after] = [(); 2].map(|()| Planner::of_cluster());
    for object in planned::read_policies(&args.node)? {
        before.absorb(&object);
        after.absorb(&object);
    }
    for policy in &args.delete {
        after.absorb(&deletion(&before, policy)?);
    }
    new.iter().for_each(|it| after.absorb(it));
    let connections = || forbidden(before.plan(), after.plan());
    let connections = args.connections.then(connections).transpose()?;
    let connections = connections.map(|all| {
        let all = all.iter().map(|it| Connection::of(&before, it));
        all.collect()
    });
    let difference = Difference {
        changes: diff(&before, &after).into_iter().map(Shown::of).collect(),
        connections,
    };
    print(format(args.output, &difference, ToString::to_string)?)?;
    Ok(ExitCode::SUCCESS)
}

/// # Errors
///
/// The file cannot be read, something in it is not understood, or it has no policy.
fn policies_of(file: &Path) -> anyhow::Result<Vec<Event>> {
    let name = file.display();
    let bytes = fs::read(file).with_context(|| format!("read {name}"))?;
    let loaded = sluice_source::parse(&name.to_string(), &bytes, &wanted::policies());
    if !loaded.problems.is_empty() {
        let problems = loaded.problems.iter().map(ToString::to_string);
        bail!("{}", problems.collect::<Vec<_>>().join("; "));
    }
    let policies: Vec<Event> = loaded.events.into_iter().flatten().collect();
    if policies.is_empty() {
        bail!("{name} has no NetworkPolicy and no ClusterNetworkPolicy");
    }
    Ok(policies)
}

/// The policy without its audit mode.
fn enforced(event: Event) -> Event {
    match event {
        Event::NetworkPolicy(Change::Set(policy)) => {
            let policy = NetworkPolicy {
                mode: Mode::Enforce,
                ..(*policy).clone()
            };
            Event::NetworkPolicy(Change::Set(Arc::new(policy)))
        }
        Event::ClusterNetworkPolicy(Change::Set(policy)) => {
            let policy = ClusterNetworkPolicy {
                mode: Mode::Enforce,
                ..(*policy).clone()
            };
            Event::ClusterNetworkPolicy(Change::Set(Arc::new(policy)))
        }
        other => other,
    }
}

/// # Errors
///
/// There is no such policy.
fn deletion(planner: &Planner, policy: &str) -> anyhow::Result<Event> {
    if let Some((namespace, name)) = policy.split_once('/') {
        let name = NamespacedName::new(namespace, name);
        if planner.policy(&name).is_none() {
            bail!("--delete {policy}: there is no such NetworkPolicy");
        }
        return Ok(Event::NetworkPolicy(Change::Delete(name)));
    }
    if planner.cluster_policy(policy).is_none() {
        bail!(
            "--delete {policy}: there is no such ClusterNetworkPolicy; a NetworkPolicy is named as NAMESPACE/NAME"
        );
    }
    let name = NamespacedName::new("", policy);
    Ok(Event::ClusterNetworkPolicy(Change::Delete(name)))
}

impl Shown {
    fn of(change: PairChange) -> Self {
        Self {
            from: texts(&change.from),
            to: texts(&change.to),
            closed: texts(&change.closed),
            opened: texts(&change.opened),
            why: change.why,
        }
    }
}

impl Connection {
    fn of(planner: &Planner, packet: &Packet) -> Self {
        let end = |address| End::of(planner, address).to_string();
        Self {
            from: end(packet.source),
            to: end(packet.destination),
            port: packet
                .port
                .map(|(protocol, port)| format!("{protocol}/{port}")),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            writeln!(f, "no pod reaches more or fewer pods")?;
        }
        for change in &self.changes {
            let Shown {
                from,
                to,
                closed,
                opened,
                why,
            } = change;
            writeln!(f, "{} to {}", from.join(", "), to.join(", "))?;
            if !closed.is_empty() {
                writeln!(f, "  - {}", closed.join(", "))?;
                writeln!(f, "    {why}")?;
            }
            if !opened.is_empty() {
                writeln!(f, "  + {}", opened.join(", "))?;
            }
        }
        let Some(connections) = &self.connections else {
            return Ok(());
        };
        let count = connections.len();
        writeln!(f, "\n{count} connections could not begin again")?;
        for Connection { from, to, port } in connections {
            let port = port.iter().map(|it| format!(" {it}")).collect::<String>();
            writeln!(f, "  {from} to {to}{port}")?;
        }
        Ok(())
    }
}
