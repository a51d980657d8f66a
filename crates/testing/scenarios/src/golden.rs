//! Compares what the examples of this repository render to with golden files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sluice_plan::Event;
use sluice_plan::Planner;
use sluice_plan::settings::{LocalDetector, NodePortAddresses, Settings};

/// The folder of the examples.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples")
}

/// The settings of node-a in the examples: pods are known by the cluster's ranges.
pub fn settings() -> Settings {
    let cidrs = ["10.244.0.0/16", "fd00:10:244::/56"];
    let cidrs = cidrs.map(|it| it.parse().expect("these are prefixes"));
    Settings {
        local_detector: LocalDetector::ClusterCidrs(cidrs.into()),
        ..Settings::for_node("node-a")
    }
}

/// [`settings`] with kube-proxy's defaults for iptables: NodePorts on every address, loopback
/// included.
pub fn with_localhost_node_ports() -> Settings {
    Settings {
        node_ports: NodePortAddresses::Within(Vec::new()),
        localhost_node_ports: true,
        ..settings()
    }
}

/// The events of all objects in a folder of manifests.
///
/// # Panics
/// When the reader refuses any of them.
pub fn events(manifests: &Path) -> Vec<Event> {
    let loaded = sluice_source::load(manifests, &super::wants()).expect("the folder can be listed");
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    loaded.events
}

/// A planner for each example, with the nodes and the ServiceCIDR of the examples; the key is the
/// name of the example's file.
///
/// # Panics
/// When an example cannot be read.
pub fn planners(settings: &Settings) -> BTreeMap<String, Planner> {
    let files = fs::read_dir(folder()).expect("there are examples");
    let files = files.map(|it| it.expect("examples can be listed").path());
    let examples: Vec<PathBuf> = files
        .filter(|it| it.extension().is_some_and(|it| it == "yaml"))
        .collect();
    assert!(examples.len() >= 11, "{examples:?}");
    let planners = examples.iter().map(|example| {
        let name = example.file_stem().unwrap_or_default();
        (
            name.to_string_lossy().into_owned(),
            planner(example, settings),
        )
    });
    planners.collect()
}

fn planner(example: &Path, settings: &Settings) -> Planner {
    let manifests = tempfile::tempdir().expect("there is room for a temporary directory");
    for name in ["nodes.yaml", "service-cidr.yaml"] {
        let copied = fs::copy(folder().join(name), manifests.path().join(name));
        copied.expect("the examples have this file");
    }
    let name = example.file_name().expect("an example is a file");
    fs::copy(example, manifests.path().join(name)).expect("an example can be copied");
    let mut planner = Planner::new(settings.clone());
    let events = events(manifests.path());
    events.into_iter().for_each(|it| planner.absorb(it));
    planner.replan();
    planner
}

/// Compares texts with the files of their names in a folder. With `SLUICE_BLESS` the files are
/// written first: review the diff.
///
/// # Panics
/// When a text differs from its file, and when a file cannot be written.
#[track_caller]
pub fn compare(folder: &Path, texts: impl IntoIterator<Item = (String, String)>) {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    let mut differing = Vec::new();
    for (name, text) in texts {
        let golden = folder.join(&name);
        if bless {
            fs::create_dir_all(folder).expect("the folder can be created");
            fs::write(&golden, &text).expect("the file can be written");
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != text {
            let line = text.lines().zip(expected.lines()).find(|(a, b)| a != b);
            differing.push(format!("{name}: first difference {line:?}"));
        }
    }
    assert!(
        differing.is_empty(),
        "`make bless` and review the diff:\n{}",
        differing.join("\n")
    );
}
