//! `sluice dns` and `sluice proxy --dns` beside an API server that is late, goes away, or refuses.

use std::time::Instant;

use serde_json::{Value, json};
use simple_dns::{RCODE, TYPE};
use sluice_lab::{Cluster, eventually, require_netns};
use sluice_miniapi::{Cut, Fault, MiniApi, Options, Verb};

use crate::common::{Agent, Files, SLUICE, WITHIN};
use crate::dns::client::{Answer, ask, ask_again};
use crate::dns::cluster::{NODE_LOCAL, address};
use crate::dns::server::Dns;

const ZONE: &str = "errors\nkubernetes cluster.local in-addr.arpa ip6.arpa";

/// An upstream of the cluster's, in the same block: what it serves needs no API server.
const HOSTS: &str = "hosts {\n192.0.2.1 printer.example\nfallthrough\n}\n";

const WEB: &str = "web.default.svc.cluster.local";

fn service(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    })
}

fn api() -> MiniApi {
    let api = MiniApi::start(Options::default()).unwrap();
    api.put_all([
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
        service("web", "10.96.0.1"),
        service("cart", "10.96.0.2"),
    ])
    .unwrap();
    api
}

fn start(api: &MiniApi) -> Dns {
    Dns::of_api(&api.kubeconfig(), &format!("{HOSTS}{ZONE}"))
}

/// Nobody may conclude from a server without objects that a name does not exist; the other plugins answer.
#[track_caller]
fn is_not_ready(dns: &Dns) {
    dns.until("printer.example", TYPE::A, &["192.0.2.1"]);
    dns.until_ready_is(503);
    let nobody_knows = Answer {
        code: RCODE::ServerFailure,
        records: Vec::new(),
    };
    let missing = ask_again(dns.address, "missing.default.svc.cluster.local", TYPE::A);
    assert_eq!(missing, nobody_knows);
}

#[track_caller]
fn all_names_are_answered(dns: &Dns) {
    for (name, address) in [("web", "10.96.0.1"), ("cart", "10.96.0.2")] {
        let name = format!("{name}.default.svc.cluster.local");
        let answer = ask_again(dns.address, &name, TYPE::A);
        let known = Answer {
            code: RCODE::NoError,
            records: vec![address.to_owned()],
        };
        assert_eq!(answer, known);
    }
}

/// What is followed, as the log has it.
const KINDS: [&str; 3] = ["Services", "EndpointSlices", "Namespaces"];

/// Lines of a log that have all these words.
fn lines<'a>(log: &'a str, words: &[&str]) -> Vec<&'a str> {
    let has_all = |it: &&str| words.iter().all(|word| it.contains(word));
    log.lines().filter(has_all).collect()
}

#[test]
fn the_dns_server_is_ready_after_its_first_list_and_follows_changes() {
    let api = api();
    api.inject(Fault::Unavailable.on(Verb::Any, "endpointslices"));
    let dns = start(&api);
    is_not_ready(&dns);
    api.clear_faults();
    dns.until_ready_is(200);
    all_names_are_answered(&dns);
    api.put(service("web", "10.96.0.3")).unwrap();
    dns.until(WEB, TYPE::A, &["10.96.0.3"]);
    api.delete("Service", "default", "web").unwrap();
    dns.until(WEB, TYPE::A, &[]);
    let gone = ask_again(dns.address, WEB, TYPE::A);
    assert_eq!(gone.code, RCODE::NameError);
}

/// It refuses and resets, and then takes connections without a word.
#[test]
fn names_stay_while_the_api_server_is_away() {
    let api = api();
    let dns = start(&api);
    dns.until_ready_is(200);
    dns.until_metric("sluice_problems", "0");
    api.refuse_connections().unwrap();
    api.cut_connections(Cut::Reset).unwrap();
    dns.until_metric("sluice_problems", "3");
    all_names_are_answered(&dns);
    api.mute_connections().unwrap();
    api.put(service("web", "10.96.0.3")).unwrap();
    all_names_are_answered(&dns);
    dns.until_ready_is(200);
    api.start_again().unwrap();
    api.cut_connections(Cut::Close).unwrap();
    dns.until(WEB, TYPE::A, &["10.96.0.3"]);
    dns.until_metric("sluice_problems", "0");
    let log = dns.end();
    for kind in KINDS {
        let told = lines(&log, &["WARN", kind, "what is known stays in force"]);
        assert_eq!(told.len(), 1, "{kind}: {log}");
        assert_eq!(lines(&log, &["WARN", kind]).len(), 1, "{kind}: {log}");
    }
}

#[test]
fn it_starts_without_the_api_server() {
    let api = api();
    api.stop().unwrap();
    let dns = start(&api);
    dns.until_metric("sluice_problems", "3");
    is_not_ready(&dns);
    assert_eq!(
        ask_again(dns.address, WEB, TYPE::A).code,
        RCODE::ServerFailure
    );
    api.start_again().unwrap();
    dns.until_ready_is(200);
    all_names_are_answered(&dns);
    let log = dns.end();
    let address = api.address().to_string();
    for kind in KINDS {
        let told = lines(&log, &["WARN", kind]);
        assert_eq!(told.len(), 1, "{kind}: {log}");
        assert!(
            told[0].contains(&format!("cannot reach {address}")),
            "{log}"
        );
        assert!(
            told[0].contains("not listed by the API server yet"),
            "{log}"
        );
    }
}

/// A server that takes connections without a word, from the start.
#[test]
fn the_dns_server_ends_at_once_while_the_api_server_hangs() {
    let api = api();
    api.mute_connections().unwrap();
    let dns = start(&api);
    is_not_ready(&dns);
    let asked = Instant::now();
    let log = dns.end();
    assert!(log.contains("asked to stop"), "{log}");
    // An attempt to connect may take 30 s.
    assert!(asked.elapsed() < WITHIN, "{log}");
}

#[test]
fn a_missing_permission_is_named() {
    let api = api();
    api.inject(Fault::Forbidden.on(Verb::Any, "endpointslices"));
    let dns = start(&api);
    dns.until_metric("sluice_problems", "1");
    is_not_ready(&dns);
    // Its object is known.
    dns.until(WEB, TYPE::A, &["10.96.0.1"]);
    let log = dns.end();
    let told = lines(&log, &["WARN", "EndpointSlices", "answered 403"]);
    assert_eq!(told.len(), 1, "{log}");
    assert_eq!(lines(&log, &["WARN"]), told, "{log}");
}

/// Not even the Namespaces are needed: each with an object exists.
#[test]
fn an_agent_keeps_its_names_without_the_api_server() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").pod("client", "node-a");
    let cluster = builder.build().unwrap();
    let node = cluster.node("node-a").netns();
    let client = cluster.pod("client").netns();
    let api = node.run(api);
    let address_of_node = json!({"type": "InternalIP", "address": cluster.node("node-a").ipv4()});
    api.put(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [address_of_node]},
    }))
    .unwrap();
    api.inject(Fault::Forbidden.on(Verb::Any, "namespaces"));
    let files = Files::new();
    let kubeconfig = files.0.path().join("kubeconfig");
    std::fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let mut proxy = node.command(SLUICE, &["proxy", "--dns", "--hostname-override=node-a"]);
    proxy.args(["--conntrack-max-per-core=0", "--oom-score-adj=0"]);
    proxy.arg("--socket").arg(files.socket());
    proxy.arg("--kubeconfig").arg(kubeconfig);
    let _agent = Agent::run(&files, proxy);
    let until = |wanted: &str| {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = client.run(|| ask(address(NODE_LOCAL), WEB, TYPE::A));
            (last.as_ref()?.records == [wanted]).then_some(())
        });
        assert!(found.is_some(), "{wanted}: {last:?}");
    };
    until("10.96.0.1");
    api.stop().unwrap();
    api.put(service("web", "10.96.0.3")).unwrap();
    files.await_status("the API server is away", |it| {
        it.problems
            .iter()
            .any(|it| it.message.contains("Services: stale"))
    });
    until("10.96.0.1");
    api.start_again().unwrap();
    until("10.96.0.3");
}
