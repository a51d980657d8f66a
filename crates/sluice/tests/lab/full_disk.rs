//! A lab on a disk without room.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::eventually;

use crate::lab::{Lab, WITHIN, text};

/// A lab whose folder is on a disk of 3 MiB, which only this thread and what it starts see.
fn small_lab() -> Option<Lab> {
    let mut lab = Lab::new()?;
    let labs = lab.files.path().join("labs");
    fs::create_dir(&labs).unwrap();
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let (tmpfs, size) = (Some("tmpfs"), Some("size=3m"));
    mount(tmpfs, &labs, tmpfs, MsFlags::empty(), size).unwrap();
    lab.labs = Some(labs);
    Some(lab)
}

/// The pid of the lab's server.
fn server(lab: &Lab) -> Pid {
    let words = format!("serve\0--name\0{}\0", lab.name);
    let found = fs::read_dir("/proc").unwrap().flatten().find_map(|it| {
        let pid = it.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(it.path().join("cmdline")).ok()?;
        line.ends_with(&words).then(|| Pid::from_raw(pid))
    });
    found.expect("the server runs")
}

fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filling");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    while file.write_all(&[0]).is_ok() {}
    path
}

#[test]
fn a_lab_whose_disk_is_full_says_so_and_comes_back() {
    let Some(lab) = small_lab() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let filling = fill(lab.labs.as_ref().unwrap());
    // More than the rest of the journal's last page takes.
    let data = "x".repeat(10_000);
    let object = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {data}}}\n"
        )
    };
    let refused = lab.apply(&object("one"));
    let said = text(&refused.stderr);
    assert!(
        said.contains("the disk of the API server is full"),
        "{said}"
    );
    assert!(lab.good(&["list"]).contains("its disk is full"));
    lab.good(&["get", "nodes"]);
    // A server that is killed now starts on the full disk.
    let age = Duration::from_secs(3);
    let killed = server(&lab);
    let started = fs::metadata(format!("/proc/{killed}"))
        .unwrap()
        .modified()
        .unwrap();
    eventually(WITHIN, || {
        started.elapsed().is_ok_and(|it| it > age).then_some(())
    });
    kill(killed, Signal::SIGKILL).unwrap();
    lab.until("another server", || {
        lab.run(&["get", "nodes"]).status.success().then_some(())
    });
    fs::remove_file(filling).unwrap();
    lab.until("the write", || {
        lab.apply(&object("one")).status.success().then_some(())
    });
    assert!(!lab.good(&["list"]).contains("full"));
    process_1_goes_on(&lab);
}

/// A server that cannot start is started again and again.
fn process_1_goes_on(lab: &Lab) {
    let journal = lab.dir().join("journal");
    let aside = lab.dir().join("aside");
    fs::rename(&journal, &aside).unwrap();
    fs::create_dir(&journal).unwrap();
    let ends = || lab.log().matches("starting it again").count();
    let before = ends();
    kill(server(lab), Signal::SIGKILL).unwrap();
    lab.until("more ends than a first server may have", || {
        (ends() > before + 6).then_some(())
    });
    fs::remove_dir(&journal).unwrap();
    fs::rename(&aside, &journal).unwrap();
    lab.until("the objects", || {
        lab.run(&["get", "configmap", "one"])
            .status
            .success()
            .then_some(())
    });
}
