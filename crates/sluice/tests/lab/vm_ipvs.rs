//! What needs a kernel with IPVS, in a virtual machine: few kernels of test machines have it.

use std::process::Command;

use sluice_lab::{require_netns, require_vm};

use crate::experiments::runs;
use crate::{SLUICE, text};

/// The page and the race: to start the machine takes longer than either.
#[test]
fn experiments() {
    require_vm!("vm_ipvs::experiments");
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
