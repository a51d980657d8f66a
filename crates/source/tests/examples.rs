//! Tests that every example is read without a problem.

use std::path::Path;

use crate::support::{Kinds, Object, load};

#[test]
fn examples_load_without_problems() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let loaded = load(dir, &Kinds::PROXY).unwrap();
    assert_eq!(loaded.problems, []);
    let services = (loaded.objects.iter()).filter(|it| matches!(it, Object::Service(_)));
    assert_eq!(services.count(), 9);
}

#[test]
fn examples_say_what_they_show() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{}: no comment", path.display());
    }
}
