//! The tests beside virtual servers, which take packets to port 53 of the address before any socket.

use sluice_lab::{require_netns, require_vm};

use crate::answers::everybody;
use crate::holder::Holder;
use crate::world::{Plane, World, addresses, cluster_ips};

#[test]
fn queries_pass_them_on_another_port() {
    require_vm!("vm_ipvs::queries_pass_them_on_another_port");
    require_netns!();
    let world = World::new(Plane::Ipvs, World::recognising_pods(), true);
    let holder = Holder::start(&world, 5300);
    everybody(&world, &addresses(), "cluster");
    everybody(&world, &cluster_ips(), "cluster");
    drop(holder);
    let holder = Holder::taking(&world, 5300);
    everybody(&world, &addresses(), "local");
    everybody(&world, &cluster_ips(), "local");
    holder.kill();
    everybody(&world, &addresses(), "cluster");
    everybody(&world, &cluster_ips(), "cluster");
}
