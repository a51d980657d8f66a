use std::fs;
use std::path::PathBuf;

use sluice_lab::write_program;

use super::*;
use crate::rule::ChainName;

/// A program of this text.
fn program(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("iptables-stub");
    write_program(&path, text).unwrap();
    path
}

/// How a program of this text ends, and what it prints.
fn run(
    text: &str,
    input: &Script<'_>,
    patience: Duration,
) -> Result<(Finished, Vec<u8>), RunError> {
    let folder = tempfile::tempdir().unwrap();
    let run = Run {
        program: &program(folder.path(), text),
        arguments: &["--noflush", "-w", "0"],
        lock: &Lock {
            file: folder.path().join("lock"),
            seconds: 0,
        },
        patience,
    };
    let mut stdout = Vec::new();
    let finished = run.with(input, &mut stdout)?;
    Ok((finished, stdout))
}

/// So many lines.
fn lines(count: usize) -> Script<'static> {
    let chain = ChainName::new("CHAIN");
    Script::new(move |lines| (0..count).for_each(|_| lines.remove(&chain)))
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn what_is_said_is_heard_to_the_end() {
    // More than pipes hold, both ways at once, and on stderr.
    let input = lines(100_000);
    let (finished, stdout) = run("cat; echo done >&2; exit 3", &input, LONG).unwrap();
    assert_eq!(finished.status.code(), Some(3));
    assert!(stdout == input.text().as_bytes() && finished.stderr == b"done\n");
    // It ends without reading, and talks after it closed its input.
    let (finished, stdout) = run("exec <&-; echo no; exit 1", &input, LONG).unwrap();
    assert_eq!((finished.status.code(), &*stdout), (Some(1), &b"no\n"[..]));
}

/// Whether a process of this number runs; the dead that nobody has waited for do not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn who_hangs_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    for hang in [
        // Without a word, before it reads, and after it has said everything.
        "sleep 1000",
        "sleep 1000 & wait",
        "cat > /dev/null; exec >&- 2>&-; sleep 1000",
        "trap '' TERM; while :; do sleep 1; done",
        // Talks for ever.
        "exec yes",
    ] {
        let text = format!("echo $$ > {}\n{hang}", pids.display());
        let started = Instant::now();
        let error = run(&text, &lines(LINES - 1), SHORT).err().unwrap();
        assert!(started.elapsed() < LONG);
        let RunError::TimedOut { arguments, .. } = &error else {
            panic!("{hang}: {error}");
        };
        assert_eq!(arguments, "--noflush -w 0");
        let said = error.to_string();
        assert!(
            said.contains("iptables-stub --noflush -w 0: killed"),
            "{said}"
        );
        let pid = fs::read_to_string(&pids).unwrap();
        assert!(!runs(pid.trim()), "{hang}");
    }
}

#[test]
fn much_input_may_take_longer() {
    let lock = Lock {
        file: PathBuf::new(),
        seconds: 7,
    };
    let run = Run {
        program: Path::new("iptables"),
        arguments: &[],
        lock: &lock,
        patience: Duration::from_secs(100),
    };
    assert_eq!(run.time_for(&Script::empty()).as_secs(), 107);
    assert_eq!(run.time_for(&lines(3 * LINES)).as_secs(), 107 + 3 * 30);
}
