//! Tests the watch on real folders, one case per test. No sleeps: the tests wait for the channel.

mod busy;
mod faults;
mod subfolders;
mod watched;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Event, Kinds, Pods, service};
use nix::unistd::{Uid, setfsuid};
use watched::{Watched, set_names};

fn start(files: &[(&str, &str)]) -> (tempfile::TempDir, Watched) {
    let temp = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(temp.path().join(name), text).unwrap();
    }
    let watched = Watched::start(temp.path());
    (temp, watched)
}

#[test]
fn missing_folder_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let error =
        crate::support::watch(temp.path().join("none"), Kinds::PROXY.wants(), drop).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("read manifests in "), "{text}");
    assert!(
        text.ends_with("none: No such file or directory (os error 2)"),
        "{text}"
    );
    let load = crate::support::load(temp.path().join("none"), &Kinds::PROXY).unwrap_err();
    assert!(load.to_string().contains("none: No such file"), "{load}");
}

#[test]
fn first_batch_is_everything_and_synced() {
    let (_temp, mut watched) = start(&[("a.yaml", &service("a", 80)), ("b.yaml", "kind: Service")]);
    let batch = watched.first();
    assert_eq!(batch.last(), Some(&Event::Synced));
    assert_eq!(set_names(&batch), ["Service default/a"]);
    let is_problem = |it: &&Event| matches!(it, Event::Problems { .. });
    assert_eq!(batch.iter().filter(is_problem).count(), 1);
}

#[test]
fn empty_folder_is_synced() {
    let (_temp, mut watched) = start(&[]);
    assert_eq!(watched.first(), [Event::Synced]);
}

#[test]
fn new_changed_and_deleted_file() {
    let (temp, mut watched) = start(&[]);
    watched.first();
    let path = temp.path().join("a.yaml");
    fs::write(&path, service("a", 80)).unwrap();
    watched.expect("+Service default/a:80");
    fs::write(&path, service("a", 81)).unwrap();
    watched.expect("+Service default/a:81");
    fs::remove_file(&path).unwrap();
    watched.expect("-Service default/a");
}

#[test]
fn unchanged_content_is_no_event() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    fs::write(temp.path().join("a.yaml"), service("a", 80)).unwrap();
    fs::write(temp.path().join("b.yaml"), service("b", 80)).unwrap();
    watched.expect("+Service default/b:80");
}

/// Versions that differ in nothing but the content, each read before the next one is written or while
/// it is: the last one counts, however coarse the clock of the file system is.
#[test]
fn versions_of_one_size_in_one_tick() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 10))]);
    watched.first();
    for port in 11..100 {
        fs::write(temp.path().join("a.yaml"), service("a", port)).unwrap();
    }
    watched.until("+Service default/a:99");
}

#[test]
fn editors_rename_over() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    let new = temp.path().join("a.yaml.swp");
    fs::write(&new, service("a", 81)).unwrap();
    fs::rename(new, temp.path().join("a.yaml")).unwrap();
    watched.expect("+Service default/a:81");
}

#[test]
fn vim_moves_the_old_file_away_first() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    fs::rename(temp.path().join("a.yaml"), temp.path().join("a.yaml~")).unwrap();
    fs::write(temp.path().join("a.yaml"), service("a", 81)).unwrap();
    fs::remove_file(temp.path().join("a.yaml~")).unwrap();
    watched.expect("+Service default/a:81");
}

#[test]
fn half_written_file_waits_for_its_writer() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    let text = service("a", 81) + "---\n" + &service("b", 82);
    let (head, tail) = text.split_at(text.len() / 2);
    let mut file = fs::File::create(temp.path().join("a.yaml")).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    // Another file is complete meanwhile; the half one must not be looked at.
    fs::write(temp.path().join("z.yaml"), service("z", 80)).unwrap();
    watched.expect("+Service default/z:80");
    file.write_all(tail.as_bytes()).unwrap();
    drop(file);
    watched.expect("+Service default/a:81 +Service default/b:82");
}

#[test]
fn silent_writer_is_not_waited_for_for_ever() {
    let (temp, mut watched) = start(&[]);
    watched.first();
    let mut file = fs::File::create(temp.path().join("a.yaml")).unwrap();
    file.write_all(service("a", 80).as_bytes()).unwrap();
    watched.expect("+Service default/a:80");
    drop(file);
}

/// A program that empties a file and takes its time to fill it, as `kubectl get -o yaml > a.yaml`.
#[test]
fn what_an_unfinished_file_lacks_stays() {
    let two = service("a", 80) + "---\n" + &service("b", 80);
    let (temp, mut watched) = start(&[("a.yaml", &two)]);
    watched.first();
    let mut file = fs::File::create(temp.path().join("a.yaml")).unwrap();
    watched.until(
        "!a.yaml[a.yaml: Service default/a and 1 more: not readable now, \
         the last good version stays in force]",
    );
    file.write_all(service("a", 81).as_bytes()).unwrap();
    watched.until("+Service default/a:81");
    // Closing it changes no byte, and completes it.
    drop(file);
    watched.expect("-Service default/b !a.yaml[]");
}

#[test]
fn object_that_moves_between_files_is_not_deleted() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    fs::rename(temp.path().join("a.yaml"), temp.path().join("b.yaml")).unwrap();
    fs::write(temp.path().join("c.yaml"), service("c", 80)).unwrap();
    watched.expect("+Service default/c:80");
    fs::remove_file(temp.path().join("b.yaml")).unwrap();
    fs::write(temp.path().join("d.yaml"), service("a", 99)).unwrap();
    watched.expect("+Service default/a:99");
}

#[test]
fn config_map_volume() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir(dir.join("..v1")).unwrap();
    fs::write(dir.join("..v1/a.yaml"), service("a", 80)).unwrap();
    fs::write(dir.join("..v1/b.yaml"), service("b", 80)).unwrap();
    symlink("..v1", dir.join("..data")).unwrap();
    symlink("..data/a.yaml", dir.join("a.yaml")).unwrap();
    symlink("..data/b.yaml", dir.join("b.yaml")).unwrap();
    let mut watched = Watched::start(dir);
    assert_eq!(set_names(&watched.first()).len(), 2);

    // The kubelet's order: new folder, new link, rename over, user-visible names last.
    fs::create_dir(dir.join("..v2")).unwrap();
    fs::write(dir.join("..v2/a.yaml"), service("a", 81)).unwrap();
    fs::write(dir.join("..v2/c.yaml"), service("c", 80)).unwrap();
    symlink("..v2", dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    symlink("..data/c.yaml", dir.join("c.yaml")).unwrap();
    fs::remove_file(dir.join("b.yaml")).unwrap();
    fs::remove_dir_all(dir.join("..v1")).unwrap();
    watched.expect("+Service default/a:81 -Service default/b +Service default/c:80");
}

#[test]
fn unreadable_file_keeps_its_last_state() {
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = temp.path().join("a.yaml");
    fs::write(&path, service("a", 80)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    // The watch's thread inherits the user: root could read any file.
    if Uid::effective().is_root() {
        setfsuid(Uid::from_raw(65534));
    }
    let mut watched = Watched::start(temp.path());
    setfsuid(Uid::effective());
    watched.first();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    watched.expect(
        "!a.yaml[a.yaml: cannot be read: Permission denied (os error 13)|\
         a.yaml: Service default/a: not readable now, the last good version stays in force]",
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    watched.expect("!a.yaml[]");
}

#[test]
fn dangling_link_keeps_its_last_state() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    symlink("nowhere", temp.path().join("link")).unwrap();
    fs::rename(temp.path().join("link"), temp.path().join("a.yaml")).unwrap();
    watched.expect(
        "!a.yaml[a.yaml: cannot be read: No such file or directory (os error 2)|\
         a.yaml: Service default/a: not readable now, the last good version stays in force]",
    );
    fs::remove_file(temp.path().join("a.yaml")).unwrap();
    watched.expect("-Service default/a !a.yaml[]");
}

#[test]
fn broken_document_keeps_what_it_gave() {
    let two = service("a", 80) + "---\n" + &service("b", 80);
    let (temp, mut watched) = start(&[("a.yaml", &two)]);
    watched.first();
    let broken = service("a", 81) + "---\n\t: {[\n";
    fs::write(temp.path().join("a.yaml"), broken).unwrap();
    let batch = watched.next();
    assert_eq!(set_names(&batch), ["Service default/a"], "{batch:?}");
    assert!(!batch.iter().any(|it| matches!(it, Event::Delete(_))));
    fs::write(temp.path().join("a.yaml"), service("a", 81)).unwrap();
    watched.expect("-Service default/b !a.yaml[]");
}

#[test]
fn invalid_object_keeps_its_last_good_version() {
    let (temp, mut watched) = start(&[("a.yaml", &service("a", 80))]);
    watched.first();
    fs::write(temp.path().join("a.yaml"), service("a", 0)).unwrap();
    watched.expect(
        "!a.yaml[a.yaml:1: Service default/a: refused: its last good version stays in force|\
         a.yaml:4: Service default/a: spec.ports[0].port: 0 is not in 1..=65535]",
    );
    fs::write(temp.path().join("a.yaml"), service("a", 80)).unwrap();
    watched.expect("!a.yaml[]");
}

#[test]
fn duplicate_takes_over_when_the_first_goes() {
    let (a, b) = (service("x", 80), service("x", 81));
    let (temp, mut watched) = start(&[("a.yaml", &a), ("b.yaml", &b)]);
    let first = watched.first();
    assert_eq!(set_names(&first), ["Service default/x"]);
    fs::remove_file(temp.path().join("a.yaml")).unwrap();
    watched.expect("+Service default/x:81 !b.yaml[]");
    fs::write(temp.path().join("a.yaml"), &a).unwrap();
    watched.expect(
        "+Service default/x:80 !b.yaml[b.yaml:1: Service default/x: is also in a.yaml:1, \
         which counts: this one is ignored]",
    );
}

#[test]
fn vanished_folder_keeps_everything() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("m");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a.yaml"), service("a", 80)).unwrap();
    let mut watched = Watched::start(&dir);
    watched.first();
    fs::remove_dir_all(&dir).unwrap();
    let batch = watched.next();
    let [Event::Problems { problems, .. }] = &*batch else {
        panic!("{batch:?}");
    };
    assert!(problems[0].contains("stays in force"), "{problems:?}");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a.yaml"), service("a", 81)).unwrap();
    let batch = watched.next();
    assert_eq!(set_names(&batch), ["Service default/a"], "{batch:?}");
    assert_eq!(batch.len(), 2, "the object, and the end of the problem");
}

#[test]
fn folder_replaced_by_rename() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("m");
    for (name, port) in [("m", 80), ("n", 81)] {
        let dir = temp.path().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a.yaml"), service("a", port)).unwrap();
    }
    let mut watched = Watched::start(&dir);
    watched.first();
    fs::rename(&dir, temp.path().join("old")).unwrap();
    fs::rename(temp.path().join("n"), &dir).unwrap();
    watched.until("+Service default/a:81");
    fs::write(dir.join("b.yaml"), service("b", 80)).unwrap();
    watched.expect("+Service default/b:80");
}

#[test]
fn folder_behind_a_link() {
    let temp = tempfile::tempdir().unwrap();
    for (name, port) in [("v1", 80), ("v2", 81)] {
        let dir = temp.path().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a.yaml"), service("a", port)).unwrap();
    }
    let link = temp.path().join("link");
    symlink("v1", &link).unwrap();
    let mut watched = Watched::start(&link);
    watched.first();
    fs::write(link.join("b.yaml"), service("b", 80)).unwrap();
    watched.expect("+Service default/b:80");
    symlink("v2", temp.path().join("new")).unwrap();
    fs::rename(temp.path().join("new"), &link).unwrap();
    watched.expect("+Service default/a:81 -Service default/b");
}

#[test]
fn link_further_up_is_swapped() {
    let temp = tempfile::tempdir().unwrap();
    for (name, port) in [("v1", 80), ("v2", 81)] {
        let dir = temp.path().join(name).join("m");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.yaml"), service("a", port)).unwrap();
    }
    symlink("v1", temp.path().join("now")).unwrap();
    let mut watched = Watched::start(&temp.path().join("now/m"));
    watched.first();
    symlink("v2", temp.path().join("new")).unwrap();
    fs::rename(temp.path().join("new"), temp.path().join("now")).unwrap();
    watched.expect("+Service default/a:81");
}

/// No event reports that a folder further up was renamed; the new content of the old path is not taken for deletions.
#[test]
fn renamed_ancestor_keeps_everything() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("a/b/m");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("a.yaml"), service("a", 80)).unwrap();
    let mut watched = Watched::start(&dir);
    watched.first();
    fs::rename(temp.path().join("a"), temp.path().join("z")).unwrap();
    fs::write(temp.path().join("z/b/m/a.yaml"), service("a", 81)).unwrap();
    let batch = watched.next();
    assert!(matches!(&*batch, [Event::Problems { .. }]), "{batch:?}");
    fs::rename(temp.path().join("z"), temp.path().join("a")).unwrap();
    watched.until("+Service default/a:81");
}

#[test]
fn names_that_are_no_manifests() {
    let (temp, mut watched) = start(&[(".hidden.yaml", "x: ["), ("notes.txt", "x: [")]);
    assert_eq!(watched.first(), [Event::Synced]);
    fs::create_dir(temp.path().join("dir.yaml")).unwrap();
    nix::unistd::mkfifo(
        &temp.path().join("pipe.yaml"),
        nix::sys::stat::Mode::S_IRUSR,
    )
    .unwrap();
    watched.expect("!pipe.yaml[pipe.yaml: is no regular file]");
}

#[test]
fn extensions_in_any_case_and_backups() {
    let (temp, mut watched) = start(&[("a.YAML", &service("a", 80)), ("b.Yml", &service("b", 80))]);
    assert_eq!(
        set_names(&watched.first()),
        ["Service default/a", "Service default/b"]
    );
    for name in [
        "x.yaml~",
        "#x.yaml#",
        ".x.yaml.swp",
        "x.yaml.bak",
        "x.yaml.orig",
    ] {
        fs::write(temp.path().join(name), service("x", 80)).unwrap();
    }
    fs::write(temp.path().join("c.yaml"), service("c", 80)).unwrap();
    watched.expect("+Service default/c:80");
}

#[test]
fn many_files_and_one_change() {
    let temp = tempfile::tempdir().unwrap();
    for i in 0..2_000 {
        let name = format!("s{i}");
        fs::write(temp.path().join(format!("{name}.yaml")), service(&name, 80)).unwrap();
    }
    let mut watched = Watched::start(temp.path());
    assert_eq!(set_names(&watched.first()).len(), 2_000);
    fs::write(temp.path().join("s7.yaml"), service("s7", 81)).unwrap();
    watched.expect("+Service default/s7:81");
}

/// The sink blocks the watch's thread while the kernel's queue overflows; the lost changes are found by reading every
/// file.
#[test]
fn queue_overflow_is_a_rescan() {
    let temp = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let (sender, batches) = channel();
    let inner = gate.clone();
    let _watch = crate::support::watch(temp.path(), Kinds::PROXY.wants(), move |it| {
        sender.send(it).unwrap();
        drop(inner.lock());
    });
    let next = || batches.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(next(), [Event::Synced]);
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let names = ["a.yaml", "b.yaml"].map(|it| temp.path().join(it));
    names.iter().for_each(|it| fs::write(it, "#").unwrap());
    // The kernel joins events that are alike: the names take turns.
    for i in 0..limit.trim().parse().unwrap_or(16_384_usize) {
        let rights = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&names[i % 2], rights).unwrap();
    }
    fs::write(temp.path().join("lost.yaml"), service("lost", 80)).unwrap();
    drop(held);
    assert_eq!(set_names(&next()), ["Service default/lost"]);
}

#[test]
fn drop_ends_the_thread() {
    let (_temp, mut watched) = start(&[]);
    watched.first();
    watched.stop();
    assert!(watched.is_disconnected());
}

/// A proxy never holds what only DNS needs, and a DNS server in an agent only the pods of its node.
#[test]
fn kinds_that_are_not_wanted_are_skipped() {
    let temp = tempfile::tempdir().unwrap();
    let pods: String = ["n1", "n2"]
        .map(|node| {
            format!(
                "---\n{}\n",
                crate::support::pod_object(&format!("on-{node}"), node, "10.1.0.1")
            )
        })
        .concat();
    let text = format!(
        "{}---\n{}\n{pods}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: BAD}}\n",
        service("web", 80),
        crate::support::namespace_object("shop")
    );
    std::fs::write(temp.path().join("a.yaml"), text).unwrap();
    let of_node = Kinds {
        namespaces: true,
        pods: Pods::OfNode("n1".into()),
    };
    for (kinds, objects, problems) in [
        (Kinds::PROXY, &["Service default/web"][..], 0),
        (
            of_node,
            &["Service default/web", "Namespace shop", "Pod default/on-n1"],
            1,
        ),
        (
            crate::support::all_kinds(),
            &[
                "Service default/web",
                "Namespace shop",
                "Pod default/on-n1",
                "Pod default/on-n2",
            ],
            1,
        ),
    ] {
        let loaded = crate::support::load(temp.path(), &kinds).unwrap();
        let keys = loaded.objects.iter().map(|it| it.key().to_string());
        assert_eq!(keys.collect::<Vec<_>>(), objects);
        assert_eq!(loaded.problems.len(), problems, "{:?}", loaded.problems);
        let (sender, batches) = channel();
        let sink = move |it: Vec<Event>| {
            let _ = sender.send(it);
        };
        let _watch = crate::support::watch(temp.path(), kinds.wants(), sink).unwrap();
        let mut view = crate::support::View::new(batches);
        view.until("synced", |it| it.synced == 1);
        assert_eq!(view.objects.len(), objects.len());
    }
}
