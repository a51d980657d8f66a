//! `sluice dns query`: what a name is, and why.

use std::process::{Command, Output};

use crate::common::{Files, SLUICE};

fn query(files: &Files, args: &[&str]) -> Output {
    let mut command = Command::new(SLUICE);
    command.args(["dns", "query"]).args(args);
    command.arg("--manifests").arg(files.manifests());
    command.output().unwrap()
}

fn text(files: &Files, args: &[&str]) -> String {
    let output = query(files, args);
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn shop() -> Files {
    let files = Files::new();
    files.write(
        "shop.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n\
         spec: {clusterIP: 10.96.0.7, ports: [{name: http, port: 80}]}\n",
    );
    files
}

#[test]
fn the_answer_to_a_full_name_says_whose_address_it_is() {
    assert_eq!(
        text(&shop(), &["cart.shop.svc.cluster.local"]),
        "cart.shop.svc.cluster.local. found\n    30 A 10.96.0.7\n    the ClusterIP of Service shop/cart\n"
    );
}

#[test]
fn each_step_of_a_search_path_is_told() {
    let found = text(&shop(), &["cart.shop", "--from", "web/client"]);
    let steps: Vec<&str> = found.lines().filter(|it| !it.starts_with(' ')).collect();
    assert_eq!(
        steps,
        [
            "cart.shop.web.svc.cluster.local. does not exist (NXDOMAIN)",
            "cart.shop.svc.cluster.local. found"
        ],
        "{found}"
    );
}

#[test]
fn an_address_is_asked_by_its_reverse_name() {
    let found = text(&shop(), &["10.96.0.7", "ptr"]);
    assert!(
        found.contains("30 PTR cart.shop.svc.cluster.local."),
        "{found}"
    );
}

#[test]
fn without_an_answer_it_fails_and_says_why() {
    let output = query(&shop(), &["basket.shop.svc.cluster.local"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("there is no Service basket in namespace shop"),
        "{said}"
    );
    let wrong = text(&shop(), &["cart.shop.svc.cluster.local", "HINTFO"]);
    assert!(wrong.contains("HINTFO is no type of a record"), "{wrong}");
}
