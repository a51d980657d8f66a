//! A network namespace for one test, and the programs that run in it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::{env, panic, thread};

use nix::sched::{CloneFlags, unshare};
use sluice_nft::{Batch, Connection, Create, Family, Scope};

pub(crate) const SCOPE: Scope<'static> = Scope {
    family: Family::Ipv4,
    table: "t",
};

/// Runs `test` on a thread that is alone in a new network namespace; the namespace ends with it.
pub(crate) fn run(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => test(),
        Err(errno) if env::var_os("CI").is_none() => {
            eprintln!("SKIP: needs a network namespace: {errno}")
        }
        Err(errno) => panic!("CI must run kernel tests: {errno}"),
    });
    if let Err(panic) = thread.join() {
        panic::resume_unwind(panic);
    }
}

/// Runs a program of this machine, feeds it `input` and returns what it printed.
#[track_caller]
pub(crate) fn program(name: &str, args: &[&str], input: &str) -> String {
    let mut child = Command::new(name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("run {name}: {error}"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{name} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What `nft` prints; lists the ruleset with numbers for addresses and ports.
#[track_caller]
pub(crate) fn nft_list() -> String {
    program("nft", &["-nn", "list", "ruleset"], "")
}

/// A batch that begins with an empty table.
pub(crate) fn batch_with_table() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(0, SCOPE, None, Create::New);
    batch
}

/// Commits what `fill` adds to an empty table.
#[track_caller]
pub(crate) fn commit(fill: impl FnOnce(&mut Batch)) -> Connection {
    let mut connection = Connection::open().unwrap();
    let mut batch = batch_with_table();
    fill(&mut batch);
    connection.commit(&batch).unwrap();
    connection
}
