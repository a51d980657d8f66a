//! `sluice dns`: a Corefile, a folder or an API server, and clients.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use simple_dns::{RCODE, TYPE};
use sluice_lab::eventually;
use sluice_miniapi::{MiniApi, Options};

use crate::common::{Files, SLUICE, WITHIN};
use crate::dns::client::{Answer, ask, ask_again, ask_over_tcp};
use crate::dns::server::{Dns, free_address};

const WEB: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                   spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}\n";

const ZONE: &str = "kubernetes cluster.local in-addr.arpa ip6.arpa {\npods insecure\nttl 30\n}\n";

fn answer(code: RCODE, records: &[&str]) -> Option<Answer> {
    let records = records.iter().map(|it| (*it).to_owned()).collect();
    Some(Answer { code, records })
}

#[test]
fn a_folder_is_answered_over_udp_and_tcp_and_followed() {
    let dns = Dns::start(WEB, ZONE);
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
    let over_tcp = ask_over_tcp(dns.address, "web.default.svc.cluster.local", TYPE::A);
    assert_eq!(over_tcp, answer(RCODE::NoError, &["10.96.0.1"]));
    let missing = ask(dns.address, "no.default.svc.cluster.local", TYPE::A);
    assert_eq!(missing, answer(RCODE::NameError, &[]));
    dns.files
        .write("objects.yaml", &WEB.replace("10.96.0.1", "10.96.0.2"));
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.2"]);
    let said = dns.end();
    assert!(!said.contains("ERROR"), "{said}");
}

#[test]
fn ten_thousand_names_are_churned() {
    let services = |second: u8| {
        let service = |i: u32| {
            let [_, _, high, low] = i.to_be_bytes();
            format!(
                "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{i}}}\n\
                 spec: {{clusterIP: 10.{second}.{high}.{low}, ports: [{{port: 80}}]}}\n"
            )
        };
        (1..=10_000).map(service).collect::<String>()
    };
    let dns = Dns::start(&services(100), ZONE);
    dns.until(
        "s10000.default.svc.cluster.local",
        TYPE::A,
        &["10.100.39.16"],
    );
    dns.files.write("objects.yaml", &services(101));
    let churned = eventually(WITHIN, || {
        let is_new = ["s1", "s5000", "s10000"].map(|it| {
            let name = format!("{it}.default.svc.cluster.local");
            let answer = ask_again(dns.address, &name, TYPE::A);
            // The old address or the new one, at every moment.
            let [address] = &answer.records[..] else {
                panic!("{name}: {answer:?}");
            };
            address.starts_with("10.101.")
        });
        is_new.iter().all(|it| *it).then_some(())
    });
    assert!(churned.is_some());
    for (name, address) in [("s1", "10.101.0.1"), ("s5000", "10.101.19.136")] {
        let name = format!("{name}.default.svc.cluster.local");
        let found = ask_again(dns.address, &name, TYPE::A);
        assert_eq!(found.records, [address]);
    }
    dns.files.write("objects.yaml", WEB);
    dns.until("s5000.default.svc.cluster.local", TYPE::A, &[]);
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
}

#[test]
fn a_changed_corefile_is_served_and_a_wrong_one_is_not() {
    let dns = Dns::start(WEB, &format!("{ZONE}reload\n"));
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
    let hosts = "hosts {\n192.0.2.1 printer.example\nfallthrough\n}\n";
    dns.write_corefile(&format!("{ZONE}reload\n{hosts}"));
    dns.until("printer.example", TYPE::A, &["192.0.2.1"]);
    dns.write_corefile(&format!("{ZONE}reload\nhorsts\n"));
    dns.files
        .write("objects.yaml", &WEB.replace("10.96.0.1", "10.96.0.3"));
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.3"]);
    dns.until("printer.example", TYPE::A, &["192.0.2.1"]);
    // Read once more, so that the log has the line before the end.
    dns.signal(Signal::SIGUSR1);
    dns.until("printer.example", TYPE::A, &["192.0.2.1"]);
    let said = dns.end();
    assert!(said.contains("the last good one stays in force"), "{said}");
    assert!(said.contains("horsts"), "{said}");
    assert!(said.contains("did you mean"), "{said}");
}

/// What the watch compares is what is served: nothing else reads the Corefile.
#[test]
fn a_corefile_that_changes_back_is_read_once_for_each_change() {
    let dns = Dns::start(WEB, &format!("{ZONE}reload\n"));
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
    let hosts = "hosts {\n192.0.2.1 printer.example\nfallthrough\n}\n";
    dns.write_corefile_once(&format!("{ZONE}reload\n{hosts}"), "horsts\n");
    dns.until("printer.example", TYPE::A, &["192.0.2.1"]);
}

#[test]
fn a_changed_corefile_may_ask_for_other_objects() {
    let api = MiniApi::start(Options {
        token: Some("secret".to_owned()),
        ..Options::default()
    })
    .unwrap();
    let object = |kind: &str, namespace: &str, name: &str, spec: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}, "spec": spec});
    let service = |namespace: &str, address: &str| {
        let spec = json!({"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]});
        object("Service", namespace, "web", spec)
    };
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api.put_all([
        namespace("a"),
        namespace("b"),
        service("a", "10.96.0.1"),
        service("b", "10.96.0.2"),
    ])
    .unwrap();
    let files = Files::new();
    let kubeconfig = files.0.path().join("kubeconfig");
    let text = api.kubeconfig().replace("current-context", "other-context");
    fs::write(&kubeconfig, text).unwrap();
    let plugins = |namespaces: &str| {
        format!(
            "reload\nkubernetes cluster.local {{\nkubeconfig {} mini\nnamespaces {namespaces}\n}}\n",
            kubeconfig.display()
        )
    };
    let dns = Dns::of_corefile(&plugins("a"));
    dns.until("web.a.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
    let other = ask(dns.address, "web.b.svc.cluster.local", TYPE::A);
    assert_eq!(other, answer(RCODE::NameError, &[]));
    dns.write_corefile(&plugins("b"));
    dns.until("web.b.svc.cluster.local", TYPE::A, &["10.96.0.2"]);
    let gone = ask(dns.address, "web.a.svc.cluster.local", TYPE::A);
    assert_eq!(gone, answer(RCODE::NameError, &[]));
    // The new source goes on.
    api.put_all([service("b", "10.96.0.3")]).unwrap();
    dns.until("web.b.svc.cluster.local", TYPE::A, &["10.96.0.3"]);
    let text = dns.metrics().unwrap();
    for wanted in [
        "coredns_kubernetes_rest_client_requests_total{code=\"200\",",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_taken_port_is_an_error_in_one_line() {
    let dns = Dns::start(WEB, ZONE);
    dns.until("web.default.svc.cluster.local", TYPE::A, &["10.96.0.1"]);
    let second = dns.command().output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    let lines: Vec<&str> = said
        .lines()
        .filter(|it| it.starts_with("sluice:"))
        .collect();
    let [line] = lines[..] else {
        panic!("{said}");
    };
    assert!(line.contains(&dns.address.to_string()), "{line}");
}

#[test]
fn all_that_is_wrong_with_a_corefile_is_said() {
    let files = Files::new();
    let corefile = files.0.path().join("Corefile");
    fs::write(
        &corefile,
        ".:1053 {\nforwrd . 10.0.0.1\ncache {\nsucces 1\n}\n}\n",
    )
    .unwrap();
    // As CoreDNS is called.
    let output = Command::new(SLUICE)
        .arg0("/usr/bin/coredns")
        .arg("-conf")
        .arg(&corefile)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    for wanted in [
        "Corefile:2: ",
        "did you mean \"forward\"?",
        "Corefile:4: ",
        "success",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
fn under_corednss_name_it_has_a_version() {
    let mut command = Command::new(SLUICE);
    let output = command.arg0("coredns").arg("-version").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("CoreDNS-1."), "{said}");
}

#[test]
fn a_query_that_comes_back_ends_the_server() {
    let address = free_address();
    let files = Files::new();
    let corefile = files.0.path().join("Corefile");
    let text = format!(
        ".:{} {{\nbind {}\nloop\nforward . {address}\n}}\n",
        address.port(),
        address.ip()
    );
    fs::write(&corefile, text).unwrap();
    let mut command = Command::new(SLUICE);
    command.args(["dns", "--conf"]).arg(&corefile);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.lines()
            .any(|it| it.starts_with("sluice:") && it.contains("loop")),
        "{said}"
    );
}
