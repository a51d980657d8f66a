//! `sluice status`: asks the running agent.

mod connections;
mod table;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use sluice_node::status::Status;
use sluice_node::{ServiceConnections, client};

use crate::cli::{Output, StatusArgs};
use crate::render::print;

/// Between two looks with `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the status once, or until interrupted.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if !args.watch {
        print(&look(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let clear = match args.output {
            Output::Text => CLEAR,
            Output::Json => "",
        };
        print(&format!("{clear}{}", look(args)?))?;
        thread::sleep(WATCH_PERIOD);
    }
}

/// What was asked for, as it is now.
fn look(args: &StatusArgs) -> anyhow::Result<String> {
    match args.connections {
        true => {
            let all: Vec<ServiceConnections> = client::get(&args.socket, "/connections")?;
            show(args, &*all, connections::of)
        }
        false => {
            let status: Status = client::get(&args.socket, "/status")?;
            show(args, &status, table::of)
        }
    }
}

/// For scripts one line with `--watch`, else one that people can read, too.
fn show<T: Serialize + ?Sized>(
    args: &StatusArgs,
    answer: &T,
    table: fn(&T) -> String,
) -> anyhow::Result<String> {
    Ok(match (args.output, args.watch) {
        (Output::Text, _) => table(answer),
        (Output::Json, true) => serde_json::to_string(answer)? + "\n",
        (Output::Json, false) => serde_json::to_string_pretty(answer)? + "\n",
    })
}
