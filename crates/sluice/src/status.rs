//! `sluice status`: shows the status of the running agent.

mod connections;
mod services;
mod table;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sluice_agent::ServiceConnections;
use sluice_agent::status::Status;
use sluice_dns_agent::DnsStatus;
use sluice_node::client::{self, ClientError};
use sluice_plan::inventory::{ServiceDetail, ServiceSummary};
use sluice_policy_agent::PolicyStatus;

use crate::cli::{Output, StatusArgs};
use crate::output::{format, print, print_raw};

#[cfg(feature = "top")]
pub(crate) use services::conditions;
#[cfg(feature = "top")]
pub(crate) use table::{last_sync, state, uptime};

/// Between two requests with `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// Between two requests with `--wait`.
const WAIT_PERIOD: Duration = Duration::from_millis(50);
/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Everything that an agent says about itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Whole {
    /// The agent and its Service proxy.
    #[serde(flatten)]
    pub(crate) status: Status,
    /// The DNS server inside the agent; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dns: Option<DnsStatus>,
    /// Network policies; `None` where they are not enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network_policy: Option<PolicyStatus>,
}

/// Shows the status once, or until interrupted.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if let Some(time) = args.wait {
        wait(&args.socket, time)?;
    }
    if !args.watch {
        print(&fetch(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let text = fetch(args)?;
        if args.output == Output::Text {
            print_raw(CLEAR.as_bytes())?;
        }
        print(text)?;
        #[expect(clippy::disallowed_methods, reason = "a period")]
        thread::sleep(WATCH_PERIOD);
    }
}

/// Returns when the kernel holds the agent's plan; after `time`, why it does not.
fn wait(socket: &Path, time: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + time;
    loop {
        let why = match client::get::<Whole>(socket, "/status") {
            Ok(whole) if whole.status.synced => return Ok(()),
            Ok(whole) => anyhow::anyhow!("the rules are {}", table::state(&whole.status)),
            Err(error) => error.into(),
        };
        if Instant::now() >= end {
            return Err(why.context(format!("after {time:?}")));
        }
        #[expect(clippy::disallowed_methods, reason = "a period")]
        thread::sleep(WAIT_PERIOD);
    }
}

/// Asks the agent, and formats the answer.
fn fetch(args: &StatusArgs) -> anyhow::Result<String> {
    if let Some(pattern) = &args.services {
        let all: Vec<ServiceSummary> =
            client::ask(&args.socket, "/services", &[("pattern", pattern)])?;
        let connections = connections(args)?;
        return show(args, &*all, |all| match all {
            [] if !pattern.is_empty() => format!(
                "no Service fits {pattern:?}: a pattern is a part of NAMESPACE/NAME; with * for any text it is the whole of \
                 NAME or NAMESPACE/NAME\n"
            ),
            _ => services::table(all, connections.as_deref()),
        });
    }
    if let Some(name) = &args.service {
        let detail: ServiceDetail = client::ask(&args.socket, "/service", &[("name", name)])?;
        let connections = connections(args)?;
        return show(args, &detail, |it| {
            services::detail(it, connections.as_deref())
        });
    }
    if args.connections {
        let all: Vec<ServiceConnections> = client::get(&args.socket, "/connections")?;
        show(args, &*all, connections::of)
    } else {
        let whole: Whole = client::get(&args.socket, "/status")?;
        show(args, &whole, table::of)
    }
}

/// The connections of Services; `None` where the agent does not count them.
fn connections(args: &StatusArgs) -> anyhow::Result<Option<Vec<ServiceConnections>>> {
    match client::get(&args.socket, "/connections") {
        Ok(all) => Ok(Some(all)),
        Err(ClientError::Absent(socket)) => Err(ClientError::Absent(socket).into()),
        Err(_) => Ok(None),
    }
}

/// JSON is one line with `--watch`, else indented.
fn show<T: Serialize + ?Sized>(
    args: &StatusArgs,
    answer: &T,
    table: impl FnOnce(&T) -> String,
) -> anyhow::Result<String> {
    if args.output == Output::Json && args.watch {
        return Ok(serde_json::to_string(answer)? + "\n");
    }
    format(args.output, answer, table)
}

/// The cells of a title, between commas.
fn title(cells: &str) -> Vec<String> {
    cells.split(',').map(str::to_owned).collect()
}

/// A name and its value.
fn pair(name: &str, value: &dyn Display) -> Vec<String> {
    vec![name.to_owned(), value.to_string()]
}

/// Lines of columns, two spaces apart. The first `numbers` columns are aligned to the right. A row
/// may have fewer columns than the first.
pub(crate) fn columns(rows: &[Vec<String>], numbers: usize) -> String {
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| {
            if column < numbers {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            }
        });
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
