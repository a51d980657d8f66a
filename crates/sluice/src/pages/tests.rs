//! `docs/reference/commands.md`: every command and flag, from the definition of the command line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use sluice_scenarios::golden;

use super::sections::{extra, parts};
use super::{shown, title};
use crate::cli;

/// The folder of the generated pages.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

const HEAD: &str = "\
# Commands

Every command with its flags. `sluice COMMAND --help` prints the same, `sluice man COMMAND` as a manual page. A test
compares this page with the definition of the command line (`crates/sluice/src/cli.rs`).

In place of `--cluster-cidr` you may write `--cluster_cidr`, as with all programs of Kubernetes. A flag that is given
twice counts the last time; lists grow. Started under the name `kube-proxy`, the program is `sluice proxy`.

Exit status, where a command does not say more: 0 success; 1 failure, and the last line on standard error says what
failed; 2 wrong usage, and each line names a flag.
";

#[test]
fn golden_page_of_commands() {
    let mut definition = cli::definition().disable_help_subcommand(true);
    definition.build();
    let mut page = HEAD.to_owned();
    let proxy = definition.find_subcommand("proxy").expect("the agent");
    for command in leaves(&definition) {
        describe(&mut page, command, proxy);
    }
    golden::compare(&folder(), [("commands.md".to_owned(), page)]);
}

/// The commands that do something: `sluice lab demo`, and not `sluice lab`.
fn leaves(command: &Command) -> Vec<&Command> {
    let below: Vec<&Command> = shown(command).flat_map(leaves).collect();
    if below.is_empty() {
        vec![command]
    } else {
        below
    }
}

fn describe(page: &mut String, command: &Command, proxy: &Command) {
    let about = command.get_about().map(ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = title(command).replace('-', " ");
    let about = escape(&about.unwrap_or_default());
    let written = write!(page, "\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n");
    written.expect(INFALLIBLE);
    let is_proxy = command.get_name() == proxy.get_name();
    let shown = command.get_arguments().filter(|it| !it.is_hide_set());
    let shown = shown.filter(|it| !matches!(it.get_id().as_str(), "help" | "version"));
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) =
        shown.partition(|arg| !is_proxy && proxy.get_arguments().any(|it| same(it, arg)));
    for heading in headings(&own) {
        let group = heading
            .map(|it| format!("**{it}**\n\n"))
            .unwrap_or_default();
        write!(page, "\n{group}| | |\n| --- | --- |\n").expect(INFALLIBLE);
        for arg in own.iter().filter(|it| it.get_help_heading() == heading) {
            writeln!(page, "| {} | {} |", spelling(arg), meaning(arg)).expect(INFALLIBLE);
        }
    }
    if !shared.is_empty() {
        let names: Vec<String> = shared.iter().map(|it| long(it)).collect();
        let names = names.join(", ");
        write!(page, "\nAs [sluice proxy](#sluice-proxy): {names}.").expect(INFALLIBLE);
        let hidden = command.get_arguments().any(Arg::is_hide_set);
        page.push_str(if hidden {
            " Its other flags are accepted, so that its command line can be copied.\n"
        } else {
            "\n"
        });
    }
    let exit = extra(title(command)).exit.iter();
    let exit: Vec<String> = exit
        .map(|it| parts(it))
        .map(|(code, means)| format!("{code}: {}", escape(means)))
        .collect();
    if !exit.is_empty() {
        write!(page, "\nExit status: {}\n", exit.join(" ")).expect(INFALLIBLE);
    }
    examples(page, command);
}

/// The headings of flags, each once, in the order of their first flags.
fn headings<'a>(args: &[&'a Arg]) -> Vec<Option<&'a str>> {
    let mut found = Vec::new();
    for heading in args.iter().map(|it| it.get_help_heading()) {
        if !found.contains(&heading) {
            found.push(heading);
        }
    }
    found
}

/// Whether two commands have the same flag.
fn same(one: &Arg, other: &Arg) -> bool {
    let text = |it: &Arg| it.get_help().map(ToString::to_string);
    one.get_long() == other.get_long() && text(one) == text(other)
}

fn long(arg: &Arg) -> String {
    format!("`--{}`", arg.get_long().unwrap_or_default())
}

/// `-o`, `--output FORMAT`.
fn spelling(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values = values.iter().map(|it| it.as_str()).collect::<Vec<_>>();
    let takes = arg.get_action().takes_values();
    let value = match (arg.is_positional(), takes, arg.is_require_equals_set()) {
        (true, ..) => return format!("`{}`", values.join(" ")),
        (_, false, _) => String::new(),
        (_, _, true) => format!("[={}]", values.join(" ")),
        (_, _, false) => format!(" {}", values.join(" ")),
    };
    let short = arg.get_short().map(|it| format!("`-{it}`"));
    let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
    let longs = longs.iter().map(|it| format!("`--{it}{value}`"));
    short
        .into_iter()
        .chain(longs)
        .collect::<Vec<_>>()
        .join(", ")
}

fn meaning(arg: &Arg) -> String {
    let mut text = escape(&arg.get_help().map(ToString::to_string).unwrap_or_default());
    let takes = arg.get_action().takes_values();
    for value in arg.get_possible_values().iter().filter(|_| takes) {
        let help = value
            .get_help()
            .map(|it| format!(": {}", escape(&it.to_string())));
        let (name, help) = (value.get_name(), help.unwrap_or_default());
        write!(text, "<br>`{name}`{help}").expect(INFALLIBLE);
    }
    let defaults = arg.get_default_values().iter().filter(|_| takes);
    let defaults: Vec<_> = defaults.map(|it| it.to_string_lossy()).collect();
    if !defaults.is_empty() {
        write!(text, "<br>Default: `{}`", defaults.join(",")).expect(INFALLIBLE);
    }
    text
}

/// A paragraph `Examples:` with indented lines becomes a fence, others stay paragraphs.
fn examples(page: &mut String, command: &Command) {
    let after = command.get_after_help().map(ToString::to_string);
    for paragraph in after.unwrap_or_default().split("\n\n") {
        let text = match paragraph.split_once(":\n") {
            Some((_, lines)) => {
                let lines: Vec<&str> = lines.lines().map(str::trim_start).collect();
                format!("\n```text\n{}\n```\n", lines.join("\n"))
            }
            None if paragraph.is_empty() => continue,
            None => format!("\n{}\n", escape(paragraph)),
        };
        page.push_str(&text);
    }
}

/// Markdown that shows this text, which may have `code`.
pub(crate) fn escape(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(position, part)| {
        match position % 2 {
            // Inside backticks only a table's separator has a meaning.
            1 => part.replace('|', "\\|"),
            _ => part
                .replace('*', "\\*")
                .replace('|', "\\|")
                .replace('[', "\\[")
                .replace('<', "&lt;"),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

const INFALLIBLE: &str = "writing to a string cannot fail";
