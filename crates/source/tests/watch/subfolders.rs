//! Tests subfolders: they are read, and followed when they are created, changed and removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Kinds, load, service};
use crate::watch::watched::{Watched, set_names};

fn write(path: &Path, name: &str, port: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, service(name, port)).unwrap();
}

#[test]
fn subfolders_are_read_and_followed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    write(&dir.join("a/web.yaml"), "a", 80);
    write(&dir.join("b/c/web.yaml"), "c", 80);
    fs::write(dir.join("b/bad.yaml"), "kind: [").unwrap();
    let mut watched = Watched::start(dir);
    let first = watched.first();
    assert_eq!(
        set_names(&first),
        ["Service default/a", "Service default/c"]
    );
    assert_eq!(load(dir, &Kinds::PROXY).unwrap().objects.len(), 2);
    let problems = load(dir, &Kinds::PROXY).unwrap().problems;
    assert_eq!(problems[0].file, "b/bad.yaml");
    write(&dir.join("b/c/web.yaml"), "c", 81);
    watched.expect("+Service default/c:81");
    // A new one, then a file in it, then a folder in it that came with a file.
    fs::create_dir(dir.join("new")).unwrap();
    write(&dir.join("new/x.yaml"), "x", 80);
    watched.expect("+Service default/x:80");
    let elsewhere = tempfile::tempdir().unwrap();
    write(&elsewhere.path().join("y/y.yaml"), "far", 80);
    fs::rename(elsewhere.path().join("y"), dir.join("new/y")).unwrap();
    watched.expect("+Service default/far:80");
    write(&dir.join("new/y/y.yaml"), "far", 81);
    watched.expect("+Service default/far:81");
    fs::remove_dir_all(dir.join("new")).unwrap();
    watched.expect("-Service default/far -Service default/x");
}

#[test]
fn renamed_subfolder_changes_no_object() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    write(&dir.join("a/web.yaml"), "a", 80);
    let mut watched = Watched::start(dir);
    watched.first();
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    write(&dir.join("b/web.yaml"), "a", 81);
    watched.expect("+Service default/a:81");
    // The name is free for another one.
    write(&dir.join("a/other.yaml"), "other", 80);
    watched.expect("+Service default/other:80");
}

#[test]
fn subfolder_that_moves_away_takes_its_objects_along() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, away) = (temp.path().join("m"), temp.path().join("away"));
    write(&dir.join("a/web.yaml"), "a", 80);
    write(&dir.join("b.yaml"), "b", 80);
    let mut watched = Watched::start(&dir);
    watched.first();
    fs::rename(dir.join("a"), &away).unwrap();
    watched.expect("-Service default/a");
    write(&away.join("web.yaml"), "a", 81);
    write(&dir.join("b.yaml"), "b", 81);
    watched.expect("+Service default/b:81");
}

#[test]
fn hidden_folders_and_backups_are_not_read() {
    let temp = tempfile::tempdir().unwrap();
    for name in [".git", "..data", "a~", "a.bak", "a.old", "a.orig"] {
        write(&temp.path().join(name).join("x.yaml"), "x", 80);
    }
    write(&temp.path().join("a/x.yaml"), "x", 81);
    let mut watched = Watched::start(temp.path());
    assert_eq!(set_names(&watched.first()), ["Service default/x"]);
    write(&temp.path().join(".git/y.yaml"), "y", 80);
    write(&temp.path().join("b.bak/y.yaml"), "y", 80);
    write(&temp.path().join("a/x.yaml"), "x", 82);
    watched.expect("+Service default/x:82");
}

/// Links in a circle, and two ways to one folder.
#[test]
fn no_folder_is_read_twice() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    write(&dir.join("z/web.yaml"), "a", 80);
    symlink("..", dir.join("z/up")).unwrap();
    symlink(".", dir.join("self.yaml")).unwrap();
    symlink("z", dir.join("a")).unwrap();
    let mut watched = Watched::start(dir);
    let first = watched.first();
    assert_eq!(set_names(&first), ["Service default/a"]);
    assert_eq!(first.len(), 2, "no problem: {first:?}");
    write(&dir.join("a/web.yaml"), "a", 81);
    watched.expect("+Service default/a:81");
}

#[test]
fn linked_folder_is_followed_until_the_link_goes() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, far) = (temp.path().join("m"), temp.path().join("far"));
    fs::create_dir(&dir).unwrap();
    write(&far.join("web.yaml"), "a", 80);
    let mut watched = Watched::start(&dir);
    watched.first();
    symlink("../far", dir.join("team")).unwrap();
    watched.expect("+Service default/a:80");
    write(&far.join("web.yaml"), "a", 81);
    watched.expect("+Service default/a:81");
    fs::remove_file(dir.join("team")).unwrap();
    watched.expect("-Service default/a");
}

/// A ConfigMap's items with paths: the kubelet links the first folder of each.
#[test]
fn config_map_volume_with_folders() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    write(&dir.join("..v1/team/a.yaml"), "a", 80);
    symlink("..v1", dir.join("..data")).unwrap();
    symlink("..data/team", dir.join("team")).unwrap();
    let mut watched = Watched::start(dir);
    assert_eq!(set_names(&watched.first()), ["Service default/a"]);
    write(&dir.join("..v2/team/a.yaml"), "a", 81);
    symlink("..v2", dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    fs::remove_dir_all(dir.join("..v1")).unwrap();
    watched.expect("+Service default/a:81");
}

#[test]
fn folder_that_is_too_deep_is_a_problem() {
    let temp = tempfile::tempdir().unwrap();
    let folders = |count: usize| vec!["d"; count].join("/");
    write(&temp.path().join(folders(16)).join("a.yaml"), "a", 80);
    write(&temp.path().join(folders(17)).join("b.yaml"), "b", 80);
    let loaded = load(temp.path(), &Kinds::PROXY).unwrap();
    assert_eq!(loaded.objects.len(), 1);
    let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [format!("{}: is below 16 folders: not read", folders(17))]
    );
}

#[test]
fn closed_subfolder_keeps_its_objects() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    crate::watch::faults::set_rights(dir, 0o755);
    write(&dir.join("a/web.yaml"), "a", 80);
    crate::watch::faults::set_rights(&dir.join("a"), 0o755);
    crate::watch::faults::set_rights(&dir.join("a/web.yaml"), 0o644);
    let mut watched = crate::watch::faults::start_as_nobody(dir);
    crate::watch::faults::set_rights(&dir.join("a"), 0o000);
    watched.until("!a[a: cannot be read: Permission denied (os error 13)]");
    write(&dir.join("a/web.yaml"), "a", 81);
    crate::watch::faults::set_rights(&dir.join("a"), 0o755);
    watched.until("+Service default/a:81");
    write(&dir.join("a/web.yaml"), "a", 82);
    watched.expect("+Service default/a:82");
}
