//! What needs a kernel with IPVS, in a virtual machine: few kernels of test machines have it.

use sluice_lab::{require_netns, require_vm};

use crate::lab::experiments::runs;

/// Not the race: it measures the modes of the test machine, and the mode is but a flag of the agent that it starts.
#[test]
fn experiments() {
    require_vm!("lab::vm_ipvs::experiments");
    require_netns!();
    runs("ipvs-table");
}
