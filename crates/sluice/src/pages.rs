//! Completion scripts and the manual page, made from the definition of the command line.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli;
use crate::render::print;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::definition(), "sluice", &mut script);
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page: the program, then each command.
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
    print(page)?;
    Ok(ExitCode::SUCCESS)
}
