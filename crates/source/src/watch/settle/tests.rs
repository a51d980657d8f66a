//! Milliseconds in, batches out.

use super::*;

/// `script`: `10 w a` is a write to `a` at 10 ms, `c` a close, `t` a touch, `*` everything,
/// `r` the folder's return. `expected`: when which batches come.
#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let (start, mut settle, mut batches) = (
        Instant::now(),
        Settle::new(Duration::from_millis(50)),
        Vec::new(),
    );
    let mut run_until = |settle: &mut Settle, end: Option<Instant>| {
        while let Some(due) = settle.due().filter(|it| end.is_none_or(|end| *it < end)) {
            let at = (due - start).as_millis();
            batches.push(match settle.take(due) {
                Some(Batch::Names(names)) => format!("{at} {}", names.join(" ")),
                Some(Batch::Everything) => format!("{at} *"),
                None => panic!("due and nothing there"),
            });
        }
    };
    for line in script {
        let words: Vec<&str> = line.split(' ').collect();
        let now = start + Duration::from_millis(words[0].parse().unwrap());
        run_until(&mut settle, Some(now));
        let name = words.get(2).copied().unwrap_or_default().to_owned();
        match words[1] {
            "w" => settle.note(Notice::Writing(name), now),
            "c" => settle.note(Notice::Settled(name), now),
            "t" => settle.note(Notice::Touched(name), now),
            "r" => {
                settle.wait_for(Duration::from_secs(1));
                settle.note(Notice::Everything, now);
            }
            _ => settle.note(Notice::Everything, now),
        }
    }
    run_until(&mut settle, None);
    assert_eq!(batches, expected);
}

#[test]
fn closed_file_is_read_after_a_quiet_moment() {
    check(&["0 c a"], &["50 a"]);
    check(&["0 c a", "40 c b"], &["90 a b"]);
    check(&["0 c a", "60 c b"], &["50 a", "110 b"]);
}

#[test]
fn writer_is_waited_for() {
    check(&["0 w a", "500 w a", "900 c a"], &["950 a"]);
    check(&["0 w a", "500 w a"], &["1500 a"]);
    check(&["0 w a", "500 t a", "600 c a"], &["650 a"]);
    check(&["0 t a"], &["50 a"]);
}

#[test]
fn other_files_wait_for_a_writer_but_not_for_ever() {
    check(&["0 c a", "10 w b", "300 c b"], &["350 a b"]);
    check(
        &["0 c a", "10 w b", "900 w b", "1800 w b", "2700 w b"],
        &["2000 a", "3700 b"],
    );
}

#[test]
fn steady_stream_is_not_starved() {
    let script: Vec<String> = (0..100).map(|it| format!("{} c a", it * 40)).collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    check(&script, &["2000 a", "4010 a"]);
}

#[test]
fn everything_covers_the_names() {
    check(&["0 c a", "10 *"], &["60 *"]);
    check(&["0 r"], &["1000 *"]);
    check(&["0 r", "500 c a", "900 c b"], &["1900 *"]);
}
