//! Changes without an end.

use serde_json::json;

use crate::hostile::attack::Attack;
use crate::hostile::objects::{endpoints, ip, ips, port_80, ports, ranges, served, service, slice};
use crate::hostile::world::{Mode, World};

pub(crate) fn attacks(mode: Mode) -> Vec<Attack> {
    let flapping = service("flapping", 1, &port_80(), json!({}));
    let many = mode.pick(50, 10);
    let wide = service("wide", 1, &ports(many), json!({}));
    let mut all = vec![
        Attack::new("endpoints that flap 200 times a second")
            .objects([flapping])
            .storm(flap),
        Attack::new("endpoints of many ports that flap")
            .objects([wide])
            .storm(flap_wide),
        Attack::new("two Services that trade an external IP").storm(trade),
        Attack::new("a Service that changes its type").storm(change_type),
        Attack::new("a Service that comes and goes").storm(come_and_go),
        Attack::new("manifests that are renamed in a loop").storm(rename),
        Attack::new("source ranges that change").storm(change_ranges),
        Attack::new("session affinity that changes").storm(change_affinity),
        Attack::new("a Service that changes its ClusterIP").storm(change_cluster_ip),
        Attack::new("a manifest that is right and wrong by turns").storm(right_and_wrong),
    ];
    for attack in &mut all {
        attack
            .files
            .extend(STORM_FILES.map(|it| (it.to_owned(), b"---\n".to_vec())));
    }
    all
}

/// Files that storms write, removed with the others.
const STORM_FILES: [&str; 3] = ["hostile-a.json", "hostile-b.json", "hostile-c.json"];

fn write(world: &World, file: usize, object: &serde_json::Value) {
    world.write(STORM_FILES[file], object.to_string());
}

fn flap(world: &World, round: u64) {
    let count = usize::try_from(round % 20).expect("small");
    write(
        world,
        0,
        &slice("flapping", 0, &port_80(), &endpoints(count)),
    );
}

fn flap_wide(world: &World, round: u64) {
    let count = usize::try_from(round % 3).expect("small");
    let ports = ports(world.mode.pick(50, 10));
    write(world, 0, &slice("wide", 0, &ports, &endpoints(10 + count)));
}

fn trade(world: &World, round: u64) {
    let names = [("a", "198.51.100.1"), ("b", "198.51.100.2")];
    for (number, (name, _)) in names.into_iter().enumerate() {
        let turn = usize::try_from(round % 2).expect("small");
        let address = names[(number + turn) % 2].1;
        let fields = json!({"externalIPs": [address]});
        write(world, number, &service(name, number, &port_80(), fields));
    }
}

fn change_type(world: &World, round: u64) {
    let fields = match round % 3 {
        0 => json!({"type": "ClusterIP"}),
        1 => json!({"type": "NodePort"}),
        _ => json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": ""}),
    };
    write(world, 0, &service("type", 1, &port_80(), fields));
}

fn come_and_go(world: &World, round: u64) {
    match round % 2 {
        0 => {
            let objects = served(service("gone", 1, &ports(20), json!({})), &endpoints(5));
            objects
                .iter()
                .enumerate()
                .for_each(|(file, it)| write(world, file, it));
        }
        _ => STORM_FILES.iter().for_each(|it| world.remove(it)),
    }
}

/// Each file's content goes to the next name.
fn rename(world: &World, round: u64) {
    let turn = usize::try_from(round % 3).expect("small");
    let file = STORM_FILES[turn];
    world.remove(STORM_FILES[(turn + 2) % 3]);
    world.write(
        file,
        service("renamed", 1, &port_80(), json!({})).to_string(),
    );
}

fn change_ranges(world: &World, round: u64) {
    let count = usize::try_from(round % 50).expect("small");
    let fields = json!({
        "type": "LoadBalancer", "loadBalancerSourceRanges": ranges(1 + count),
    });
    let mut object = service("ranges", 1, &ports(5), fields);
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}});
    write(world, 0, &object);
}

fn change_affinity(world: &World, round: u64) {
    let fields = match round % 3 {
        0 => json!({"sessionAffinity": "None"}),
        seconds => json!({
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100 + seconds}},
        }),
    };
    let objects = served(service("sticky", 1, &ports(2), fields), &endpoints(5));
    objects
        .iter()
        .enumerate()
        .for_each(|(file, it)| write(world, file, it));
}

fn change_cluster_ip(world: &World, round: u64) {
    let number = usize::try_from(round % 200).expect("small");
    let fields =
        json!({"externalIPs": ips([198, 51, 100, 1], 3), "clusterIP": ip([10, 96, 65, 1], number)});
    write(world, 0, &service("moving", 1, &ports(3), fields));
}

fn right_and_wrong(world: &World, round: u64) {
    match round % 2 {
        0 => write(world, 0, &service("right", 1, &port_80(), json!({}))),
        _ => world.write(STORM_FILES[0], "kind: ["),
    }
}
