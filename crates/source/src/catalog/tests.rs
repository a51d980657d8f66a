//! Files in a mini-language, events out as text.

use super::*;
use crate::convert::Interner;
use crate::manifest;

/// A folder whose files hold Services: `a:80` is good, `a:0` is not, `!` cannot be read.
#[derive(Default)]
struct Folder {
    catalog: Catalog,
    names: Interner,
}

impl Folder {
    /// `files`: `f.yaml=a:80 b:81`, `f.yaml=` (empty), `f.yaml` (gone), `f.yaml?` (unreadable).
    #[track_caller]
    fn check(&mut self, files: &[&str], expected: &[&str]) {
        let changes = files.iter().map(|it| self.change(it)).collect();
        let events: Vec<String> = self.catalog.apply(changes).iter().map(brief).collect();
        assert_eq!(events, expected);
    }

    fn change(&mut self, file: &str) -> (Arc<str>, Change) {
        if let Some(name) = file.strip_suffix('?') {
            return (name.into(), Change::Unreadable("is no file".into()));
        }
        let Some((name, services)) = file.split_once('=') else {
            return (file.into(), Change::Gone);
        };
        let mut text = String::new();
        for word in services.split_whitespace() {
            text += &match word.split_once(':') {
                None => "{\n---\n".to_owned(),
                Some((name, port)) => format!(
                    "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, \
                     spec: {{ports: [{{port: {port}}}]}}}}\n---\n"
                ),
            };
        }
        let manifest = manifest::read(name, text.as_bytes(), &mut self.names);
        (name.into(), Change::Read(manifest))
    }
}

fn brief(event: &Event) -> String {
    match event {
        Event::Set(Object::Service(it)) => format!("+{}:{}", it.name.name, it.ports[0].port),
        Event::Delete(key) => format!("-{key}"),
        Event::Problems { origin, problems } => format!("{origin}: {} problems", problems.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_changed_objects_are_events() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80 b:80"], &["+a:80", "+b:80"]);
    folder.check(&["f=b:80 a:80"], &[]);
    folder.check(&["f=a:81 b:80 c:80"], &["+a:81", "+c:80"]);
    folder.check(&["f=c:80"], &["-Service default/a", "-Service default/b"]);
    folder.check(&["f"], &["-Service default/c"]);
    folder.check(&["f"], &[]);
}

#[test]
fn moved_object_is_no_event() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80", "g="], &["+a:80"]);
    folder.check(&["f=", "g=a:80"], &[]);
    folder.check(&["g", "h=a:81"], &["+a:81"]);
}

#[test]
fn first_file_counts() {
    let mut folder = Folder::default();
    folder.check(&["g=a:81"], &["+a:81"]);
    folder.check(&["f=a:80"], &["+a:80", "g: 1 problems"]);
    folder.check(&["e=a:79"], &["+a:79", "f: 1 problems", "g: 1 problems"]);
    folder.check(&["e", "f"], &["+a:81", "f: 0 problems", "g: 0 problems"]);
}

#[test]
fn invalid_object_keeps_its_last_good_version() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80 b:80"], &["+a:80", "+b:80"]);
    folder.check(&["f=a:0 b:81"], &["+b:81", "f: 2 problems"]);
    folder.check(&["f=a:0"], &["-Service default/b"]);
    // Broken while it moves: still there.
    folder.check(&["f", "g=a:0"], &["f: 0 problems", "g: 2 problems"]);
    folder.check(&["g="], &["-Service default/a", "g: 0 problems"]);
    folder.check(&["g=a:0"], &["g: 1 problems"]);
}

#[test]
fn live_version_beats_a_kept_one() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80"], &["+a:80"]);
    folder.check(&["f=a:0", "g=a:82"], &["+a:82", "f: 2 problems"]);
    folder.check(&["f=a:83"], &["+a:83", "f: 0 problems", "g: 1 problems"]);
}

#[test]
fn break_keeps_what_is_not_seen() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80 b:80 c:80"], &["+a:80", "+b:80", "+c:80"]);
    folder.check(&["f=a:81 { c:81"], &["+a:81", "+c:81", "f: 2 problems"]);
    folder.check(&["f=a:81 {"], &["f: 2 problems"]);
    folder.check(
        &["f=a:81"],
        &["-Service default/b", "-Service default/c", "f: 0 problems"],
    );
}

#[test]
fn unreadable_file_keeps_everything() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80"], &["+a:80"]);
    folder.check(&["f?"], &["f: 2 problems"]);
    folder.check(&["f?"], &[]);
    folder.check(&["f=a:80"], &["f: 0 problems"]);
    folder.check(&["g?"], &["g: 1 problems"]);
    folder.check(&["g"], &["g: 0 problems"]);
}

#[test]
fn problems_of_a_file_are_bounded() {
    let mut folder = Folder::default();
    let many = format!("f={}", "a:80 ".repeat(3_000));
    folder.check(&[&many], &["+a:80", "f: 1001 problems"]);
    let problems = folder.catalog.problems();
    assert_eq!(problems[1_000].message, "1999 further problems");
}

#[test]
fn nothing_is_left_behind() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80 a:80 b:0"], &["+a:80", "f: 2 problems"]);
    folder.check(&["f"], &["-Service default/a", "f: 0 problems"]);
    assert!(folder.catalog.files.is_empty());
    assert!(folder.catalog.sources.is_empty());
    assert!(folder.catalog.delivered.is_empty());
}
