use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use sluice_lab::write_program;

use super::*;
use crate::programs::{end_all, running};
use crate::rule::ChainName;

/// A program of this text.
fn program(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("iptables-stub");
    write_program(&path, text).unwrap();
    path
}

/// Runs a program of this text.
fn run<T>(text: &str, timeout: Duration, with: impl FnOnce(&Run<'_>) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    with(&Run {
        program: &program(folder.path(), text),
        arguments: &["--noflush", "-w", "0"],
        lock: &Lock {
            file: folder.path().join("lock"),
            seconds: 0,
        },
        timeout,
    })
}

/// So many lines.
fn lines(count: usize) -> Script<'static> {
    let chain = ChainName::new("CHAIN");
    Script::new(move |lines| (0..count).for_each(|_| lines.remove(&chain)))
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn input_and_output_may_be_more_than_pipes_hold() {
    let input = lines(100_000);
    let ended = |text: &str| run(text, LONG, |it| it.with_input(&input)).unwrap();
    let finished = ended("cat >&2; echo done >&2; exit 3");
    assert_eq!(finished.status.code(), Some(3));
    assert!(finished.stderr == input.text() + "done\n");
    // It ends without reading.
    let finished = ended("exec <&-; echo no >&2; exit 1");
    assert_eq!(
        (finished.status.code(), &*finished.stderr),
        (Some(1), "no\n")
    );
    let printed = |text: &str| run(text, LONG, |it| it.output(io::read_to_string));
    let said = printed("cat; yes 0123456789 | head -n 100000").unwrap();
    assert_eq!(said.len(), 11 * 100_000);
    let error = printed("echo lost; echo no memory >&2; exit 4").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("iptables-stub failed: no memory")
    );
}

/// Whether a process of this number runs; one that has ended and was not reaped does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

/// The errors of a program that does not end in time: one that gets a script, and one whose output is read.
fn killed(text: &str) -> [String; 2] {
    let started = Instant::now();
    let input = lines(100_000);
    let written = run(text, SHORT, |it| it.with_input(&input).map(drop));
    let sink = |mut it: Pipe<ChildStdout>| io::copy(&mut it, &mut io::sink());
    let read = run(text, SHORT, |it| it.output(sink).map(drop));
    assert!(started.elapsed() < LONG);
    [written, read].map(|it| it.unwrap_err().to_string())
}

#[test]
fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    for hang in [
        // Without a word, before it reads, and after it has closed its pipes.
        "sleep 1000",
        "sleep 1000 & wait",
        "cat > /dev/null; exec >&- 2>&-; sleep 1000",
        "trap '' TERM; while :; do sleep 1; done",
        // Writes for ever.
        "exec yes",
        // Ends, and what it started has its pipes.
        "sleep 1000 &",
    ] {
        let text = format!("echo $$ > {}\n{hang}", pids.display());
        for error in killed(&text) {
            let named = "iptables-stub --noflush -w 0: killed, it did not end within 0 s";
            assert!(error.ends_with(named), "{hang}: {error}");
        }
        let pid = fs::read_to_string(&pids).unwrap();
        assert!(!runs(pid.trim()), "{hang}");
    }
}

/// A process that leaves the program's group is not killed, and holds the pipes: nobody waits for it.
#[test]
fn a_process_that_left_the_group_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    for held in ["yes", "yes >&2"] {
        let text = format!(
            "setsid sh -c 'echo $$ >> {}; exec {held}' &",
            pids.display()
        );
        for error in killed(&text) {
            assert!(error.contains("killed, it did not end"), "{held}: {error}");
        }
    }
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL);
    }
}

/// What a thread waits for is said by others, who may end it.
#[test]
fn a_program_that_runs_is_named_and_ended_by_another_thread() {
    let waiting = thread::spawn(|| {
        let input = lines(1);
        run("exec sleep 1000", LONG, |it| {
            it.with_input(&input).map(|it| it.status)
        })
    });
    let named = sluice_lab::eventually(LONG, running);
    let (what, _) = named.expect("it runs");
    assert!(what.ends_with("iptables-stub --noflush -w 0"), "{what}");
    end_all();
    let status = waiting.join().unwrap().unwrap();
    assert!(!status.success());
    assert_eq!(running(), None);
}

#[test]
fn the_time_to_wait_for_the_lock_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run {
        program: &program(folder.path(), "sleep 1000"),
        arguments: &[],
        lock: &Lock {
            file: PathBuf::new(),
            seconds: 1,
        },
        timeout: SHORT,
    };
    let error = run.with_input(&lines(1)).err().unwrap();
    assert!(error.to_string().ends_with("within 1 s"), "{error}");
}
