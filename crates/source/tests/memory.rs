//! Changes take no memory: what is held is what exists. Alone in its process, to be measured.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "apiserver/cluster.rs"]
mod cluster;
mod support;

use std::fs;

use serde_json::{Value, json};
use sluice_miniapi::Options;
use sluice_model::Object;

use cluster::Followed;
use support::slice_object;

const SLICES: usize = 500;

/// A slice of 20 endpoints whose port says how often it has changed.
fn slice(number: usize, round: usize) -> Value {
    let mut slice = slice_object(&format!("s-{number}"), "web", "10.1.0.1");
    let endpoint = |it| json!({"addresses": [format!("10.1.{round}.{it}")], "nodeName": "n1"});
    slice["endpoints"] = (1..21).map(endpoint).collect();
    slice["ports"][0]["port"] = json!(round);
    slice
}

/// What the process holds, in bytes.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn storm_of_changes_leaves_memory_as_it_was() {
    let api = cluster::cluster(Options {
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
