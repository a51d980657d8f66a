//! The data plane of every example, as text. `make bless` rewrites the files; review the diff.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use sluice_core::model::Event;
use sluice_core::plan::Planner;
use sluice_core::settings::{LocalDetector, Settings};
use sluice_ipvs::{render_plan, text};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The data plane of node-a for one example, with the nodes and the ServiceCIDR of the examples.
fn data_plane(example: &Path) -> String {
    let manifests = tempfile::tempdir().unwrap();
    let nodes = folder("../../examples/nodes.yaml");
    let cidr = folder("../../examples/service-cidr.yaml");
    for file in [example, &nodes, &cidr] {
        let name = file.file_name().unwrap();
        std::fs::copy(file, manifests.path().join(name)).unwrap();
    }
    let loaded = sluice_source::load(manifests.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let mut settings = Settings::for_node("node-a");
    let cidrs = ["10.244.0.0/16", "fd00:10:244::/56"];
    settings.local_detector =
        LocalDetector::ClusterCidrs(cidrs.iter().map(|it| it.parse().unwrap()).collect());
    let mut planner = Planner::new(settings);
    for object in loaded.objects {
        planner.absorb(Event::Set(object));
    }
    planner.replan();
    text::data_plane(&render_plan(planner.plan(), "rr"))
}

#[test]
fn golden_data_planes_of_the_examples() {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    let mut examples: Vec<PathBuf> = std::fs::read_dir(folder("../../examples"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "yaml"))
        .collect();
    examples.sort();
    assert!(examples.len() >= 11, "{examples:?}");
    let mut differing = Vec::new();
    for example in examples {
        let name = example.file_stem().unwrap().to_str().unwrap();
        let golden = folder("tests/golden").join(format!("{name}.ipvs"));
        let written = data_plane(&example);
        if bless {
            std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
            std::fs::write(&golden, &written).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if expected != written {
            let line = written.lines().zip(expected.lines()).find(|(a, b)| a != b);
            differing.push(format!("{name}: first difference {line:?}"));
        }
    }
    assert!(
        differing.is_empty(),
        "`make bless` and review the diff:\n{}",
        differing.join("\n")
    );
}
