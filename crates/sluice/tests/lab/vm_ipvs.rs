//! What needs a kernel with IPVS, in a virtual machine: few kernels of test machines have it.

use std::process::Command;

use sluice_lab::{require_netns, require_vm};

use crate::lab::experiments::runs;
use crate::lab::{SLUICE, text};

/// The page and the race: to start the machine takes longer than either.
#[test]
fn experiments() {
    require_vm!("lab::vm_ipvs::experiments");
    require_netns!();
    runs("ipvs-table");
    let race = [
        "lab",
        "experiment",
        "race",
        "--sizes",
        "10",
        "--modes",
        "ipvs",
    ];
    let output = Command::new(SLUICE).args(race).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("    ipvs  █").count(), 6, "{said}");
}
