//! Tests that changes take no memory beyond that of the objects that exist. Each test has a process of its own, to be
//! measured.

use std::fs;

use serde_json::{Value, json};
use sluice_miniapi::Options;

use crate::apiserver::cluster::Followed;
use crate::support::{Object, slice_object};

const SLICES: usize = 500;

/// A slice of 20 endpoints whose port says how often it has changed.
fn slice(number: usize, round: usize) -> Value {
    let mut slice = slice_object(&format!("s-{number}"), "web", "10.1.0.1");
    let endpoint = |it| json!({"addresses": [format!("10.1.{round}.{it}")], "nodeName": "n1"});
    slice["endpoints"] = (1..21).map(endpoint).collect();
    slice["ports"][0]["port"] = json!(round);
    slice
}

/// The resident memory of the process, in bytes.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// 1,000 Pods of 100 Deployments as a list, with or without four labels, of which two differ by Deployment, and two
/// named ports.
fn pods(round: usize, labels: bool) -> String {
    let pod = |i: usize| {
        let node = format!("n{}", i % 100);
        let mut pod = crate::support::pod_object(&format!("web-{round}-{i}"), &node, "10.0.0.1");
        if labels {
            let deployment = round * 100 + i / 10;
            pod["metadata"]["labels"] = json!({
                "app.kubernetes.io/name": "web",
                "app.kubernetes.io/instance": format!("web-{deployment}"),
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": format!("{:x}", 7_919 * deployment),
            });
            pod["spec"]["containers"][0]["ports"] = json!([
                {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090},
            ]);
        }
        pod
    };
    let items: Vec<Value> = (0..1_000).map(pod).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn labels_of_pods_take_little_memory() {
    let per_pod = |labels: bool| {
        let mut held = Vec::new();
        let mut round = |round: usize| {
            let text = pods(round, labels);
            let loaded =
                crate::support::parse("pods.json", text.as_bytes(), &crate::support::all_kinds());
            assert_eq!((loaded.objects.len(), loaded.problems.len()), (1_000, 0));
            held.push(loaded.objects);
            resident()
        };
        // The memory that reading takes for a moment is allocated in the first rounds.
        let first = (0..10).map(&mut round).last().unwrap();
        let last = (10..30).map(&mut round).last().unwrap();
        last.saturating_sub(first) / 20_000
    };
    let (without, with) = (per_pod(false), per_pod(true));
    println!("{without} bytes per Pod without labels and ports, {with} with");
    assert!(with < without + 200, "{without} without, {with} with");
}

#[test]
fn storm_of_changes_leaves_memory_as_it_was() {
    let api = crate::apiserver::cluster::cluster(Options {
        history: 2 * SLICES,
        ..Options::default()
    });
    let mut source = Followed::synced(&api);
    let mut storm = |rounds: std::ops::RangeInclusive<usize>| {
        for round in rounds {
            api.put_all((0..SLICES).map(|it| slice(it, round))).unwrap();
            // All come in the order they were put.
            let last = format!("EndpointSlice default/s-{}", SLICES - 1);
            source.view.until("this round", |it| {
                matches!(it.objects.get(&last), Some(Object::EndpointSlice(it))
                    if usize::from(it.ports[0].port.get()) == round)
            });
        }
        assert_eq!(source.view.objects.len(), SLICES + 4);
        resident()
    };
    let before = storm(1..=3);
    let after = storm(4..=13);
    // 5,000 versions of a slice, each of some 3 KB, have come and gone.
    let growth = after.saturating_sub(before) >> 20;
    assert!(growth < 8, "{growth} MiB more than {} MiB", before >> 20);
}
