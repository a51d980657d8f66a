//! `sluice render`: the rules of a node as text.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sluice_model::Event;
use sluice_plan::Planner;

use crate::cli::{Output, RenderArgs};
use crate::config::{self, NodeConfig, Source};
use crate::error::{Usage, say};
use crate::planes;

/// Prints rules to stdout and problems to stderr.
pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.validate(&config::host_name())?;
    config.warnings.iter().for_each(|it| say(it));
    let plane = planes::of(config.effective.mode)?;
    let Planned {
        planner,
        config,
        problems,
    } = plan(config)?;
    problems.iter().for_each(|it| say(it));
    let options = config.options(args.node.count_connections);
    let out = match args.output {
        Output::Text => (plane.text)(planner.plan(), &options),
        Output::Json => {
            serde_json::to_string_pretty(&(plane.objects)(planner.plan(), &options))? + "\n"
        }
    };
    print(&out)?;
    match args.strict && !problems.is_empty() {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// A plan and what was wrong on the way to it.
pub(crate) struct Planned {
    pub(crate) planner: Planner,
    /// What it was planned with.
    pub(crate) config: NodeConfig,
    /// One line each: first the manifests', then the plan's.
    pub(crate) problems: Vec<String>,
}

/// The plan of a folder of manifests, as the agent would make it.
pub(crate) fn plan(config: NodeConfig) -> anyhow::Result<Planned> {
    let Source::Folder(manifests) = &config.source else {
        let problem = "--manifests: is required: a folder of Services and EndpointSlices";
        return Err(Usage(vec![problem.to_owned()]).into());
    };
    let loaded = sluice_source::load(manifests)?;
    let mut planner = Planner::new(config.settings.clone());
    for object in loaded.objects {
        planner.absorb(Event::Set(object));
    }
    planner.absorb(Event::Synced);
    planner.replan();
    let of_manifests = loaded.problems.iter().map(ToString::to_string);
    let of_plan = planner.issues().map(|it| it.to_string());
    let problems = of_manifests.chain(of_plan).collect();
    Ok(Planned {
        planner,
        config,
        problems,
    })
}

/// Writes to stdout. Whoever reads may have read enough.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to stdout"),
    }
}
