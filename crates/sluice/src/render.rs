//! `sluice render`: the rules of a node as text.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::{Output, RenderArgs};
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
        Output::Json => {
            serde_json::to_string_pretty(&(plane.objects)(planner.plan(), &options))? + "\n"
        }
    };
    print(&out)?;
    if args.strict && problems > 0 {
        Ok(ExitCode::FAILURE)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes to stdout. A reader that closes the pipe (`sluice man | head`) is no error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to stdout"),
    }
}
