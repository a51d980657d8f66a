//! `sluice render`: the rules of a node as text.

use std::process::ExitCode;

use crate::cli::{Output, RenderArgs};
use crate::output::{exit_code, format, print};
use crate::planes;
use crate::planned::{Planned, plan};

/// Prints rules to stdout and problems to stderr.
pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let Planned {
        planner,
        config,
        problems,
        ..
    } = plan(&args.node)?;
    let plane = planes::of(config.effective.mode)?;
    let options = config.options(args.node.count_connections);
    let out = match args.output {
        Output::Text => (plane.text)(planner.plan(), &options),
        Output::Json => format(
            args.output,
            &(plane.objects)(planner.plan(), &options),
            |_| String::new(),
        )?,
    };
    print(&out)?;
    Ok(exit_code(!args.strict || problems == 0))
}
