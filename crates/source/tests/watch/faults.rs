//! Faults that pass: a limit of the process, a folder without permission. No event reports their end.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo, setfsuid};

use crate::support::{Event, service};
use crate::watch::watched::Watched;

const CHILD: &str = "SLUICE_TEST_CHILD";

/// Runs a test again in a process of its own, whose limits the test may lower. True in that process.
fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("watch::faults::{test}"), "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// Calls `during` while the process can open no file: open ones stay open.
fn without_descriptors<T>(during: impl FnOnce() -> T) -> T {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
    assert!(File::open("/proc/self/stat").is_err(), "the limit holds");
    let outcome = during();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    outcome
}

fn replace(file: &mut File, text: &str) {
    file.rewind().unwrap();
    file.set_len(0).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Two folders with a Service, which has another port in the second one.
fn make_versions(dir: &Path, names: [&str; 2]) {
    for (version, port) in names.into_iter().zip([80, 81]) {
        fs::create_dir(dir.join(version)).unwrap();
        fs::write(dir.join(version).join("a.yaml"), service("a", port)).unwrap();
    }
}

/// A watch that runs as the user nobody, for whom permissions count.
pub(crate) fn start_as_nobody(dir: &Path) -> Watched {
    if Uid::effective().is_root() {
        setfsuid(Uid::from_raw(65534));
    }
    let mut watched = Watched::start(dir);
    setfsuid(Uid::effective());
    watched.first();
    watched
}

pub(crate) fn set_rights(path: &Path, rights: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(rights)).unwrap();
}

#[test]
fn file_without_a_descriptor_is_read_later() {
    if !is_child("file_without_a_descriptor_is_read_later") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.yaml");
    let mut file = File::create(&path).unwrap();
    replace(&mut file, &service("a", 80));
    let mut watched = Watched::start(temp.path());
    watched.first();
    without_descriptors(|| {
        replace(&mut file, &service("a", 81));
        watched.expect(
            "!a.yaml[a.yaml: cannot be read: Too many open files (os error 24)|\
             a.yaml: Service default/a: not readable now, the last good version stays in force]",
        );
    });
    watched.expect("+Service default/a:81 !a.yaml[]");
}

/// A swapped link says that every file may have changed: then the folder is listed.
#[test]
fn folder_without_a_descriptor_is_listed_later() {
    if !is_child("folder_without_a_descriptor_is_listed_later") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    make_versions(dir, ["..v1", "..v2"]);
    symlink("..v1", dir.join("..data")).unwrap();
    symlink("..data/a.yaml", dir.join("a.yaml")).unwrap();
    let mut watched = Watched::start(dir);
    watched.first();
    let batch = without_descriptors(|| {
        symlink("..v2", dir.join("..new")).unwrap();
        fs::rename(dir.join("..new"), dir.join("..data")).unwrap();
        watched.next()
    });
    let [Event::Problems { problems, .. }] = &*batch else {
        panic!("{batch:?}");
    };
    assert!(
        problems[0].contains("cannot be read: Too many open files"),
        "{problems:?}"
    );
    watched.until("+Service default/a:81");
}

/// The link to the folder is swapped while the kernel has no new watch for us.
#[test]
fn watch_that_cannot_be_made_is_made_later() {
    if !is_child("watch_that_cannot_be_made_is_made_later") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    make_versions(temp.path(), ["v1", "v2"]);
    let link = temp.path().join("link");
    symlink("v1", &link).unwrap();
    let mut watched = Watched::start(&link);
    watched.first();
    let batch = without_descriptors(|| {
        symlink("v2", temp.path().join("new")).unwrap();
        fs::rename(temp.path().join("new"), &link).unwrap();
        watched.next()
    });
    assert!(
        matches!(&*batch, [Event::Problems { problems, .. }] if problems.len() == 1),
        "{batch:?}"
    );
    watched.until("+Service default/a:81");
    // The new watch works.
    fs::write(link.join("b.yaml"), service("b", 80)).unwrap();
    watched.expect("+Service default/b:80");
}

/// The permissions of a folder that a link leads through are restored: no event reports it.
#[test]
fn file_behind_a_closed_folder_is_read_later() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, far) = (temp.path().join("m"), temp.path().join("far"));
    for folder in [&dir, &far] {
        fs::create_dir(folder).unwrap();
        set_rights(folder, 0o755);
    }
    set_rights(temp.path(), 0o755);
    fs::write(far.join("a.yaml"), service("a", 80)).unwrap();
    set_rights(&far.join("a.yaml"), 0o644);
    symlink("../far/a.yaml", dir.join("a.yaml")).unwrap();
    let mut watched = start_as_nobody(&dir);
    set_rights(&far, 0o700);
    // The link is read again when it is replaced.
    symlink("../far/a.yaml", dir.join("new")).unwrap();
    fs::rename(dir.join("new"), dir.join("a.yaml")).unwrap();
    watched.expect(
        "!a.yaml[a.yaml: cannot be read: Permission denied (os error 13)|\
         a.yaml: Service default/a: not readable now, the last good version stays in force]",
    );
    set_rights(&far, 0o755);
    watched.expect("!a.yaml[]");
}

#[test]
fn closed_folder_is_listed_when_it_is_open_again() {
    let temp = tempfile::tempdir().unwrap();
    set_rights(temp.path(), 0o755);
    let dir = temp.path().join("m");
    fs::create_dir(&dir).unwrap();
    set_rights(&dir, 0o755);
    let mut watched = start_as_nobody(&dir);
    set_rights(&dir, 0o300);
    let batch = watched.next();
    assert!(
        matches!(&*batch, [Event::Problems { problems, .. }]
            if problems[0].contains("Permission denied")),
        "{batch:?}"
    );
    fs::write(dir.join("a.yaml"), service("a", 80)).unwrap();
    set_rights(&dir.join("a.yaml"), 0o644);
    set_rights(&dir, 0o755);
    watched.until("+Service default/a:80");
}

/// The texts of a file from [`sluice_source::watch_file`], `None` when it cannot be read.
fn texts(path: &Path) -> (sluice_source::Watch, Receiver<Option<String>>) {
    let (sender, texts) = channel();
    let changed = move |read: io::Result<Vec<u8>>| {
        let _ = sender.send(read.ok().map(|it| String::from_utf8(it).unwrap()));
    };
    (sluice_source::watch_file(path, changed).unwrap(), texts)
}

/// A pipe would wait for a writer, and a device has no end.
#[test]
fn a_file_that_was_a_pipe_is_read_when_it_is_one_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("config");
    let becomes = |make: &dyn Fn(&Path)| {
        make(&temp.path().join("new"));
        fs::rename(temp.path().join("new"), &path).unwrap();
    };
    becomes(&|it| fs::write(it, "one").unwrap());
    let (_watch, texts) = texts(&path);
    let next = || texts.recv_timeout(crate::support::DEADLINE).unwrap();
    assert_eq!(next().as_deref(), Some("one"));
    becomes(&|it| mkfifo(it, Mode::S_IRWXU).unwrap());
    assert_eq!(next(), None);
    becomes(&|it| fs::write(it, "two").unwrap());
    assert_eq!(next().as_deref(), Some("two"));
    becomes(&|it| symlink("/dev/zero", it).unwrap());
    assert_eq!(next(), None);
    becomes(&|it| fs::write(it, "three").unwrap());
    assert_eq!(next().as_deref(), Some("three"));
}

/// A configuration file that changes while there is no descriptor, neither to read nor to watch it.
#[test]
fn configuration_without_a_descriptor_is_read_later() {
    if !is_child("configuration_without_a_descriptor_is_read_later") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("config");
    let mut file = File::create(&path).unwrap();
    replace(&mut file, "one");
    let (_watch, texts) = texts(&path);
    let next = || texts.recv_timeout(crate::support::DEADLINE).unwrap();
    assert_eq!(next().as_deref(), Some("one"));
    without_descriptors(|| {
        replace(&mut file, "two");
        assert_eq!(next(), None);
    });
    while next().as_deref() != Some("two") {}
    fs::write(&path, "three").unwrap();
    while next().as_deref() != Some("three") {}
}
