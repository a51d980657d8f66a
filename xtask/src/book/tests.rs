use super::*;

/// A tree with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn broken_links_pictures_and_missing_pages_are_found() {
    let root = tree(&[
        (
            "README.md",
            "# Start\n[no](docs/none.md) [x](docs/a.md#none)",
        ),
        ("CONTRIBUTING.md", "# Not in the book"),
        ("docs/SUMMARY.md", "[S](../README.md)\n- [A](a.md)"),
        (
            "docs/a.md",
            "# A\n[self](#a) ![](p.svg) ![p](q.svg) [c](../CONTRIBUTING.md) [s](../README.md#start)",
        ),
        ("docs/b.md", "# B"),
        ("docs/p.svg", "<svg/>"),
        ("target/c.md", "[no](none)"),
    ]);
    assert_eq!(
        check(root.path()).unwrap(),
        [
            "README.md: no file for the link docs/none.md",
            "README.md: no heading for the link docs/a.md#none",
            "docs/a.md: ../CONTRIBUTING.md is not in docs/SUMMARY.md",
            "docs/a.md: p.svg has no alternative text",
            "docs/a.md: no picture q.svg",
            "docs/b.md: not in docs/SUMMARY.md",
        ]
    );
}

#[test]
fn pages_keep_their_paths_and_take_their_files_along() {
    let root = tree(&[
        ("README.md", "[e](examples/) [a](docs/a.md)"),
        ("docs/book.toml", "[book]"),
        ("docs/SUMMARY.md", "[S](../README.md)\n- [A](a.md)"),
        (
            "docs/a.md",
            "![p](p.svg) [code](../src/x.rs) [s](../README.md)",
        ),
        ("docs/p.svg", "<svg/>"),
        ("src/x.rs", "fn x() {}"),
        ("src/y.rs", "fn y() {}"),
        ("examples/e.yaml", "kind: Service"),
    ]);
    assert_eq!(check(root.path()).unwrap(), Vec::<String>::new());
    let folder = root.path().join("target/book");
    lay_out(root.path(), &folder).unwrap();
    let read = |path: &str| fs::read_to_string(folder.join("src").join(path)).ok();
    assert_eq!(
        read("SUMMARY.md").as_deref(),
        Some("[S](README.md)\n- [A](docs/a.md)")
    );
    for path in ["docs/a.md", "docs/p.svg", "src/x.rs", "examples/e.yaml"] {
        assert_eq!(read(path), fs::read_to_string(root.path().join(path)).ok());
    }
    let list = read("examples/index.html").unwrap();
    assert!(list.contains("<a href=\"e.yaml\">"), "{list}");
    assert_eq!(read("src/y.rs"), None);
}
