//! `sluice explain`: what happens to a packet.

use std::process::ExitCode;

use crate::cli::{ExplainArgs, Output};
use crate::render::print;
use crate::view::View;

/// Prints the explanation to stdout and problems of the manifests to stderr.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let view = View::of(&args.node, &args.socket)?;
    let explanation = view.explain(&args.from, &args.to, args.interface.as_deref())?;
    print(&match args.output {
        Output::Text => format!("{}\n", explanation.to_string().trim_end()),
        Output::Json => serde_json::to_string_pretty(&explanation)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}
