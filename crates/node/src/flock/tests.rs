use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::thread;

use caps::CapSet;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use sluice_lab::{Netns, require_netns};
use tempfile::TempDir;

use super::*;
use crate::server;

/// `nobody`.
const STRANGER: u32 = 65534;

/// Runs the function as another user of the machine. The identity for files belongs to a thread, and the kernel takes
/// the capabilities for files with it (credentials(7)).
fn as_stranger<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setfsgid(Gid::from_raw(STRANGER));
            setfsuid(Uid::from_raw(STRANGER));
            run()
        });
        thread.join().expect("no panic")
    })
}

/// A folder that every user can enter.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("ours");
    folder
}

fn refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|it| it.kind() == io::ErrorKind::PermissionDenied)
}

#[test]
fn the_second_is_told_who_is_first() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("run/sluice.sock");
    let first = Lock::take(&socket).expect("nobody holds it");
    let refused = Lock::take(&socket).expect_err("it is held").to_string();
    let pid = std::process::id();
    assert!(
        refused.starts_with(&format!("another sluice is running (pid {pid})")),
        "{refused}"
    );
    let checked = Lock::check(&socket).expect_err("it is held").to_string();
    assert_eq!(checked, refused);
    drop(first);
    Lock::check(&socket).expect("the first has gone");
    Lock::take(&socket).expect("the first has gone");
}

/// Somebody cleans the folder, and another process makes the lock's file anew.
#[test]
fn a_lock_whose_file_was_removed_is_taken_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("run/sluice.sock");
    let mut first = Lock::take(&socket).expect("nobody holds it");
    fs::remove_dir_all(directory.path().join("run")).expect("ours");
    assert!(!first.is_there());
    let second = Lock::take(&socket).expect("the file is another one");
    first.complete().expect_err("the second holds it");
    drop(second);
    first.complete().expect("nobody holds it").expect("room");
    assert!(first.is_there());
    Lock::take(&socket).expect_err("it is held");
}

#[test]
fn another_user_can_neither_hold_nor_replace_the_files() {
    require_netns!();
    let folder = open_folder();
    let socket = folder.path().join("run/sluice.sock");
    let lock = socket.with_extension("lock");
    // The files of an earlier version.
    fs::create_dir(folder.path().join("run")).expect("ours");
    fs::write(&lock, "1").expect("ours");
    fs::set_permissions(&lock, Permissions::from_mode(0o666)).expect("ours");
    drop(Lock::take(&socket).expect("nobody holds it"));
    let _listener = server::listen_on(&socket).expect("a socket");
    as_stranger(|| {
        assert!(fs::read_dir(folder.path()).is_ok(), "no stranger at all");
        assert!(refused(File::open(&lock)));
        assert!(refused(OpenOptions::new().write(true).open(&lock)));
        assert!(refused(UnixStream::connect(&socket)));
        for file in [&lock, &socket] {
            assert!(refused(fs::remove_file(file)));
            assert!(refused(fs::rename(file, folder.path().join("x"))));
        }
        assert!(refused(File::create(socket.with_extension("x"))));
    });
    for file in [&lock, &socket] {
        let mode = fs::metadata(file).expect("it stays").mode();
        assert_eq!(mode & 0o7777, 0o600, "{}", file.display());
    }
    Lock::take(&socket).expect("nobody holds it");
}

#[test]
fn directories_of_others_are_refused() {
    require_netns!();
    let folder = open_folder();
    let run = folder.path().join("run");
    fs::create_dir(&run).expect("ours");
    let take = || Lock::take(&run.join("sluice.sock"));
    for (mode, problem) in [(0o777, "mode 0777"), (0o775, "mode 0775")] {
        fs::set_permissions(&run, Permissions::from_mode(mode)).expect("ours");
        let error = take().expect_err("others can write").to_string();
        assert!(
            error.contains(problem) && error.contains("--socket"),
            "{error}"
        );
    }
    // As /tmp: files are their owners', but a name may have been taken before.
    fs::set_permissions(&run, Permissions::from_mode(0o1777)).expect("ours");
    let lock = run.join("sluice.lock");
    as_stranger(|| File::create(&lock).expect("a sticky folder"));
    let error = take().expect_err("another user's").to_string();
    assert!(
        error.contains("sluice.lock belongs to user 65534: remove it"),
        "{error}"
    );
    fs::remove_file(&lock).expect("root");
    take().expect("our own file");
    as_stranger(|| assert!(refused(File::open(&lock)) && fs::remove_file(&lock).is_err()));
    fs::remove_file(&lock).expect("root");
    fs::set_permissions(&run, Permissions::from_mode(0o755)).expect("ours");
    std::os::unix::fs::chown(&run, Some(STRANGER), None).expect("root");
    let error = take().expect_err("another user's").to_string();
    assert!(error.contains("belongs to user 65534"), "{error}");
    std::os::unix::fs::chown(&run, Some(0), None).expect("root");
    // A link that leads to a file of root's.
    let target = folder.path().join("target");
    fs::write(&target, "keep").expect("ours");
    symlink(&target, run.join("sluice.lock")).expect("ours");
    take().expect_err("no link is followed");
    assert_eq!(fs::read_to_string(&target).expect("untouched"), "keep");
}

#[test]
fn a_namespace_has_one_agent() {
    require_netns!();
    let netns = Netns::new("flock").expect("a namespace");
    netns.run(|| {
        thread::scope(|scope| {
            let stranger = scope.spawn(|| {
                caps::clear(None, CapSet::Effective).expect("fewer capabilities");
                Group::take(NamespaceLock::GROUP).expect("a kernel with NFLOG")
            });
            let taken = stranger.join().expect("no panic");
            assert!(taken.is_none(), "only CAP_NET_ADMIN may hold it");
        });
        let held = NamespaceLock::take().expect("it is free");
        let refused = NamespaceLock::take().expect_err("it is held").to_string();
        let expected = "another sluice is running in this network namespace";
        assert!(refused.starts_with(expected), "{refused}");
        thread::scope(|scope| {
            let second = scope.spawn(|| netns.run(NamespaceLock::take));
            drop(held);
            // The second waits for it.
            second.join().expect("no panic").expect("it is free soon");
        });
    });
}
