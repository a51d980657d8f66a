//! `sluice lab experiment`: pages of the book that run.
//!
//! A page is Markdown. Its first line names the lab: `<!-- lab: --proxy-mode iptables -->`. A fence `yaml` is applied;
//! the commands of a fence `console` run, and the lines below a command are what its output must have, in this order,
//! with `…` for anything. What is shown is the real output.

mod page;
mod race;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use sluice_config::Invalid;

use super::Host;
use crate::args::ExperimentArgs;
use page::Page;
pub(super) use race::lap::run as lap;

/// The experiment that measures; it is no page of commands.
const RACE: &str = "race";

/// Name and page of every experiment.
macro_rules! experiments {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../docs/experiments/", $name, ".md")))),*]
    };
}

static EXPERIMENTS: &[(&str, &str)] = experiments! {
    "conntrack-full"
    "ebpf-maps"
    "ipvs-table"
    "iptables-chains"
    "nftables-maps"
    "nodeport-hops"
    "external-policy"
    "dsr"
    "session-affinity"
    "headless"
    "rolling-update"
    "node-dies"
    "stale-udp"
    "hairpin"
};

/// Lists the experiments, or runs one.
pub(super) fn run(args: &ExperimentArgs, host: Host) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.experiment else {
        let pages = EXPERIMENTS.iter().map(|(name, text)| {
            let page = Page::read(text)?;
            Ok([(*name).to_owned(), page.title])
        });
        let mut pages = pages.collect::<anyhow::Result<Vec<_>>>()?;
        pages.push([RACE, race::title()].map(str::to_owned));
        super::show::columns(&pages);
        return Ok(ExitCode::SUCCESS);
    };
    if name == RACE {
        race::run(&args.race, host)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.race.is_given() {
        let why = format!("--sizes, --modes and --svg: are for the experiment {RACE}");
        Invalid::check(vec![why])?;
    }
    let found = EXPERIMENTS.iter().find(|(it, _)| it == name);
    let (_, text) = found.with_context(|| {
        let names = EXPERIMENTS.iter().map(|(it, _)| *it);
        let names: Vec<_> = names.chain([RACE]).collect();
        format!("no experiment {name}; there are {}", names.join(", "))
    })?;
    let program: PathBuf = std::env::current_exe().context("find the path of this program")?;
    run::run(name, &Page::read(text)?, args, &program)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_can_be_read() {
        for (name, text) in EXPERIMENTS {
            let page = Page::read(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert!(!page.title.is_empty(), "{name}");
            assert!(page.checks() >= 2, "{name} proves nothing");
        }
    }
}
