//! The maps of every example, as JSON. `make bless` rewrites the files; review the diff.

use std::path::Path;

use sluice_ebpf::{Facts, render_plan, text};
use sluice_scenarios::golden;

#[test]
fn golden_maps_of_the_examples() {
    let planners = golden::planners(&golden::settings());
    let maps = planners.iter().map(|(name, planner)| {
        let text = text::maps(&render_plan(planner.plan(), &Facts::default()));
        (format!("{name}.json"), text)
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::compare(&folder, maps);
}
