//! `sluice status`: shows the status of the running agent.

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

/// Between two requests with `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the status once, or until interrupted.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if !args.watch {
        print(&fetch(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let clear = match args.output {
            Output::Text => CLEAR,
            Output::Json => "",
        };
        print(format!("{clear}{}", fetch(args)?))?;
        thread::sleep(WATCH_PERIOD);
    }
}

/// Requests the status or the connections, and formats the answer.
fn fetch(args: &StatusArgs) -> anyhow::Result<String> {
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

/// JSON is one line with `--watch`, else indented.
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

/// Lines of columns, two spaces apart. The first `numbers` columns are aligned to the right. A row
/// may have fewer columns than the first.
fn columns(rows: &[Vec<String>], numbers: usize) -> String {
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column < numbers {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
