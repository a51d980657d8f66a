//! Milliseconds in, batches out.

use super::*;

/// `script`: `10 w a` is a write to `a` at 10 ms, `c` a close, `t` a touch, `m` a rename into place,
/// `*` everything, `r` the folder's return. `expected`: when which batches come; `?` marks a file that
/// is not closed.
#[track_caller]
fn check(quiet: u64, script: &[&str], expected: &[&str]) {
    let start = Instant::now();
    let mut settle = Settle::new(Duration::from_millis(quiet));
    let mut batches = Vec::new();
    let mut run_until = |settle: &mut Settle, end: Option<Instant>| {
        while let Some(due) = settle.due().filter(|it| end.is_none_or(|end| *it < end)) {
            let batch = settle.take(due).expect("something is due");
            let mut words = vec![(due - start).as_millis().to_string()];
            words.extend(batch.everything.then(|| "*".to_owned()));
            words.extend(batch.names);
            words.extend(batch.unfinished.iter().map(|it| format!("{it}?")));
            batches.push(words.join(" "));
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
            "m" => settle.note(Notice::Replaced(name), now),
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
fn complete_file_is_read_at_once() {
    check(0, &["0 c a"], &["0 a"]);
    check(0, &["0 c a", "1 m b", "2 t c"], &["0 a", "1 b", "2 c"]);
    check(0, &["0 c a", "0 *"], &["0 * a"]);
}

#[test]
fn quiet_time_joins_changes() {
    check(50, &["0 c a", "40 c b"], &["90 a b"]);
    check(50, &["0 c a", "60 c b"], &["50 a", "110 b"]);
}

#[test]
fn writer_is_waited_for() {
    check(0, &["0 w a", "500 w a", "900 c a"], &["900 a"]);
    check(0, &["0 w a", "500 w a"], &["1500 a?"]);
    check(0, &["0 w a", "500 t a", "600 c a"], &["600 a"]);
    check(0, &["0 w a", "500 m a"], &["500 a"]);
}

#[test]
fn no_other_file_waits_for_a_writer() {
    check(0, &["0 w b", "10 c a", "300 c b"], &["10 a", "300 b"]);
}

#[test]
fn writer_that_never_stops_is_waited_for_two_seconds() {
    let script: Vec<String> = (0..10).map(|it| format!("{} w a", it * 500)).collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    check(0, &script, &["2000 a?", "4500 a?"]);
}

#[test]
fn steady_stream_is_not_starved() {
    let script: Vec<String> = (0..100).map(|it| format!("{} c a", it * 40)).collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    check(50, &script, &["2000 a", "4010 a"]);
}

#[test]
fn folder_that_returns_has_time_to_be_filled() {
    check(0, &["0 r"], &["1000 *"]);
    check(0, &["0 r", "500 c a", "900 c b"], &["1900 * a b"]);
    check(
        0,
        &["0 r", "10 w a", "1500 c b"],
        &["1000 *", "1010 a?", "1500 b"],
    );
}

/// What is read of a file counts at once unless the file changed meanwhile, and then the second time.
#[test]
fn what_is_read_during_a_change_is_read_again_once() {
    let (start, name) = (Instant::now(), || "a".to_owned());
    let mut settle = Settle::new(Duration::ZERO);
    assert_eq!(settle.judge("a"), Verdict::Whole);
    settle.note(Notice::Replaced(name()), start);
    assert_eq!(settle.judge("a"), Verdict::Whole, "old or new, no mixture");
    settle.note(Notice::Writing(name()), start);
    assert_eq!(settle.judge("a"), Verdict::Again);
    assert_eq!(settle.judge("a"), Verdict::Torn);
    settle.note(Notice::Settled(name()), start);
    assert_eq!(settle.judge("a"), Verdict::Again);
    let _ = settle.take(start);
    assert_eq!(settle.judge("a"), Verdict::Whole);
    settle.note(Notice::Writing(name()), start);
    assert_eq!(
        settle.judge("a"),
        Verdict::Again,
        "the earlier change is over"
    );
}

#[test]
fn nobody_writes_a_file_that_is_gone() {
    let start = Instant::now();
    let mut settle = Settle::new(Duration::ZERO);
    for name in ["a", "b"] {
        settle.note(Notice::Writing(name.to_owned()), start);
        settle.note(Notice::Settled(format!("{name}2")), start);
    }
    settle.drop_gone(|it| it.starts_with('a'));
    assert_eq!(settle.pending().collect::<Vec<_>>(), ["b", "b2"]);
}

/// `sizes`: files and the work that each is. `expected`: the parts of at most some ten.
#[track_caller]
fn check_parts(sizes: &[(&str, usize)], expected: &[&str]) {
    let start = Instant::now();
    let mut settle = Settle::new(Duration::ZERO);
    for (index, (name, _)) in sizes.iter().enumerate() {
        let notice = if index % 2 == 0 {
            Notice::Settled
        } else {
            Notice::Replaced
        };
        settle.note(notice((*name).to_owned()), start);
    }
    let work = |name: &str| sizes.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
    let mut parts = Vec::new();
    while settle.has_more() {
        let part = settle.take_part(start, 10, work).expect("it is due");
        parts.push(part.names.into_iter().collect::<Vec<_>>().join(" "));
    }
    assert_eq!(parts, expected);
}

#[test]
fn of_many_files_the_smallest_are_first() {
    check_parts(&[("a", 3), ("b", 3), ("c", 3)], &["a b c"]);
    check_parts(&[("a", 9), ("b", 8), ("c", 2), ("d", 1)], &["b c d", "a"]);
    check_parts(&[("a", 90), ("b", 1)], &["a b"]);
    check_parts(&[("a", 90), ("b", 90), ("c", 10)], &["c", "a", "b"]);
}

/// Small files that change while large ones are read wait for one part, and never hold up the large ones for ever.
#[test]
fn every_second_part_has_only_small_files() {
    let start = Instant::now();
    let mut settle = Settle::new(Duration::ZERO);
    let touch = |settle: &mut Settle, name: &str| {
        settle.note(Notice::Replaced(name.to_owned()), start);
    };
    let work = |name: &str| if name.starts_with("large") { 90 } else { 1 };
    for name in ["large-1", "large-2", "large-3"] {
        touch(&mut settle, name);
    }
    let mut parts = Vec::new();
    while settle.has_more() {
        let part = settle.take_part(start, 10, work).expect("it is due");
        let names: Vec<String> = part.names.into_iter().collect();
        // Somebody changes a small file all the time, until the large ones are read.
        if names.iter().all(|it| it != "large-3") {
            touch(&mut settle, "small");
        }
        parts.push(names.join(" "));
    }
    let expected = [
        "large-1",
        "small",
        "large-2 small",
        "small",
        "large-3 small",
    ];
    assert_eq!(parts, expected);
}
