//! `sluice explain` with a DNS name as destination.

use std::process::Command;

use serde_json::Value;
use sluice_lab::require_netns;
use sluice_model::DNS_ADDRESSES;

use crate::common::{Agent, SLUICE};
use crate::dns::world::World;

/// What is said about a packet between the examples' pods, and the exit code.
fn explain(from: &str, to: &str, more: &[&str]) -> (String, Option<i32>) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut command = Command::new(SLUICE);
    command.args(["explain", from, to, "--manifests", examples]);
    let node = [
        "--hostname-override=node-a",
        "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
    ];
    let output = command.args(node).args(more).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (text + &errors, output.status.code())
}

/// A pod of `shop`, which has no object, asks for names of `default`.
#[track_caller]
fn leads_nowhere(to: &str, why: &[&str]) {
    let (said, code) = explain("shop/client", to, &[]);
    assert_eq!(code, Some(1), "{said}");
    for it in why {
        assert!(said.contains(it), "{to}: {it}?\n{said}");
    }
}

#[test]
fn a_short_name_is_completed_for_the_pod_that_asks() {
    let (said, code) = explain("default/web-6c9f-a1", "web:80", &[]);
    let expected = "\
web with the search path of pod default/web-6c9f-a1
web.default.svc.cluster.local. found
    30 A 10.96.10.1
    the ClusterIP of Service default/web

10.244.0.10 → 10.96.10.1:80/tcp on node-a
  service   default/web (ClusterIP)
  policy    internalTrafficPolicy Cluster: any ready endpoint
  client    a pod of this node (10.244.0.0/16): keeps its address
  endpoints
    10.244.0.10:8080  in   web-6c9f-a1  node-a  masqueraded: it would reach itself
    10.244.0.11:8080  in   web-6c9f-a2  node-a
    10.244.1.10:8080  in   web-6c9f-b1  node-b
  verdict   balance over 3 endpoints
";
    assert_eq!(said, expected);
    assert_eq!(code, Some(0));
    // The pod is known by its address, too.
    assert_eq!(explain("10.244.0.10", "web", &[]).0, expected);
}

#[test]
fn every_address_of_a_name_is_explained() {
    let (said, code) = explain("10.244.0.10", "queue:amqp", &[]);
    assert_eq!(code, Some(0), "{said}");
    let packets: Vec<&str> = said.lines().filter(|it| it.contains(" → ")).collect();
    assert_eq!(
        packets,
        [
            "10.244.0.10 → 10.244.0.60:5672/tcp on node-a",
            "10.244.0.10 → 10.244.1.60:5672/tcp on node-a"
        ]
    );
    let one = "queue-1.queue.default.svc.cluster.local";
    for to in [one.to_owned(), format!("{one}:5672"), format!("{one}:amqp")] {
        let (said, _) = explain("node", &to, &[]);
        assert!(said.contains("→ 10.244.1.60:5672/tcp"), "{to}: {said}");
    }
    let (both, _) = explain("10.244.0.10", "_amqp._tcp.queue", &[]);
    assert!(both.contains("30 SRV 0 50 5672 queue-0.queue"), "{both}");
    assert!(both.contains("→ 10.244.1.60:5672/tcp"), "{both}");
}

#[test]
fn answers_are_data_for_scripts() {
    let (json, code) = explain("10.244.0.10", "queue:5672", &["-o", "json"]);
    assert_eq!(code, Some(0), "{json}");
    let answer: Value = serde_json::from_str(&json).unwrap();
    let step = &answer["name"]["steps"][0];
    assert_eq!(step["result"], "found");
    assert_eq!(step["destinations"][1]["address"], "10.244.1.60");
    assert_eq!(answer["name"]["pod"], "default/web-6c9f-a1");
    assert_eq!(answer["packets"][1]["destination"], "10.244.1.60:5672");
    assert_eq!(answer["packets"][0]["verdict"], "not-service");
    let (json, code) = explain("10.244.0.10", "nobody", &["-o", "json"]);
    assert_eq!(code, Some(1), "{json}");
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["name"]["steps"][0]["result"], "no-name");
    assert_eq!(answer["packets"], Value::Array(Vec::new()));
}

#[test]
fn what_leads_nowhere_says_every_step_and_the_nearest_thing() {
    let near = "Service default/web exists, in another namespace";
    leads_nowhere(
        "web",
        &[
            "web.shop.svc.cluster.local. does not exist (NXDOMAIN)\n    there is no namespace shop",
            "web.svc.cluster.local. does not exist",
            "web. is not the cluster's",
            near,
        ],
    );
    leads_nowhere("web.nowhere", &["there is no namespace nowhere", near]);
    leads_nowhere(
        "mail.default:25",
        &[
            "CNAME smtp.example.com.",
            "smtp.example.com. is not the cluster's: upstream servers decide",
            "nobody was asked",
        ],
    );
    leads_nowhere(
        "www.example.org",
        &["www.example.org. is not the cluster's", "nobody was asked"],
    );
    leads_nowhere("queue.default:nope", &["has a port called nope"]);
    let (said, code) = explain("10.244.0.99", "web", &[]);
    assert!(said.contains("FROM has no search path"), "{said}");
    assert_eq!(code, Some(1));
    let (said, code) = explain("outside", "queue-0.queue.default.svc.cluster.local", &[]);
    assert!(
        said.contains("clients outside do not ask the cluster's DNS"),
        "{said}"
    );
    assert_eq!(code, Some(1));
}

/// As before there were names: whoever has no search path may shorten the name of a Service.
#[test]
fn the_name_of_a_service_needs_no_resolver() {
    for from in ["node", "outside"] {
        let (by_name, code) = explain(from, "web.default.svc", &[]);
        assert_eq!((by_name, code), explain(from, "default/web", &[]));
    }
}

#[test]
fn an_agent_with_a_dns_server_knows_names() {
    require_netns!();
    let world = World::new();
    let client = world.cluster.pod("client").ipv4();
    world.files.write(
        "client.yaml",
        &format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: client, namespace: shop}}\n\
             spec: {{nodeName: node-a}}\nstatus: {{podIP: {client}, podIPs: [{{ip: {client}}}]}}\n"
        ),
    );
    let _agent = Agent::run(&world.files, world.proxy("nftables"));
    let name = "web.default.svc.cluster.local";
    world.until(DNS_ADDRESSES[0], name, &["10.96.0.20"]);
    let mut command = Command::new(SLUICE);
    command.args(["explain", "shop/client", "web.default", "--socket"]);
    let output = command.arg(world.files.socket()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let steps = "\
web.default with the search path of pod shop/client
web.default.shop.svc.cluster.local. does not exist (NXDOMAIN)
    there is no Service default in namespace shop
web.default.svc.cluster.local. found
    30 A 10.96.0.20
    the ClusterIP of Service default/web
";
    assert!(said.starts_with(steps), "{said}");
    let packet = format!("\n{client} → 10.96.0.20:80/tcp on node-a\n");
    assert!(said.contains(&packet), "{said}");
}
