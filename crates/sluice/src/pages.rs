//! Documentation made of the command line's definition.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli;

/// A completion script on stdout.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::definition(), "sluice", &mut script);
    print(&script)
}

/// The manual page on stdout: the program, then each command.
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    let mut definition = cli::definition();
    definition.build();
    let mut page = Vec::new();
    let man = Man::new(definition.clone()).section("8");
    man.render(&mut page).context("render the manual page")?;
    for command in definition
        .get_subcommands()
        .filter(|it| it.get_name() != "help")
    {
        let man = Man::new(command.clone()).section("8");
        let name = command.get_name().to_uppercase();
        writeln!(page, ".SH \"SLUICE {name}\"")?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    print(&page)
}

fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        // Whoever reads has read enough: `sluice man | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        result => result.context("write").map(|()| ExitCode::SUCCESS),
    }
}
