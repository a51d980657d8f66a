//! The data plane of every example, as text. `make bless` rewrites the files; review the diff.

use std::path::Path;

use sluice_ipvs::{render_plan, text};
use sluice_scenarios::golden;

#[test]
fn golden_data_planes_of_the_examples() {
    let planners = golden::planners(&golden::settings()).into_iter();
    let written = planners.map(|(name, planner)| {
        let objects = render_plan(planner.plan(), "rr");
        (format!("{name}.ipvs"), text::data_plane(&objects))
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::compare(&folder, written);
}
