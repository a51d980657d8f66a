use std::io;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::chroot;
use tempfile::TempDir;

use super::*;

/// Runs the function on a thread of its own: a sandbox is for good.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}

#[test]
fn refused_calls_fail_and_programs_run() {
    on_a_thread(|| {
        refuse_calls(Needs::default()).expect("a kernel with seccomp");
        for namespace in [CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNET] {
            assert_eq!(unshare(namespace), Err(Errno::EPERM));
        }
        assert_eq!(chroot("/"), Err(Errno::EPERM));
        // Threads and programs start, and their children have the same limits.
        thread::spawn(|| assert_eq!(chroot("/"), Err(Errno::EPERM)))
            .join()
            .expect("a thread");
        assert!(Command::new("true").status().expect("a program").success());
        let program = Command::new("unshare").args(["--user", "true"]).output();
        let output = program.expect("unshare");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Operation not permitted"), "{said}");
    });
}

/// Whether the kernel has Landlock; CI must have it.
fn has_landlock() -> bool {
    let handled = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1));
    let restrict = || handled?.create()?.restrict_self();
    let status = on_a_thread(move || restrict().map(|it| it.ruleset));
    let has = matches!(status, Ok(RulesetStatus::FullyEnforced));
    assert!(has || env::var_os("CI").is_none(), "CI must run this");
    if !has {
        eprintln!("SKIP: this kernel has no Landlock");
    }
    has
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn is_refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|it| it.kind() == io::ErrorKind::PermissionDenied)
}

#[test]
fn only_named_folders_are_within_reach() {
    if !has_landlock() {
        return;
    }
    let (ours, run, others) = (folder(), folder(), folder());
    let config = ours.path().join("config.conf");
    for file in [&config, &others.path().join("secret")] {
        fs::write(file, "x").expect("before the sandbox");
    }
    on_a_thread(|| {
        restrict_files(std::slice::from_ref(&config), run.path(), false).expect("a sandbox");
        for readable in [
            &config,
            Path::new("/proc/self/status"),
            Path::new("/etc/passwd"),
        ] {
            fs::read(readable).unwrap_or_else(|it| panic!("{}: {it}", readable.display()));
        }
        fs::write(run.path().join("new"), "x").expect("the runtime folder");
        fs::remove_file(run.path().join("new")).expect("the runtime folder");
        assert!(is_refused(fs::read(others.path().join("secret"))));
        assert!(is_refused(fs::read_dir("/var/lib")));
        assert!(is_refused(fs::write(&config, "y")));
        assert!(is_refused(fs::remove_file(&config)));
        assert!(is_refused(fs::write("/run/sluice-test", "y")));
        assert!(is_refused(Command::new("true").status()));
    });
}

/// Replaces files as the kubelet replaces a ConfigMap and a token, and as git-sync replaces a checkout.
#[test]
fn what_takes_the_place_of_a_file_is_within_reach() {
    if !has_landlock() {
        return;
    }
    let (mount, checkout, run) = (folder(), folder(), folder());
    let replace = |link: PathBuf, target: &str| {
        let draft = link.with_file_name("draft");
        symlink(target, &draft).expect("a link");
        fs::rename(draft, link).expect("the same file system");
    };
    let publish = |version: &str| {
        let data = mount.path().join(version);
        fs::create_dir(&data).expect("a new folder");
        fs::write(data.join("token"), version).expect("a new file");
        replace(mount.path().join("..data"), version);
        let tree = checkout.path().join(version).join("manifests");
        fs::create_dir_all(&tree).expect("a new folder");
        fs::write(tree.join("a.yaml"), version).expect("a new file");
        replace(checkout.path().join("current"), version);
    };
    publish("1");
    let token = mount.path().join("token");
    symlink("..data/token", &token).expect("a link");
    let manifests = checkout.path().join("current/manifests");
    let named = [token.clone(), manifests.clone()];
    let (entered, wait) = mpsc::channel();
    let (published, read) = mpsc::channel();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            restrict_files(&named, run.path(), false).expect("a sandbox");
            entered.send(()).expect("somebody waits");
            read.recv().expect("a second version");
            [token, manifests.join("a.yaml")].map(|it| fs::read_to_string(it).ok())
        });
        wait.recv().expect("it is in the sandbox");
        publish("2");
        published.send(()).expect("somebody waits");
        let texts = reader.join().expect("no panic");
        assert_eq!(texts, [Some("2".to_owned()), Some("2".to_owned())]);
    });
}
