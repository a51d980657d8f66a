//! Hostile manifests: each file of `corpus/` has a list of objects and problems in
//! `corpus/expected/`, and none of them touches the healthy Service of another file.
//!
//! `SLUICE_BLESS=1 cargo test` rewrites the lists; look at the difference.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Loaded, Object, load};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Loads a file with a healthy one beside it that sorts first, and looks at that one.
fn load_beside_a_healthy_one(name: &str, bytes: &[u8]) -> Loaded {
    let temp = tempfile::tempdir().unwrap();
    fs::write(
        temp.path().join("0.yaml"),
        crate::support::service("healthy", 80),
    )
    .unwrap();
    let healthy = load(temp.path(), &crate::support::all_kinds()).unwrap();
    assert_eq!(healthy.problems, []);
    fs::write(temp.path().join(name), bytes).unwrap();
    let mut loaded = load(temp.path(), &crate::support::all_kinds()).unwrap();
    let is_healthy = |it: &Object| *it == healthy.objects[0];
    assert!(
        loaded.objects.iter().any(is_healthy),
        "{name}: healthy is gone"
    );
    loaded.objects.retain(|it| !is_healthy(it));
    loaded
}

fn listing(loaded: &Loaded) -> String {
    let mut text = String::new();
    for object in &loaded.objects {
        writeln!(text, "+ {}", object.key()).unwrap();
    }
    for problem in &loaded.problems {
        writeln!(text, "{problem}").unwrap();
    }
    text
}

#[test]
fn golden_problems_of_hostile_files() {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    let mut files: Vec<PathBuf> = fs::read_dir(corpus())
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_file())
        .collect();
    files.sort();
    assert!(files.len() > 30);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let got = listing(&load_beside_a_healthy_one(name, &fs::read(&path).unwrap()));
        let golden = corpus().join("expected").join(format!("{name}.txt"));
        if bless {
            fs::write(&golden, &got).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(got, expected, "{name}");
    }
}

/// 100,000 lines: one list of 10,000 Services, one of which is bad.
#[test]
fn long_file_is_read_to_the_end() {
    let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for i in 0..12_500 {
        let port = if i == 12_345 { 0 } else { 80 };
        write!(
            text,
            "- apiVersion: v1\n  kind: Service\n  metadata:\n    name: s{i}\n  spec:\n    \
             clusterIP: 10.96.0.9\n    ports:\n    - port: {port}\n"
        )
        .unwrap();
    }
    let loaded = load_beside_a_healthy_one("long.yaml", text.as_bytes());
    assert_eq!(loaded.objects.len(), 12_499);
    let problem = loaded.problems[0].to_string();
    let line = 3 + 12_345 * 8 + 8;
    let expected = format!(
        "long.yaml:{line}: Service default/s12345: spec.ports[0].port: 0 is not in 1..=65535"
    );
    assert_eq!(problem, expected);
}

#[test]
fn file_larger_than_the_limit_is_not_read() {
    let temp = tempfile::tempdir().unwrap();
    let file = fs::File::create(temp.path().join("big.yaml")).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let problems = load(temp.path(), &crate::support::all_kinds())
        .unwrap()
        .problems;
    assert_eq!(problems[0].to_string(), "big.yaml: is larger than 64 MiB");
}

#[test]
fn problems_are_json() {
    let loaded = load_beside_a_healthy_one("x.yaml", crate::support::service("x", 0).as_bytes());
    let json = serde_json::to_string(&loaded.problems[0]).unwrap();
    assert_eq!(
        json,
        r#"{"file":"x.yaml","line":4,"object":"Service default/x","field":"spec.ports[0].port","message":"0 is not in 1..=65535"}"#
    );
}
