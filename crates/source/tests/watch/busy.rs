//! Tests a folder with writers that never pause. They stop only after the expected state was seen.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Event, service};
use crate::watch::watched::{Watched, set_names};

/// Calls `during` while others write without a pause: one thread renames over a file, one writes a
/// file in place, one creates and removes a file, one holds a file open and appends to it.
fn while_busy<T>(dir: &Path, during: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let again = |write: &mut dyn FnMut(u32)| {
        for port in (1..=60_000).cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            write(port);
        }
    };
    /// Ends the writers even when `during` panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let mut open = File::create(dir.join("log.yaml")).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            again(&mut |port| {
                fs::write(dir.join("new"), service("renamed", port)).unwrap();
                fs::rename(dir.join("new"), dir.join("renamed.yaml")).unwrap();
            });
        });
        scope.spawn(|| {
            again(&mut |port| {
                fs::write(dir.join("written.yaml"), service("written", port)).unwrap();
            });
        });
        scope.spawn(|| {
            again(&mut |port| {
                fs::write(dir.join("created.yaml"), service("created", port)).unwrap();
                fs::remove_file(dir.join("created.yaml")).unwrap();
            });
        });
        scope.spawn(|| again(&mut |_| open.write_all(b"# a line\n").unwrap()));
        let _end = End(&is_over);
        during()
    })
}

#[test]
fn changes_and_deletions_are_seen_in_a_busy_folder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir(dir.join("team")).unwrap();
    for name in ["a", "b", "team/c"] {
        let object = name.rsplit('/').next().unwrap();
        fs::write(dir.join(format!("{name}.yaml")), service(object, 80)).unwrap();
    }
    let mut watched = Watched::start(dir);
    watched.first();
    while_busy(dir, || {
        fs::write(dir.join("a.yaml"), service("a", 81)).unwrap();
        watched.until("+Service default/a:81");
        fs::write(dir.join("new-b"), service("b", 81)).unwrap();
        fs::rename(dir.join("new-b"), dir.join("b.yaml")).unwrap();
        watched.until("+Service default/b:81");
        fs::remove_file(dir.join("b.yaml")).unwrap();
        watched.until("-Service default/b");
        fs::remove_dir_all(dir.join("team")).unwrap();
        watched.until("-Service default/c");
    });
}

#[test]
fn start_in_a_busy_folder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    for name in ["a", "b", "c"] {
        fs::write(dir.join(format!("{name}.yaml")), service(name, 80)).unwrap();
    }
    while_busy(dir, || {
        let first = Watched::start(dir).first();
        let names = set_names(&first);
        for name in ["a", "b", "c"] {
            let name = format!("Service default/{name}");
            assert!(names.contains(&name), "{names:?}");
        }
        assert_eq!(first.last(), Some(&Event::Synced));
    });
}
