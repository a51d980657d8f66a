//! Rules of the source tree: dependencies, purity, forbidden words, lengths of files, links of documents.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file outside tests, in lines.
const LONGEST_FILE: usize = 600;

/// The crates of the workspace that each crate may depend on; the key is the crate's folder.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("yaml", &[]),
    ("http", &[]),
    ("tls", &[]),
    ("lab/streams", &[]),
    (
        "lab/api",
        &["controller", "http", "model", "streams", "yaml"],
    ),
    ("reconcile", &[]),
    ("service/plan", &["model", "objects"]),
    ("policy/plan", &["model", "objects"]),
    (
        "policy/agent",
        &[
            "model",
            "netlink",
            "nft",
            "node",
            "policy-nftables",
            "policy-plan",
            "reconcile",
            "route",
            "source",
        ],
    ),
    (
        "policy/nftables",
        &["model", "netlink", "nft", "policy-plan", "reconcile"],
    ),
    ("picture", &["model", "plan"]),
    ("lab/controller", &["model"]),
    (
        "lab/cluster",
        &[
            "api",
            "controller",
            "lab",
            "model",
            "reconcile",
            "source",
            "streams",
            "yaml",
        ],
    ),
    ("config", &["model", "plan", "yaml"]),
    ("source", &["model", "reconcile", "tls", "yaml"]),
    ("kernel/netlink", &[]),
    ("kernel/nft", &["netlink", "reconcile"]),
    ("kernel/xtables", &["model", "netlink", "nft"]),
    ("kernel/route", &["netlink"]),
    ("kernel/bpf", &["netlink", "reconcile", "route"]),
    (
        "service/plane",
        &[
            "config",
            "model",
            "netlink",
            "nft",
            "plan",
            "reconcile",
            "route",
            "xtables",
        ],
    ),
    (
        "service/nftables",
        &["model", "netlink", "nft", "plan", "plane", "reconcile"],
    ),
    (
        "service/iptables",
        &["model", "netlink", "plan", "plane", "reconcile", "xtables"],
    ),
    (
        "service/ipvs",
        &[
            "config",
            "model",
            "netlink",
            "plan",
            "plane",
            "reconcile",
            "route",
            "xtables",
        ],
    ),
    (
        "service/ebpf",
        &[
            "bpf",
            "bpf-abi",
            "model",
            "netlink",
            "nft",
            "plan",
            "plane",
            "reconcile",
            "route",
        ],
    ),
    (
        "service/agent",
        &[
            "config",
            "http",
            "model",
            "netlink",
            "node",
            "plan",
            "plane",
            "reconcile",
        ],
    ),
    (
        "node",
        &["http", "model", "netlink", "reconcile", "route", "yaml"],
    ),
    (
        "diagnose",
        &[
            "model", "netlink", "nft", "plan", "plane", "route", "xtables",
        ],
    ),
    ("dns/zone", &["model"]),
    (
        "dns/agent",
        &["model", "netlink", "nft", "node", "route", "zone"],
    ),
    ("dns/corefile", &["model"]),
    // Not `reconcile`, whose `Waits` resemble the pause between two rounds of one query: the pause is a doubled number
    // that ends with the query, and nothing has to be remembered between two calls.
    ("dns/upstream", &["corefile", "tls"]),
    (
        "dns/server",
        &["corefile", "http", "model", "upstream", "zone"],
    ),
    ("lab/netns", &["netlink", "route"]),
    (
        "lab/commands",
        &[
            "agent",
            "api",
            "cluster",
            "config",
            "controller",
            "http",
            "lab",
            "model",
            "node",
            "picture",
            "plan",
            "source",
        ],
    ),
    (
        "testing/bench",
        &[
            "agent",
            "ebpf",
            "iptables",
            "ipvs",
            "lab",
            "miniapi",
            "model",
            "nft",
            "nftables",
            "node",
            "objects",
            "plan",
            "plane",
            "policy-nftables",
            "policy-plan",
            "reconcile",
            "route",
            "xtables",
            "zone",
        ],
    ),
    ("testing/objects", &["model"]),
    ("testing/miniapi", &["api", "http"]),
    (
        "testing/scenarios",
        &[
            "lab",
            "model",
            "plan",
            "plane",
            "reconcile",
            "route",
            "source",
        ],
    ),
    ("testing/tracers", &["model", "nftables", "plan", "xtables"]),
    (
        "sluice",
        &[
            "agent",
            "config",
            "controller",
            "corefile",
            "diagnose",
            "dns",
            "dns-agent",
            "ebpf",
            "http",
            "iptables",
            "ipvs",
            "lab-commands",
            "model",
            "nftables",
            "node",
            "plan",
            "plane",
            "policy-agent",
            "policy-nftables",
            "policy-plan",
            "source",
            "yaml",
            "zone",
        ],
    ),
];

/// Crates without I/O and clock.
const PURE: [&str; 10] = [
    "config",
    "dns/corefile",
    "dns/zone",
    "lab/controller",
    "model",
    "picture",
    "policy/plan",
    "reconcile",
    "service/plan",
    "yaml",
];

/// Packages that none of the dependencies of a pure crate may be, however far: runtimes, sockets, clients. `libc` is
/// not here: the random numbers of DNS messages need it.
const IMPURE: [&str; 12] = [
    "aya",
    "axum",
    "hyper",
    "kube",
    "mio",
    "nix",
    "reqwest",
    "rustix",
    "rustls",
    "sluice-netlink",
    "socket2",
    "tokio",
];

/// Crates that only the agent's thread runs: no dependency is asynchronous.
const SYNCHRONOUS: [&str; 10] = [
    "kernel/bpf",
    "kernel/netlink",
    "kernel/nft",
    "kernel/route",
    "kernel/xtables",
    "service/ebpf",
    "service/iptables",
    "service/ipvs",
    "service/nftables",
    "service/plane",
];

/// Packages that none of the dependencies of a synchronous crate may be.
const ASYNCHRONOUS: [&str; 4] = ["axum", "hyper", "kube", "tokio"];

/// What the standard library has of I/O and clock.
const IO: [&str; 8] = [
    "Command::new",
    "Instant::now",
    "SystemTime::now",
    "std::env::",
    "std::fs::",
    "std::net::Tcp",
    "std::net::Udp",
    "thread::",
];

/// Words that the sources of a crate must not contain beside these.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("reconcile", &["Service", "nftables", "iptables", "IPVS"]),
    ("service/nftables", &["Command::new"]),
    ("service/iptables", &["Command::new"]),
    ("service/ipvs", &["Command::new"]),
];

/// The violations of all rules, one line each.
///
/// # Errors
///
/// A file of the tree cannot be read.
pub(crate) fn run() -> io::Result<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut problems = Vec::new();
    for (name, allowed) in ALLOWED {
        edges(&root, name, allowed, &mut problems)?;
    }
    for name in crates(&root.join("crates"))? {
        if !ALLOWED.iter().any(|(known, _)| *known == name) {
            problems.push(format!(
                "crates/{name}: list in xtask/src/tidy.rs the crates that it may depend on"
            ));
        }
    }
    for file in sources(&root.join("crates"))? {
        let text = fs::read_to_string(&file)?;
        let shown = file
            .strip_prefix(&root)
            .unwrap_or(&file)
            .display()
            .to_string();
        length(&shown, &text, &mut problems);
        docs(&shown, &text, &mut problems);
        words(&shown, &text, &mut problems);
    }
    for (names, refused) in [(&PURE[..], &IMPURE[..]), (&SYNCHRONOUS, &ASYNCHRONOUS)] {
        for name in names {
            needs(&root, name, refused, &mut problems)?;
        }
    }
    testing(&root, &mut problems)?;
    problems.extend(crate::book::check(&root)?);
    Ok(problems)
}

/// The folders with a crate, relative to `root`.
fn crates(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.join("Cargo.toml").is_file() {
                let name = path.strip_prefix(root).unwrap_or(&path);
                found.push(name.display().to_string());
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

/// Reports dependencies that [`ALLOWED`] lacks. Dependencies of tests are free.
fn edges(root: &Path, name: &str, allowed: &[&str], problems: &mut Vec<String>) -> io::Result<()> {
    let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml"))?;
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let dependency = line.strip_prefix("sluice-");
        if section != "[dependencies]" || dependency.is_none() {
            continue;
        }
        let on = dependency.unwrap_or_default();
        let on = on.split(['.', ' ', '=']).next().unwrap_or_default();
        if !allowed.contains(&on) {
            problems.push(format!(
                "crates/{name}/Cargo.toml: must not depend on sluice-{on}"
            ));
        }
    }
    Ok(())
}

fn length(file: &str, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LONGEST_FILE && !file.contains("tests") {
        problems.push(format!(
            "{file}: {lines} lines, more than {LONGEST_FILE}: split it"
        ));
    }
}

/// Reports public items without documentation. Fields, variants and methods may say all by their
/// names, which rustc's `missing_docs` would not accept.
fn docs(file: &str, text: &str, problems: &mut Vec<String>) {
    const ITEMS: [&str; 8] = [
        "async", "const", "enum", "fn", "static", "struct", "trait", "type",
    ];
    if !file.contains("/src/") || text.contains("(missing_docs") {
        return;
    }
    let mut is_documented = false;
    for (number, line) in (1..).zip(text.lines()) {
        let item = line
            .strip_prefix("pub ")
            .and_then(|it| it.split(' ').next());
        if item.is_some_and(|it| ITEMS.contains(&it)) && !is_documented {
            problems.push(format!(
                "{file}:{number}: a public item without documentation"
            ));
        }
        is_documented = !line.is_empty() && (is_documented || line.starts_with("///"));
    }
}

fn words(file: &str, text: &str, problems: &mut Vec<String>) {
    let pure = PURE.into_iter().map(|it| (it, &IO[..]));
    for (name, words) in pure.chain(FORBIDDEN.iter().copied()) {
        if !file.starts_with(&format!("crates/{name}/src/")) || file.contains("tests") {
            continue;
        }
        for word in words {
            for (number, line) in (1..).zip(text.lines()) {
                let code = line.split("//").next().unwrap_or_default();
                if code.contains(word) {
                    problems.push(format!("{file}:{number}: {word} is forbidden in {name}"));
                }
            }
        }
    }
}

/// Reports dependencies of a crate, and of their dependencies, that are refused.
fn needs(root: &Path, name: &str, refused: &[&str], problems: &mut Vec<String>) -> io::Result<()> {
    let manifest = root.join("crates").join(name).join("Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let tree = tree(root, &["--edges=normal", "--manifest-path", &manifest])?;
    let packages: BTreeSet<&str> = tree.lines().filter_map(|it| it.split(' ').next()).collect();
    let found = refused.iter().filter(|it| packages.contains(*it));
    problems.extend(found.map(|it| format!("crates/{name}: {it} is among its dependencies")));
    Ok(())
}

/// Reports features that tests ask of a crate and `sluice/testing` does not: a program that is built for tests
/// (`scripts/package dev`) would build that crate and all that depend on it a second time.
fn testing(root: &Path, problems: &mut Vec<String>) -> io::Result<()> {
    let features = "--format={p} {f}";
    let program = [
        "--edges=normal",
        features,
        "-p=sluice",
        "--features=testing",
    ];
    let tests = [
        "--edges=normal,dev",
        features,
        "--workspace",
        "--all-features",
    ];
    let (program, tests) = (tree(root, &program)?, tree(root, &tests)?);
    // A crate that was printed before is marked.
    let lines = |tree: &str| -> BTreeSet<String> {
        tree.lines()
            .map(|it| it.trim_end_matches(" (*)").to_owned())
            .collect()
    };
    let tests = lines(&tests);
    for package in lines(&program).difference(&tests) {
        problems.push(format!(
            "crates/sluice/Cargo.toml: tests build {package} with other features than `testing`"
        ));
    }
    Ok(())
}

/// The text of `cargo tree`, a package a line.
fn tree(root: &Path, arguments: &[&str]) -> io::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--frozen", "--prefix=none"])
        .args(arguments)
        .current_dir(root)
        .output()?;
    if !tree.status.success() {
        let error = String::from_utf8_lossy(&tree.stderr).into_owned();
        return Err(io::Error::other(format!("cargo tree: {error}")));
    }
    Ok(String::from_utf8_lossy(&tree.stdout).into_owned())
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(it) if it == "rs" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_forbidden_words_are_found() {
        let mut problems = Vec::new();
        let long = "x\n".repeat(LONGEST_FILE + 1);
        length("crates/service/plan/src/a.rs", &long, &mut problems);
        length("crates/service/plan/src/a/tests.rs", &long, &mut problems);
        words(
            "crates/service/plan/src/a.rs",
            "let now = Instant::now(); // fine",
            &mut problems,
        );
        words(
            "crates/service/plan/src/a.rs",
            "// no Instant::now here",
            &mut problems,
        );
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn dependencies_of_dependencies_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut problems = Vec::new();
        needs(
            &root,
            "service/plan",
            &["serde_core", "tokio"],
            &mut problems,
        )
        .unwrap();
        assert_eq!(
            problems,
            ["crates/service/plan: serde_core is among its dependencies"]
        );
    }

    #[test]
    fn public_items_have_documentation() {
        let mut problems = Vec::new();
        let text = "/// One.\n#[must_use]\npub fn a() {}\n\nstruct B;\n\npub struct C {\n    pub d: u8,\n}\n";
        docs("crates/service/plan/src/a.rs", text, &mut problems);
        assert_eq!(
            problems,
            ["crates/service/plan/src/a.rs:7: a public item without documentation"]
        );
    }

    #[test]
    fn this_tree_is_tidy() {
        assert_eq!(run().unwrap(), Vec::<String>::new());
    }
}
