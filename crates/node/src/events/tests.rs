//! Tests of what a queue gives out when more waits than one step takes.

use super::*;

/// `a/1`: an event about the subject 1 of the namespace `a`; `/1` has none, and `!` comes last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word(&'static str);

impl Keyed for Word {
    type Key = &'static str;

    fn key(&self) -> &'static str {
        self.0
    }

    fn namespace(&self) -> Option<Arc<str>> {
        let (namespace, _) = self.0.split_once('/')?;
        (!namespace.is_empty()).then(|| namespace.into())
    }

    fn is_last(&self) -> bool {
        self.0 == "!"
    }
}

/// `expected`: what is taken, at most `limit` each time.
#[track_caller]
fn check(limit: usize, added: &'static str, expected: &[&str]) {
    let queue = EventQueue::default();
    assert!(queue.is_empty());
    assert!(queue.add(added.split(' ').map(Word).collect()));
    let mut taken = Vec::new();
    while !queue.is_empty() {
        let words: Vec<&str> = queue.take(limit).into_iter().map(|it| it.0).collect();
        taken.push(words.join(" "));
    }
    assert_eq!(taken, expected);
    assert!(queue.namespaces().is_empty());
}

#[test]
fn each_namespace_has_its_share() {
    check(
        3,
        "a/1 a/2 a/3 a/4 a/5 b/1",
        &["b/1 a/1 a/2", "a/3 a/4 a/5"],
    );
    check(
        4,
        "a/1 a/2 a/3 a/4 b/1 b/2 b/3 c/1",
        &["c/1 b/1 a/1 a/2", "a/3 a/4 b/2 b/3"],
    );
    // More namespaces than room.
    check(2, "a/1 b/1 c/1", &["a/1 b/1", "c/1"]);
}

#[test]
fn what_has_no_namespace_does_not_wait() {
    check(1, "a/1 a/2 /1 /2", &["/1 /2 a/1", "a/2"]);
}

#[test]
fn a_list_is_complete_when_all_of_it_was_taken() {
    check(1, "a/1 b/1 a/2 !", &["a/1 a/2 b/1 !"]);
}

#[test]
fn the_last_event_about_a_subject_is_taken_once() {
    check(2, "a/1 a/2 a/1 a/3 a/2", &["a/1 a/2", "a/3"]);
}

#[test]
fn a_removed_event_leaves_the_order_of_the_others() {
    let mut latest: Latest<Word> = ["1", "2", "3", "4"].map(Word).into_iter().collect();
    assert_eq!(latest.pop_first(), Some(Word("1")));
    latest.remove(&"3");
    latest.push(Word("1"));
    latest.push(Word("2"));
    assert_eq!(latest.len(), 3);
    let left: Vec<&str> = latest.into_iter().map(|it| it.0).collect();
    assert_eq!(left, ["2", "4", "1"]);
}
