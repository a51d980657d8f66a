//! Completion scripts and manual pages, made from the definition of the command line.

mod sections;
#[cfg(test)]
pub(crate) mod tests;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{self, ManArgs};
use crate::output::print_raw;
use sluice_config::Invalid;

/// The section of administration programs.
const SECTION: &str = "8";

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::definition(), "sluice", &mut script);
    print_raw(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of the program or of one command, or writes every page into a folder.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut definition = cli::definition().disable_help_subcommand(true);
    definition.build();
    if let Some(folder) = &args.dir {
        write(&definition, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &definition;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = shown(command).map(Command::get_name).collect();
            let program = command.get_bin_name().unwrap_or("sluice");
            Invalid {
                problems: vec![match &*names.join(", ") {
                    "" => format!("`{program}` has no command {name:?}"),
                    names => format!("`{program}` has no command {name:?}: it has {names}"),
                }],
                exit_code: 2,
            }
        })?;
    }
    print_raw(&page(command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(format!("{}.{SECTION}", title(command)));
    let text = page(command)?;
    fs::write(&path, text).with_context(|| format!("write manual page {}", path.display()))?;
    shown(command).try_for_each(|it| write(it, folder))
}

/// The subcommands for people: the others are processes that Sluice starts by itself.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|it| !it.is_hide_set())
}

/// The page of a command, which must be built.
fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    // mangen names every flag in the synopsis: the agent has ninety.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage))
        .title(title(command))
        .section(SECTION)
        .source(concat!("sluice ", env!("CARGO_PKG_VERSION")))
        .manual("Sluice");
    let mut page = Vec::new();
    let render = |page: &mut Vec<u8>| {
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        if command.has_subcommands() {
            man.render_subcommands_section(page)?;
        }
        sections::of(command).to_writer(page)
    };
    render(&mut page).context("render the manual page")?;
    Ok(page)
}

/// The name of a command's page: `sluice-proxy`.
fn title(command: &Command) -> &str {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name())
}
