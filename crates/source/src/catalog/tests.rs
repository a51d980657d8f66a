//! Files in a mini-language, events out as text.

use super::*;
use crate::convert::Interner;
use sluice_model::{EndpointSlice, Service};

use crate::hub::Wants;
use crate::kinds;
use crate::manifest;

/// A folder whose files hold Services: `a:80` is good, `a:0` is not, `!` cannot be read; slices of
/// them: `x>a`; Endpoints: `>a`, those of a controller `^>a`.
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
            if let Some((slice, service)) = word.split_once('>') {
                text += &endpoints(slice, service);
                continue;
            }
            text += &match word.split_once(':') {
                None => "{\n---\n".to_owned(),
                Some((name, port)) => format!(
                    "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, \
                     spec: {{clusterIP: 10.96.0.1, ports: [{{port: {port}}}]}}}}\n---\n"
                ),
            };
        }
        let wanted = Wants::<()>::new(drop)
            .want_all::<kinds::Service>(drop)
            .want_all::<kinds::EndpointSlice>(drop)
            .topics();
        self.catalog.read_kinds(&wanted);
        let manifest = manifest::read(name, text.as_bytes(), &wanted, &mut self.names);
        (name.into(), Change::Read(manifest))
    }
}

fn endpoints(slice: &str, service: &str) -> String {
    match slice {
        "" | "^" => format!(
            "{{apiVersion: v1, kind: Endpoints, metadata: {{name: {service}{}}}, subsets: [{{addresses: \
             [{{ip: 10.0.0.1}}, {{ip: 'fd00::1'}}], ports: [{{port: 80}}]}}]}}\n---\n",
            match slice {
                "^" => ", labels: {endpoints.kubernetes.io/managed-by: endpoint-controller}",
                _ => "",
            }
        ),
        slice => format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {slice}, \
             labels: {{kubernetes.io/service-name: {service}}}}}, addressType: IPv4, endpoints: \
             [{{addresses: [10.0.0.1]}}], ports: [{{port: 80}}]}}\n---\n"
        ),
    }
}

fn brief(event: &Event) -> String {
    match event {
        Event::Set(object) => match object.model::<Service>() {
            Some(it) => format!("+{}:{}", it.name.name, it.ports[0].port),
            None => format!("+{}", object.model::<EndpointSlice>().unwrap().name.name),
        },
        Event::Delete(key) => format!("-{key}"),
        Event::Problems { origin, problems } => format!("{origin}: {} problems", problems.len()),
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
fn slices_without_a_service_are_a_problem_until_it_is_there() {
    let mut folder = Folder::default();
    folder.check(
        &["f=x>a w>a z>b", "g=b:80"],
        &["+b:80", "+w", "+x", "+z", "f: 2 problems"],
    );
    let problem = folder.catalog.problems()[0].to_string();
    let expected = "f:1: EndpointSlice default/x: no file has a Service default/a that can be read, so \
                    nobody reaches these endpoints: write the Service, or the name of another one";
    assert_eq!(problem, expected);
    folder.check(&["h=a:80"], &["+a:80", "f: 0 problems"]);
    folder.check(&["h=a:81"], &["+a:81"]);
    // Refused, with its last good version in force, and then without.
    folder.check(&["h=a:0"], &["h: 2 problems"]);
    folder.check(
        &["h"],
        &["-Service default/a", "f: 2 problems", "h: 0 problems"],
    );
    folder.check(
        &["g", "f=z>b"],
        &[
            "-Service default/b",
            "-EndpointSlice default/w",
            "-EndpointSlice default/x",
            "f: 1 problems",
        ],
    );
    folder.check(
        &["i=>c"],
        &[
            "+c-endpoints-0-ipv4",
            "+c-endpoints-0-ipv6",
            "i: 1 problems",
        ],
    );
    folder.check(
        &["i"],
        &[
            "-EndpointSlice default/c-endpoints-0-ipv4",
            "-EndpointSlice default/c-endpoints-0-ipv6",
            "i: 0 problems",
        ],
    );
}

#[test]
fn endpoints_count_without_slices() {
    let (v4, v6) = (
        "EndpointSlice default/a-endpoints-0-ipv4",
        "EndpointSlice default/a-endpoints-0-ipv6",
    );
    let mut folder = Folder::default();
    folder.check(
        &["f=a:80 >a"],
        &["+a:80", "+a-endpoints-0-ipv4", "+a-endpoints-0-ipv6"],
    );
    let gone = [
        &format!("-{v4}")[..],
        &format!("-{v6}"),
        "+x",
        "f: 1 problems",
    ];
    folder.check(&["g=x>a"], &gone);
    let problem = folder.catalog.problems()[0].to_string();
    let expected = "f:3: Endpoints default/a: the Service has EndpointSlices in these files, which \
                    count: this object is ignored: remove it, or them";
    assert_eq!(problem, expected);
    folder.check(&["h=w>a"], &["+w"]);
    folder.check(&["g"], &["-EndpointSlice default/x"]);
    // Moved to another Service.
    let back = [
        "+a-endpoints-0-ipv4",
        "+a-endpoints-0-ipv6",
        "+w",
        "f: 0 problems",
        "h: 1 problems",
    ];
    folder.check(&["h=w>b"], &back);
    // In an export of a cluster both are there, with the same endpoints.
    folder.check(
        &["f=a:80 ^>a w>a", "h="],
        &[
            &format!("-{v4}")[..],
            &format!("-{v6}"),
            "+w",
            "h: 0 problems",
        ],
    );
    folder.check(
        &["f=a:80 >a", "h=>a"],
        &[
            "+a-endpoints-0-ipv4",
            "+a-endpoints-0-ipv6",
            "-EndpointSlice default/w",
            "h: 1 problems",
        ],
    );
}

#[test]
fn nothing_is_left_behind() {
    let mut folder = Folder::default();
    folder.check(&["f=a:80 a:80 b:0"], &["+a:80", "f: 2 problems"]);
    folder.check(&["f"], &["-Service default/a", "f: 0 problems"]);
    folder.check(&["f=a:80 x>a >a"], &["+a:80", "+x", "f: 1 problems"]);
    let gone = [
        "-Service default/a",
        "-EndpointSlice default/x",
        "f: 0 problems",
    ];
    folder.check(&["f"], &gone);
    assert!(folder.catalog.owned.is_empty());
    assert!(folder.catalog.files.is_empty());
    assert!(folder.catalog.sources.is_empty());
    assert!(folder.catalog.delivered.is_empty());
}
