//! The ruleset of every example, as text. `make bless` rewrites the files; review the diff.

use std::path::Path;

use sluice_nftables::{Counting, render_plan, text};
use sluice_scenarios::golden;

#[test]
fn golden_rulesets_of_the_examples() {
    let planners = golden::planners(&golden::settings());
    let ruleset =
        |name: &str, counting| text::ruleset(&render_plan(planners[name].plan(), counting));
    let names = planners.keys();
    let mut rulesets: Vec<(String, String)> = names
        .map(|name| (format!("{name}.nft"), ruleset(name, Counting::Nothing)))
        .collect();
    rulesets.push((
        "loadbalancer-local.counting.nft".to_owned(),
        ruleset("loadbalancer-local", Counting::Connections),
    ));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::compare(&folder, rulesets);
}
