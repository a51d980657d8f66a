//! `sluice render`: the rules of a node as text.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sluice_model::Event;
use sluice_plan::Planner;

use crate::cli::{NodeArgs, Output, RenderArgs};
use crate::config::{self, NodeConfig, Source};
use crate::error::{Invalid, say};
use crate::planes;

/// Prints rules to stdout and problems to stderr.
pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let Planned {
        planner,
        config,
        problems,
    } = plan(&args.node)?;
    let plane = planes::of(config.effective.mode)?;
    let options = config.options(args.node.count_connections);
    let out = match args.output {
        Output::Text => (plane.text)(planner.plan(), &options),
        Output::Json => {
            serde_json::to_string_pretty(&(plane.objects)(planner.plan(), &options))? + "\n"
        }
    };
    print(&out)?;
    match args.strict && problems > 0 {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// A plan of a folder of manifests.
pub(crate) struct Planned {
    pub(crate) planner: Planner,
    pub(crate) config: NodeConfig,
    /// Number of problems of the manifests and the plan.
    pub(crate) problems: usize,
}

/// Plans a folder of manifests as the agent would. Prints warnings and problems to stderr.
pub(crate) fn plan(args: &NodeArgs) -> anyhow::Result<Planned> {
    let config = args.validate(&config::host_name())?;
    config.warnings.iter().for_each(|it| say(it));
    let Source::Folder(manifests) = &config.source else {
        let problem = "--manifests: is required: a folder of Services and EndpointSlices";
        return Err(anyhow::Error::new(Invalid {
            problems: vec![problem.to_owned()],
            exit_code: 2,
        }));
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
    let problems: Vec<String> = of_manifests.chain(of_plan).collect();
    problems.iter().for_each(|it| say(it));
    Ok(Planned {
        planner,
        config,
        problems: problems.len(),
    })
}

/// Writes to stdout. A reader that closes the pipe (`sluice man | head`) is no error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to stdout"),
    }
}
