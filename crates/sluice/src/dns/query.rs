//! `sluice dns query`: what a name is, and why.

use std::process::ExitCode;

use sluice_zone::Resolution;

use super::source;
use crate::cli::QueryArgs;
use crate::output::{exit_code, format, print};
use crate::resolution::{Asked, text};
use crate::view::View;

/// Prints the answer. Exit code 1 when there is none.
pub(super) fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    let asked = Asked::of(&args.name, &args.kind, args.from.as_deref())?;
    let found: Resolution = if args.node.names_source() {
        let zone = args.node.dns.zone().map_err(anyhow::Error::msg)?;
        asked.in_objects(&source::read_once(&args.node)?, &zone)?
    } else {
        let agent = View::Agent(args.socket.clone());
        agent.resolve(&args.name, &args.kind, args.from.as_deref())?
    };
    print(format(args.output, &found, text)?)?;
    Ok(exit_code(found.is_found()))
}
