//! `sluice lab experiment`: pages of the book that run.
//!
//! A page is Markdown. Its first line names the lab: `<!-- lab: --proxy-mode iptables -->`. A fence `yaml` is applied;
//! the commands of a fence `console` run, and the lines below a command are what its output must have, in this order,
//! with `…` for anything. What is shown is the real output.

mod elsewhere;
mod page;
mod race;
mod run;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use nix::unistd::getuid;
use sluice_cluster::images::StandIns;
use sluice_cluster::lab_dir::{Settings, both_families, nobody};
use sluice_config::Invalid;

use super::{Host, check_mode};
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
    "statefulset-dns"
    "external-name"
    "outside"
    "endpoints-300"
    "rolling-update"
    "node-dies"
    "stale-udp"
    "hairpin"
    "network-policy"
    "cluster-network-policy"
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
    let page = Page::read(text)?;
    if let Err(why) = page.mode().map_or(Ok(()), |it| can_run(it, host))
        && elsewhere::run(name, &program, &why)?
    {
        return Ok(ExitCode::SUCCESS);
    }
    run::run(name, &page, args, &program)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether nodes of a lab of this user can have a data plane; the error says why not.
fn can_run(mode: &str, host: Host) -> Result<(), String> {
    let lab = Settings {
        mode: mode.to_owned(),
        network: "host-gw".to_owned(),
        ip_families: both_families(),
        unprivileged: !getuid().is_root(),
        port: 0,
        agent: "lab".to_owned(),
        dns_upstream: nobody(),
        images: StandIns::default(),
    };
    check_mode(mode, &lab, host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::{Step, missing};

    #[test]
    fn recorded_runs_are_of_these_pages() {
        for (name, recorded) in elsewhere::RECORDED {
            let (_, text) = EXPERIMENTS.iter().find(|(it, _)| *it == name).unwrap();
            let mut rest = recorded;
            for step in Page::read(text).unwrap().steps {
                let (begin, expected) = match step {
                    Step::Text(it) | Step::Manifests(it) => (it.trim_end().to_owned(), Vec::new()),
                    Step::Command { line, expected, .. } => (format!("$ {line}\n"), expected),
                };
                let found = rest.split_once(begin.as_str());
                (_, rest) = found.unwrap_or_else(|| panic!("{name} was recorded without {begin}"));
                let output = rest.split("\n$ ").next().unwrap();
                assert_eq!(missing(&expected, output), None, "{name}: {begin}");
            }
        }
    }

    #[test]
    fn every_page_can_be_read() {
        for (name, text) in EXPERIMENTS {
            let page = Page::read(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert!(!page.title.is_empty(), "{name}");
            assert!(page.checks() >= 2, "{name} proves nothing");
        }
    }
}
