//! An experiment whose data plane this kernel lacks: it runs in the virtual machine of Sluice's tests, or what it printed there
//! once is shown.

use std::convert::Infallible;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::text;
use crate::output::say;

/// What experiments printed in the virtual machine, by name.
pub(super) const RECORDED: [(&str, &str); 1] = [(
    "ipvs-table",
    include_str!("../../../../../docs/experiments/ipvs-table.txt"),
)];

/// Timeout of the machine, in seconds. On an idle processor the run takes less than a minute.
const LIMIT: &str = "1100";

/// Runs an experiment in the virtual machine of the source tree that `program` was built in, or prints the recorded run.
/// Returns whether there was one of these. `why` says what this kernel lacks.
///
/// # Errors
///
/// The system's, when the machine cannot be started.
pub(super) fn run(name: &str, program: &Path, why: &str) -> anyhow::Result<bool> {
    let Some((_, recorded)) = RECORDED.iter().find(|(it, _)| *it == name) else {
        return Ok(false);
    };
    say!("This kernel cannot run it: {why}.");
    if let Some(script) = machine(program) {
        say!(
            "So {} boots a virtual machine that can. It takes about a minute.\n",
            script.display()
        );
        start(&script, name, program)?;
    }
    say!(
        "A run of it that was recorded elsewhere (`make setup-vm` in Sluice's source tree brings a virtual machine):\n"
    );
    let width = text::width();
    for line in recorded.lines() {
        say!("{}", text::wrapped(line, width));
    }
    Ok(true)
}

/// Replaces this process, so that Ctrl-C ends the machine.
fn start(script: &Path, name: &str, program: &Path) -> anyhow::Result<Infallible> {
    let mut command = Command::new(script);
    command.args(["-t", LIMIT, "--"]).arg(program);
    let error = command.args(["lab", "experiment", name, "--fast"]).exec();
    Err(error).with_context(|| script.display().to_string())
}

/// The script that boots the machine, where `make setup-vm` has fetched one.
fn machine(program: &Path) -> Option<PathBuf> {
    // A machine in a machine would lack the same.
    if sluice_lab::in_vm() {
        return None;
    }
    let mut trees = program.ancestors().skip(1);
    let has_machine =
        |it: &&Path| it.join("scripts/vm").exists() && it.join("target/vm/kernel-uml").exists();
    trees.find(has_machine).map(|it| it.join("scripts/vm"))
}
