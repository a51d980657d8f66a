//! `sluice policy wait`: returns when a policy is in force.

#[cfg(feature = "lab")]
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::Serialize;
use sluice_node::chain;
use sluice_node::client::{self, ClientError};
use sluice_policy_agent::PolicyState;

use crate::cli::{Output, WaitArgs};
use crate::output::{exit_code, format, print};

/// Between two questions to an agent.
const PERIOD: Duration = Duration::from_millis(50);

/// An agent, and what it said last.
#[derive(Serialize)]
struct Agent {
    /// The name of its node in a lab, else the path of its socket.
    agent: String,
    #[serde(skip)]
    socket: PathBuf,
    #[serde(flatten)]
    state: PolicyState,
}

/// Waits for all agents together; exit code 1 when one of them has not the policy in force in time.
pub(crate) fn run(args: &WaitArgs) -> anyhow::Result<ExitCode> {
    let end = Instant::now() + args.timeout;
    let mut agents = agents(args)?;
    for agent in &mut agents {
        while !agent.ask(args)? && Instant::now() < end {
            #[expect(clippy::disallowed_methods, reason = "a period")]
            thread::sleep(PERIOD);
        }
    }
    let late: Vec<String> = agents.iter().filter_map(Agent::lateness).collect();
    let policy = policy(args);
    if args.output == Output::Text && !late.is_empty() {
        let (after, late) = (args.timeout, late.join("; "));
        bail!("{policy} is not in force after {after:?}: {late}");
    }
    print(format(args.output, &*agents, |it| {
        it.iter().map(|it| it.line(&policy)).collect()
    })?)?;
    Ok(exit_code(late.is_empty()))
}

/// The policy as messages name it.
fn policy(args: &WaitArgs) -> String {
    let WaitArgs {
        name, namespace, ..
    } = args;
    if args.cluster {
        format!("ClusterNetworkPolicy {name}")
    } else {
        format!("NetworkPolicy {namespace}/{name}")
    }
}

/// The agents that are asked, before the first question.
fn agents(args: &WaitArgs) -> anyhow::Result<Vec<Agent>> {
    #[cfg(feature = "lab")]
    if let Some(lab) = &args.lab {
        let usual = || env::var("SLUICE_LAB").unwrap_or_else(|_| "lab".to_owned());
        let lab = Some(lab.clone()).filter(|it| !it.is_empty());
        let sockets = sluice_lab_commands::agent_sockets(&lab.unwrap_or_else(usual))?;
        return Ok(sockets.into_iter().map(Agent::at).collect());
    }
    let named = |it: &PathBuf| Agent::at((it.display().to_string(), it.clone()));
    Ok(args.socket.iter().map(named).collect())
}

impl Agent {
    fn at((agent, socket): (String, PathBuf)) -> Self {
        Self {
            agent,
            socket,
            state: unknown("it was not asked".to_owned()),
        }
    }

    /// Whether the policy is in force here. An agent that does not answer may be starting.
    ///
    /// # Errors
    ///
    /// The agent enforces no policies.
    fn ask(&mut self, args: &WaitArgs) -> anyhow::Result<bool> {
        let namespace = if args.cluster { "" } else { &args.namespace };
        let query = [("namespace", namespace), ("name", &args.name)];
        self.state = match client::ask(&self.socket, "/policy/state", &query) {
            Ok(state) => of_version(state, args.resource_version.as_deref()),
            Err(error @ ClientError::Unclear(_)) => bail!("{}: {error}", self.agent),
            Err(error) => unknown(chain(&error)),
        };
        Ok(self.state.in_force)
    }

    fn lateness(&self) -> Option<String> {
        let Self { agent, state, .. } = self;
        (!state.in_force).then(|| format!("{agent}: {}", state.why))
    }

    fn line(&self, policy: &str) -> String {
        let Self { agent, state, .. } = self;
        let addresses = state.addresses;
        format!("{policy} is in force for {addresses} pod addresses of {agent}\n")
    }
}

/// What is known without an answer.
fn unknown(why: String) -> PolicyState {
    PolicyState {
        in_force: false,
        version: None,
        addresses: 0,
        why,
    }
}

/// A policy of an earlier version than the wanted one is not the policy that is waited for.
fn of_version(state: PolicyState, wanted: Option<&str>) -> PolicyState {
    let Some(wanted) = wanted.filter(|_| state.version.is_some() || state.in_force) else {
        return state;
    };
    let known = state.version.as_deref().unwrap_or("without a version");
    if is_as_late(known, wanted) {
        return state;
    }
    PolicyState {
        in_force: false,
        why: format!("the agent knows resourceVersion {known}, and {wanted} is awaited"),
        ..state
    }
}

/// Whether a version is the wanted one or a later one. Versions of one resource are compared as whole numbers
/// (Kubernetes, KEP-5504), and others only for being the same.
fn is_as_late(known: &str, wanted: &str) -> bool {
    match (known.parse::<u128>(), wanted.parse::<u128>()) {
        (Ok(known), Ok(wanted)) => known >= wanted,
        _ => known == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (known, wanted, expected) in [
            ("9", "10", false),
            ("10", "9", true),
            ("10", "10", true),
            ("a", "a", true),
            ("b", "a", false),
            ("without a version", "1", false),
        ] {
            assert_eq!(is_as_late(known, wanted), expected, "{known} {wanted}");
        }
    }
}
