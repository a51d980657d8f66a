//! The connections of Sluice's ipvs mode, in a virtual machine: few kernels of test machines have it.

use std::time::Duration;

use sluice_agent::ServiceConnections;
use sluice_lab::{eventually, require_netns, require_vm};

use crate::takeover::world::World;

/// What each real server has, without an option.
#[test]
fn real_servers_are_shown() {
    const MORE: usize = 4;
    require_vm!("takeover::vm_connections::real_servers_are_shown");
    require_netns!();
    let mut world = World::new();
    world.start_in("ipvs");
    world.until_logged("synced");
    let before = await_web(&world, "a first reading", |_| true);
    for _ in 0..MORE {
        world.answers();
    }
    let open = world.sessions();
    let expected = |it: &ServiceConnections| {
        let before = before.iter().find(|old| old.family == it.family);
        before.map_or(0, |old| old.connections) + MORE as u64 + 1
    };
    let counted = await_web(&world, "every connection", |it| {
        let active = it.endpoints.iter().filter_map(|it| it.active).sum::<u64>();
        it.connections == expected(it) && active == 1
    });
    drop(open);
    for service in counted {
        let endpoints = service.endpoints;
        assert_eq!(endpoints.len(), 2, "{endpoints:#?}");
        for it in endpoints {
            let shown = (it.weight, it.draining, it.inactive.is_some());
            assert_eq!(shown, (Some(1), false, true), "{it:#?}");
            assert!(it.connections > 0, "{it:#?}");
        }
    }
    let table = world.sluice(&["status", "--connections"], None).stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("  default/web "), "{table}");
    let pod = world.v4.pods[0].to_string();
    assert!(table.contains(&format!("  {pod}:")), "{table}");
    let status = world.sluice(&["status"], None).stdout;
    let status = String::from_utf8(status).unwrap();
    assert!(status.contains("rule counts"), "{status}");
}

fn connections_of_web(world: &World) -> Vec<ServiceConnections> {
    let output = world.sluice(&["status", "--connections", "-o", "json"], None);
    let all: Vec<ServiceConnections> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    all.into_iter().filter(|it| it.service == "web").collect()
}

/// Both families of the Service, once both are as they should be.
#[track_caller]
fn await_web(
    world: &World,
    what: &str,
    is_meant: impl Fn(&ServiceConnections) -> bool,
) -> Vec<ServiceConnections> {
    /// It reads at most every ten seconds, and the processor is emulated.
    const WITHIN: Duration = Duration::from_secs(120);
    let mut last = Vec::new();
    let found = eventually(WITHIN, || {
        last = connections_of_web(world);
        let all_are = last.len() == 2 && last.iter().all(&is_meant);
        all_are.then(|| last.clone())
    });
    found.unwrap_or_else(|| panic!("no {what}: {last:#?}\n{}", world.log()))
}
