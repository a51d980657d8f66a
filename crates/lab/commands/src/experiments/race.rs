//! The race: what each data plane costs, with few Services and with many.
//!
//! ```text
//! sluice lab experiment race ─▶ for each mode and size: sluice lab alone ─▶ sluice lab lap: one measurement
//!                            ◀── what it found, as JSON ──────────────────┘
//! ```
//!
//! Each lap has namespaces of its own, which end with it: it leaves nothing for the next one.

pub(super) mod lap;
mod manifests;
mod process;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use sluice_config::Mode;
use sluice_node::chain;
use sluice_picture::chart::{self, Chart, Group};

use super::super::{Host, Progress};
use super::{can_run, text};
use crate::args::RaceArgs;
use crate::output::say;
use lap::Lap;

/// The page of the book.
const PAGE: &str = include_str!("../../../../../docs/experiments/race.md");

/// Numbers of Services when none are given.
const SIZES: [u32; 3] = [10, 1_000, 10_000];

/// Title of a quantity, and its value in a lap.
type Quantity = (&'static str, fn(&Lap) -> f64);

const QUANTITIES: [Quantity; 6] = [
    ("First packet of a flow and its answer, µs", |it| {
        it.first_packet_us
    }),
    ("connect() over TCP, µs", |it| it.connect_us),
    ("A changed endpoint to the first answer of it, ms", |it| {
        it.update_ms
    }),
    ("CPU time of that change, ms", |it| it.update_cpu_ms),
    ("CPU time of the start, s", |it| it.start_cpu_s),
    ("Largest memory of the agent, MiB", |it| it.memory_mib),
];

/// The laps of each mode, by size; `None` where a lap failed.
type Results = Vec<(Mode, Vec<Option<Lap>>)>;

pub(super) fn run(args: &RaceArgs, host: Host) -> anyhow::Result<()> {
    say!("{}\n", text::wrapped(introduction(), text::width()));
    let program = std::env::current_exe().context("find the path of this program")?;
    let mut sizes = args.sizes.clone();
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let progress = Progress::new();
    let mut results = Results::new();
    let mut failed = 0;
    for mode in modes(args, host)? {
        let mut laps = Vec::new();
        for size in &sizes {
            progress.say(&format!("{}, {size} Services", mode.name()));
            let lap = drive(&program, mode, *size);
            progress.clear();
            let lap = lap.inspect_err(|why| {
                let why = chain(why.as_ref());
                say!("{} with {size} Services: {why}", mode.name());
                failed += 1;
            });
            laps.push(lap.ok());
        }
        results.push((mode, laps));
    }
    let charts = charts(&sizes, &results);
    for chart in &charts {
        say!("{chart}");
    }
    say!("Bars are logarithmic: twice as long is not twice as much. The numbers are medians.");
    if let Some(path) = &args.svg {
        let drawing = chart::drawing("The race of the data planes", &charts);
        let written = std::fs::write(path, drawing.to_string());
        written.with_context(|| path.display().to_string())?;
        say!("The same as a picture: {}", path.display());
    }
    if failed > 0 {
        bail!("{failed} measurements failed");
    }
    Ok(())
}

/// The first heading of the page.
pub(super) fn title() -> &'static str {
    introduction().lines().next().unwrap_or_default()
}

/// The text of the page before its first picture.
fn introduction() -> &'static str {
    let text = PAGE.trim_start_matches("# ");
    text.split_once("\n```").map_or(text, |(it, _)| it).trim()
}

/// The modes that this machine can run. The others are named with the reason.
fn modes(args: &RaceArgs, host: Host) -> anyhow::Result<Vec<Mode>> {
    let wanted = Mode::ALL
        .into_iter()
        .filter(|mode| args.modes.is_empty() || args.modes.iter().any(|it| it == mode.name()));
    let (mut modes, mut left_out) = (Vec::new(), Vec::new());
    for mode in wanted {
        match can_run(mode.name(), host) {
            Ok(()) => modes.push(mode),
            Err(why) => left_out.push(format!("not measured: {}: {why}", mode.name())),
        }
    }
    left_out.iter().for_each(|it| say!("{it}"));
    if modes.is_empty() {
        bail!("this machine can run none of these modes");
    }
    Ok(modes)
}

/// One measurement, in namespaces of its own.
fn drive(program: &Path, mode: Mode, services: u32) -> anyhow::Result<Lap> {
    let mut command = Command::new(program);
    command.args([
        "lab",
        "alone",
        "--",
        "lap",
        mode.name(),
        &services.to_string(),
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start a measurement")?;
    // The other processes end when this pipe is closed: with this process.
    let alive = child.stdin.take();
    let output = child.wait_with_output().context("wait for a measurement")?;
    drop(alive);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        match said.trim() {
            "" => bail!("{}", output.status),
            said => bail!("{}", said.trim_start_matches("sluice: ")),
        }
    }
    serde_json::from_slice(&output.stdout).context("what a measurement found")
}

fn charts(sizes: &[u32], results: &Results) -> Vec<Chart> {
    let group = |at: usize, size: u32, of: fn(&Lap) -> f64| Group {
        name: format!("{size} Services"),
        bars: results
            .iter()
            .map(|(mode, laps)| (mode.name().to_owned(), laps[at].as_ref().map(of)))
            .collect(),
    };
    let chart = |(title, of): Quantity| Chart {
        title: title.to_owned(),
        groups: (0..)
            .zip(sizes)
            .map(|(at, size)| group(at, *size, of))
            .collect(),
    };
    QUANTITIES.into_iter().map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_begins_with_what_is_measured() {
        let text = introduction();
        assert!(text.starts_with("The race"), "{text}");
        assert!(!text.contains("```") && text.contains("median"), "{text}");
    }

    #[test]
    fn a_lap_that_failed_leaves_a_gap() {
        let lap = Lap {
            first_packet_us: 80.0,
            connect_us: 60.0,
            update_ms: 2.0,
            update_cpu_ms: 1.0,
            start_cpu_s: 0.1,
            memory_mib: 12.0,
        };
        let results = vec![(Mode::Iptables, vec![Some(lap), None])];
        let charts = charts(&[10, 1000], &results);
        assert_eq!(charts.len(), QUANTITIES.len());
        assert_eq!(charts[0].groups[0].bars[0].1, Some(80.0));
        assert_eq!(charts[0].groups[1].bars[0].1, None);
    }
}
