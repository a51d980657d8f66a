//! What the documents say of `sluice` is true: its commands parse, and outputs are what it prints.
//!
//! `xtask tidy` checks links and pictures, unit tests make the reference, and `readme.rs` runs the README.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.canonicalize().expect("the repository")
}

/// A fence of a page.
struct Fence {
    /// Path of the page, for messages.
    page: String,
    language: String,
    lines: Vec<String>,
}

/// The fences of all pages: `docs/`, and the Markdown files elsewhere that its summary lists.
fn fences() -> Vec<Fence> {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("a summary");
    let links = summary.split("](").skip(1);
    let pages = links.filter_map(|it| it.split(')').next());
    pages.flat_map(|page| fences_of(&docs, page)).collect()
}

fn fences_of(docs: &Path, page: &str) -> Vec<Fence> {
    let text = fs::read_to_string(docs.join(page)).expect(page);
    let mut found = Vec::new();
    let mut open: Option<Fence> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                open = Some(Fence {
                    page: page.to_owned(),
                    language: language.to_owned(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(fence)) => fence.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a fence does not end");
    found
}

/// The arguments of a command of `sluice` in a line, as a shell would split them; `None` when the line has
/// none, or only its usage (`sluice explain [OPTIONS] <FROM> <TO>`).
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let (before, command) = line.split_once("sluice ")?;
    let in_namespace = before.starts_with("ip netns exec ") && before.ends_with(' ');
    let is_command = before.is_empty() || in_namespace || before.ends_with(" -- ");
    let is_usage = command.contains(['<', '…']) || command.contains(" [");
    if !is_command || is_usage || command.starts_with("...") {
        return None;
    }
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in command.chars() {
        match character {
            _ if quote == Some(character) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(character),
            '|' | '>' | '&' | ';' | '#' if quote.is_none() => break,
            ' ' if quote.is_none() => words.push(String::new()),
            other => words.last_mut()?.push(other),
        }
    }
    words.retain(|it| !it.is_empty());
    Some(words)
}

/// Every flag and value is one that the command knows. What a command needs is not checked: `--help`
/// comes first.
#[test]
fn commands_of_sluice_parse() {
    let mut count = 0;
    for fence in fences() {
        // What a command printed may look like a command.
        let is_shell = fence.lines.iter().any(|it| it.starts_with("$ "));
        for line in fence
            .lines
            .iter()
            .filter(|it| !is_shell || it.starts_with("$ "))
        {
            let Some(mut args) = arguments(line) else {
                continue;
            };
            count += 1;
            // What comes after `--` is for another program.
            args.truncate(args.iter().position(|it| it == "--").unwrap_or(args.len()));
            let output = Command::new(SLUICE).args(&args).arg("--help").output();
            let output = output.expect("it was built");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {line}\n{error}", fence.page);
        }
    }
    assert!(count > 100, "{count}");
}

/// A fence `console` has commands after `$ `, each with lines that it prints, in their order; `...` stands for
/// lines that are left out.
#[test]
fn outputs_are_what_sluice_prints() {
    let mut count = 0;
    // Experiments have a lab of their own: `sluice lab experiment` runs them.
    let here = |it: &&Fence| it.language == "console" && !it.page.starts_with("experiments/");
    for fence in fences().iter().filter(here) {
        let commands = fence.lines.split(|it| it.starts_with("$ ")).skip(1);
        let names = fence.lines.iter().filter(|it| it.starts_with("$ "));
        for (name, shown) in names.zip(commands) {
            count += 1;
            let args = arguments(name).unwrap_or_else(|| panic!("{name} is no command of sluice"));
            let output = Command::new(SLUICE)
                .args(&args)
                .current_dir(repository())
                .output();
            let output = output.expect("it was built");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = said + &String::from_utf8_lossy(&output.stderr);
            let mut said = said.lines();
            for line in shown.iter().filter(|it| !it.is_empty() && *it != "...") {
                assert!(
                    said.any(|it| it.trim_end() == line),
                    "{}: {name}\nprints no further line\n{line}",
                    fence.page
                );
            }
        }
    }
    assert!(count > 15, "{count}");
}

#[test]
fn every_alert_is_documented() {
    let read = |path| fs::read_to_string(repository().join(path)).expect(path);
    let rules = read("deploy/prometheus/rules.yaml");
    let names = rules.lines().filter_map(|it| it.split_once("- alert: "));
    let mut names: Vec<&str> = names.map(|(_, name)| name).collect();
    assert!(names.len() > 15, "{names:?}");
    names.sort_unstable();
    let page = read("docs/operation.md");
    let code = page.split('`').skip(1).step_by(2);
    let mut documented: Vec<&str> = code
        .filter(|it| it.starts_with("Sluice") && !it.contains(' '))
        .collect();
    documented.sort_unstable();
    assert_eq!(documented, names);
}
