//! The pictures of the book that the lab draws: drawn again, compared, and tried with real connections.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Value, json};

use crate::lab::Lab;

/// File, and the arguments of `draw`.
const PICTURES: [(&str, &[&str]); 9] = [
    ("lab", &[]),
    ("lab-cluster-ip", &["svc/web", "--from", "shop"]),
    ("lab-node-port", &["svc/dashboard", "--via", "node-b"]),
    ("lab-policy-local", &["svc/gateway", "--via", "node-a"]),
    ("lab-policy-drop", &["svc/gateway", "--via", "node-c"]),
    ("lab-session-affinity", &["svc/cart", "--from", "shop"]),
    ("lab-headless", &["svc/queue", "--from", "shop"]),
    ("lab-topology", &["svc/images", "--from", "shop"]),
    ("lab-terminating", &TERMINATING),
];

/// Drawn after `orders-v1` was asked to end.
const TERMINATING: [&str; 3] = ["svc/orders", "--from", "shop"];

#[test]
fn golden_pictures_of_the_book_are_true() {
    let Some(lab) = Lab::new() else { return };
    let manifests = |file: &str| {
        let path = format!(
            "{}/../../docs/concepts/lab/{file}",
            env!("CARGO_MANIFEST_DIR")
        );
        fs::canonicalize(path).unwrap().to_str().unwrap().to_owned()
    };
    lab.good(&["up", &manifests("web.yaml")]);
    lab.good(&["apply", "-f", &manifests("more.yaml")]);
    lab.until("every endpoint is ready", || {
        let topology = draw(&lab, &[]);
        let services = topology["services"].as_array().unwrap().iter();
        let mut ready = services.map(|it| it["ready"] == it["endpoints"] && it["endpoints"] != 0);
        let pods = topology["nodes"].as_array().unwrap().iter();
        let mut pods = pods.flat_map(|it| it["pods"].as_array().unwrap());
        (ready.all(|it| it) && pods.all(|it| it["state"] == "ready")).then_some(())
    });
    let (last, first) = PICTURES.split_last().unwrap();
    for (file, words) in first {
        try_out(&lab, words);
        compare(&lab, file, words);
    }
    lab.good(&["delete", "pod", "orders-v1"]);
    lab.until("a pod terminates", || {
        let way = draw(&lab, &TERMINATING);
        (way["endpoints"][0]["included"] == false).then_some(())
    });
    try_out(&lab, last.1);
    compare(&lab, last.0, last.1);
}

fn draw(lab: &Lab, words: &[&str]) -> Value {
    let words = [&["draw"], words, &["-o", "json"]].concat();
    serde_json::from_str(&lab.good(&words)).unwrap()
}

/// Real connections go where the picture says, and the pods see whom it names, as soon as the agents have followed the
/// objects that it was drawn from.
#[track_caller]
fn try_out(lab: &Lab, words: &[&str]) {
    if words.is_empty() {
        return;
    }
    lab.until(&format!("{words:?} is true"), || {
        let tried = tried(lab, words);
        tried.inspect_err(|it| eprintln!("{words:?}: {it}")).ok()
    });
}

/// Tries once; what is otherwise than planned.
fn tried(lab: &Lab, words: &[&str]) -> Result<(), String> {
    let planned = draw(lab, words);
    let verdict = &planned["rules"]["verdict"];
    if verdict.is_null() {
        // DNS names the pods themselves.
        for it in planned["endpoints"].as_array().unwrap() {
            let (pod, address) = (it["pod"].as_str().unwrap(), it["address"].as_str().unwrap());
            let answers = lab.probe("shop", address);
            same(&answers["answered"], &json!({pod: 60}), &planned)?;
        }
        return Ok(());
    }
    let count = if *verdict == "balance" { "60" } else { "2" };
    let tried = draw(lab, &[words, &["--probe", count]].concat());
    let measured = &tried["measured"];
    if *verdict == "drop" {
        return same(&measured["failed"], &json!({"timed out": 2}), &tried);
    }
    same(&measured["failed"], &json!({}), &tried)?;
    let has_share = |it: &Value| it["share"].as_f64().is_some_and(|it| it > 0.0);
    let endpoints = tried["endpoints"].as_array().unwrap();
    let mut others = endpoints.iter().filter(|it| it["included"] != true);
    if others.any(has_share) {
        return Err(format!(
            "an endpoint that is not included has a share: {tried}"
        ));
    }
    let served = endpoints.iter().filter(|it| has_share(it)).count();
    let included = endpoints.iter().filter(|it| it["included"] == true).count();
    let stays = words.contains(&"svc/cart");
    same(&served, &if stays { 1 } else { included }, &tried)?;
    let topology = draw(lab, &[]);
    let nodes = topology["nodes"].as_array().unwrap();
    let address = |sees: &str| {
        let node = nodes.iter().find(|it| it["name"] == sees);
        node.map_or(sees, |it| it["addresses"][0].as_str().unwrap())
            .to_owned()
    };
    let sees = endpoints
        .iter()
        .filter_map(|it| it["sees"].as_str())
        .map(address);
    let seen = measured["seenFrom"].as_object().unwrap().keys().cloned();
    let (seen, sees): (BTreeSet<_>, BTreeSet<_>) = (seen.collect(), sees.collect());
    same(&seen, &sees, &tried)
}

fn same<T: PartialEq + Debug>(is: &T, expected: &T, all: &Value) -> Result<(), String> {
    if is == expected {
        return Ok(());
    }
    Err(format!("{is:?}, not {expected:?}: {all}"))
}

/// The file is what the lab draws; with `SLUICE_BLESS` it is written.
#[track_caller]
fn compare(lab: &Lab, file: &str, words: &[&str]) {
    let drawn = lab.good(&[&["draw"], words, &["-o", "svg"]].concat());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let path = folder.join(format!("{file}.svg"));
    match env::var_os("SLUICE_BLESS") {
        Some(_) => fs::write(path, drawn).unwrap(),
        None => {
            let known = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(
                drawn, known,
                "docs/pictures/{file}.svg: `make bless` writes it"
            );
        }
    }
}
