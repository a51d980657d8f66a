//! What needs a kernel with IPVS: few kernels of test machines have it.

use sluice_lab::{netns_available, vm_available};

use crate::lab::experiments::run;

/// The program boots the virtual machine by itself where this kernel has no IPVS.
///
/// Not the race: it measures the modes of the test machine, and the mode is but a flag of the agent that it starts.
#[test]
fn experiments() {
    if vm_available() && netns_available() {
        let said = run("ipvs-table");
        assert!(!said.contains("recorded elsewhere"), "{said}");
    }
}
