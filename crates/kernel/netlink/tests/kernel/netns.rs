//! A network namespace for one test, and the programs that run in it: a module of the tests of several crates.

use std::io::Write;
use std::process::{Command, Stdio};
use std::{env, panic, thread};

use nix::sched::{CloneFlags, unshare};

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
