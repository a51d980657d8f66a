//! `sluice proxy --dns` in the ipvs mode, in a virtual machine: few kernels of test machines have it.

use sluice_lab::{require_netns, require_vm};

use crate::dns::local::{agent_and_cluster, switched_off};
use crate::dns::world::World;

/// One machine for both: to start it takes longer than either.
#[test]
fn beside_virtual_servers() {
    require_vm!("dns::vm_ipvs::beside_virtual_servers");
    require_netns!();
    let world = World::new();
    agent_and_cluster(&world, "ipvs");
    switched_off(&world, "ipvs");
}
