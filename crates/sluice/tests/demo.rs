//! The demonstration tells the truth and leaves nothing behind.

use std::process::Command;

use sluice_lab::require_netns;

#[test]
fn the_demonstration_runs_and_cleans_up() {
    require_netns!();
    let demo = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["lab", "demo"])
        .output();
    let output = demo.expect("the demonstration starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{error}");
    for shown in [
        "web-3",
        "█",
        "goto cluster-ip-3",
        "goto cluster-ip-2",
        "0 failed",
    ] {
        assert!(said.contains(shown), "{shown:?} is not in:\n{said}");
    }
    // The drawing names the namespaces' common prefix: sl<pid>-<n>.
    let prefix = said
        .split_whitespace()
        .find(|it| it.starts_with("sl") && it.contains('-'));
    let prefix = prefix.expect("the drawing names the lab");
    let left: Vec<_> = std::fs::read_dir("/run/netns")
        .expect("namespaces can be listed")
        .filter_map(|it| it.ok()?.file_name().into_string().ok())
        .filter(|it| it.starts_with(&format!("{prefix}-")))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
