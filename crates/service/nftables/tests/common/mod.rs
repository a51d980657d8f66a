//! Runs nft in a namespace, and a proxy with all examples.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use sluice_lab::Netns;
use sluice_nftables::{Counting, Nftables};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, golden};

/// Runs nft in the calling thread's namespace.
pub(crate) fn nft_of(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn nft(arguments: &[&str]) -> String {
    nft_of(Path::new("nft"), arguments)
}

/// Loads rules as `nft -f -` does.
pub(crate) fn load(program: &Path, rules: &str) {
    use std::io::Write as _;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(rules.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "nft refused:\n{rules}");
}

/// A listing without everything that depends on the order of a hash or of creation.
pub(crate) fn facts(listing: &str) -> BTreeSet<String> {
    let lines = listing.lines().map(str::trim);
    let lines = lines.map(|it| it.trim_start_matches("elements = {"));
    let lines = lines.map(|it| it.trim_end_matches([',', '}']).trim().to_owned());
    lines.filter(|it| !it.is_empty()).collect()
}

/// node-a with all examples.
pub(crate) fn with_examples() -> Proxy<Nftables> {
    with_counting(Counting::Nothing)
}

pub(crate) fn with_counting(counting: Counting) -> Proxy<Nftables> {
    let plane = Nftables::connect().unwrap().counting(counting);
    let mut node = Proxy::new(golden::settings(), plane);
    node.tell(golden::events(&golden::folder()));
    node
}

pub(crate) fn in_namespace<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let netns = Netns::new("kernel").unwrap();
    netns.run(test)
}
