//! Whole Corefiles: what people have, each plugin and option, and any text.

#[path = "../../../../fuzz/oracles/corefile.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz target")]
mod oracle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use proptest::prelude::*;
use sluice_corefile::{
    AclAction, AnswerRule, BindTarget, Corefile, ForwardProtocol, LogClass, LogField, LogPart,
    Monitor, NameMatch, Pods, Policy, Refresh, Rewrite, SearchPath, ServerBlock, Sources,
    TextValue, Then, UpstreamTransport, read,
};
use sluice_model::Requirement;

/// Files by path, and the variables of the tests.
#[derive(Default)]
struct Files(BTreeMap<&'static str, &'static str>);

impl Sources for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let text = self.0.get(path.to_str().unwrap());
        text.map(|it| (*it).to_owned())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let files = self.0.keys().map(Path::new);
        let files = files.filter(|it| it.parent() == Some(folder));
        let names: Vec<String> = files
            .map(|it| it.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        if names.is_empty() {
            Err(io::Error::new(io::ErrorKind::NotFound, "no such folder"))
        } else {
            Ok(names)
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "NODE" => Some("node-a".to_owned()),
            "ZONE" => Some("zone-b".to_owned()),
            _ => None,
        }
    }
}

fn text(name: &str) -> String {
    fs::read_to_string(path("tests/files").join(name)).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Reads a file of the tests on a machine with these files and a resolv.conf.
fn file(name: &str, more: &[(&'static str, &'static str)]) -> Corefile {
    let resolv =
        "# comment\nsearch a.example b.example\nnameserver 10.9.9.9\nnameserver fe80::1%eth0\n";
    let mut files = Files([("/etc/resolv.conf", resolv)].into());
    files.0.extend(more.iter().copied());
    read("/etc/coredns/Corefile", &text(name), 53, &files).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The keys of a block as text.
fn keys(block: &ServerBlock) -> Vec<String> {
    block.keys.iter().map(ToString::to_string).collect()
}

#[test]
fn what_kubeadm_and_kind_write() {
    for (name, disabled) in [("kubeadm", 1), ("kind", 0)] {
        let corefile = file(name, &[]);
        assert_eq!(corefile.notes, [], "{name}");
        assert_eq!(corefile.files, [PathBuf::from("/etc/resolv.conf")].into());
        let [block] = &*corefile.blocks else {
            panic!("{corefile:?}")
        };
        assert_eq!(keys(block), ["dns://.:53"]);
        let it = &block.plugins;
        assert!(it.errors.is_some() && it.loop_detection && it.loadbalance.is_some());
        let health = it.health.as_ref().unwrap();
        assert_eq!(
            (health.address.to_string(), health.lameduck),
            ("[::]:8080".to_owned(), seconds(5))
        );
        let ready = it.ready.as_ref().unwrap();
        assert_eq!(
            (ready.address.port(), ready.monitor),
            (8181, Monitor::UntilReady)
        );
        let kubernetes = it.kubernetes.as_ref().unwrap();
        let zones: Vec<String> = kubernetes.zones.iter().map(ToString::to_string).collect();
        assert_eq!(zones, ["cluster.local.", "in-addr.arpa.", "ip6.arpa."]);
        assert_eq!((kubernetes.pods, kubernetes.ttl), (Pods::Insecure, 30));
        assert_eq!(kubernetes.fallthrough.zones, kubernetes.zones[1..]);
        assert_eq!(it.prometheus.unwrap().to_string(), "[::]:9153");
        let [forward] = &*it.forward else {
            panic!("{it:?}")
        };
        let to: Vec<String> = forward.to.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(to, ["10.9.9.9:53", "[fe80::1]:53"]);
        assert_eq!(forward.to[1].interface.as_deref(), Some("eth0"));
        assert_eq!(forward.max_concurrent.unwrap().get(), 1000);
        assert_eq!((forward.max_fails, forward.expire), (2, seconds(10)));
        let cache = it.cache.as_ref().unwrap();
        assert_eq!(
            (cache.success.max_ttl, cache.denial.max_ttl),
            (seconds(30), seconds(30))
        );
        assert_eq!((cache.success.capacity, cache.servfail), (9984, seconds(5)));
        assert_eq!(
            (cache.disable_success.len(), cache.disable_denial.len()),
            (disabled, disabled)
        );
        let reload = it.reload.as_ref().unwrap();
        assert_eq!((reload.interval, reload.jitter), (seconds(30), seconds(15)));
    }
}

#[test]
fn what_k3s_writes() {
    let bare = file("k3s", &[]);
    let notes: Vec<String> = bare.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "/etc/coredns/Corefile:19: import: no file fits \"/etc/coredns/custom/*.override\"",
            "/etc/coredns/Corefile:22: import: no file fits \"/etc/coredns/custom/*.server\"",
        ]
    );
    let hosts = bare.blocks[0].plugins.hosts.as_ref().unwrap();
    assert_eq!(hosts.file, Path::new("/etc/coredns/NodeHosts"));
    assert_eq!(
        (hosts.ttl, hosts.reload, hosts.reverse),
        (60, Some(seconds(15)), true)
    );
    assert!(hosts.fallthrough.includes(&"x.example.".parse().unwrap()));

    let custom = file(
        "k3s",
        &[
            ("/etc/coredns/custom/b.override", "log\n"),
            ("/etc/coredns/custom/a.override", "minimal"),
            (
                "/etc/coredns/custom/one.server",
                "example.org {\n forward . 10.1.1.1\n}",
            ),
            (
                "/etc/coredns/custom/two.server",
                "example.net { \n forward . 10.1.1.2\n}",
            ),
            ("/etc/coredns/custom/notes.txt", "}"),
        ],
    );
    assert_eq!(custom.notes, []);
    assert_eq!(custom.files.len(), 5);
    assert_eq!(custom.blocks.len(), 3);
    assert!(custom.blocks[0].plugins.minimal && custom.blocks[0].plugins.log.len() == 1);
    assert_eq!(keys(&custom.blocks[2]), ["dns://example.net.:53"]);
    assert_eq!(
        custom.blocks[2].place.to_string(),
        "/etc/coredns/custom/two.server:1"
    );
}

#[test]
fn what_clouds_write() {
    let eks = file("eks", &[]);
    assert_eq!(keys(&eks.blocks[1]), ["dns://domain.local.:53"]);
    assert_eq!(
        eks.blocks[1].plugins.forward[0].to[0].address.to_string(),
        "10.20.0.53:53"
    );

    let aks = file("aks", &[]);
    assert_eq!(aks.notes.len(), 2);
    let [template, other] = &*aks.blocks[0].plugins.template else {
        panic!("{aks:?}")
    };
    let pattern = &template.matches[0];
    assert!(pattern.is_match("a.b.c.d.internal.cloudapp.net."));
    assert!(!pattern.is_match("a.b.c.internal.cloudapp.net."));
    assert_eq!(other.matches[0].as_str(), ".*");
}

#[test]
fn what_node_local_dns_writes() {
    let corefile = file("node-local", &[]);
    assert_eq!((corefile.blocks.len(), &*corefile.notes), (4, &[][..]));
    for block in &corefile.blocks {
        let addresses = ["169.254.20.10", "10.96.0.10"];
        let addresses = addresses.map(|it| BindTarget::Address(it.parse().unwrap()));
        assert_eq!(block.plugins.bind.targets, addresses);
    }
    let it = &corefile.blocks[0].plugins;
    assert_eq!(it.forward[0].protocol, ForwardProtocol::Tcp);
    let cache = it.cache.as_ref().unwrap();
    assert_eq!(
        (cache.success.max_ttl, cache.denial.max_ttl),
        (seconds(30), seconds(5))
    );
    assert_eq!(
        it.health.as_ref().unwrap().address.to_string(),
        "169.254.20.10:8080"
    );
}

#[test]
fn keys_and_small_plugins() {
    let corefile = file("everything", &[]);
    let notes: Vec<&str> = corefile.notes.iter().map(|it| &*it.message).collect();
    assert_eq!(
        notes,
        ["kubernetes: tls: has no effect: it goes with endpoint and without kubeconfig"]
    );
    let [block] = &*corefile.blocks else {
        panic!("{corefile:?}")
    };
    assert_eq!(
        keys(block),
        [
            "dns://cluster.local.:53",
            "dns://example.org.:1053",
            "dns://0.10.in-addr.arpa.:53",
            "dns://1.10.in-addr.arpa.:53",
        ]
    );
    let it = &block.plugins;
    let reload = it.reload.as_ref().unwrap();
    assert_eq!((reload.interval, reload.jitter), (seconds(10), seconds(5)));
    assert_eq!(it.nsid.as_deref(), Some("node-a of zone-b"));
    assert_eq!(it.bufsize, Some(1400));
    let lo = BindTarget::Interface("lo".to_owned());
    assert_eq!((it.bind.targets.len(), &it.bind.targets[1]), (3, &lo));
    assert_eq!(it.bind.except.len(), 1);
    let ready = it.ready.as_ref().unwrap();
    assert_eq!(
        (ready.address.to_string(), ready.monitor),
        ("127.0.0.1:8182".to_owned(), Monitor::Continuously)
    );
    let health = it.health.as_ref().unwrap();
    assert_eq!(
        (health.address.to_string(), health.lameduck),
        ("127.0.0.1:8081".to_owned(), seconds(90))
    );
    let errors = it.errors.as_ref().unwrap();
    assert!(errors.consolidate[0].show_first && !errors.consolidate[1].show_first);
    assert_eq!(errors.consolidate[1].period, seconds(300));
    let chaos = it.chaos.as_ref().unwrap();
    assert_eq!(
        (chaos.version.as_deref(), chaos.authors.join(" ")),
        (Some("v1"), "alice bob".to_owned())
    );
    assert_eq!(it.loadbalance.as_ref().unwrap().prefer.len(), 1);
    assert_eq!(it.autopath.as_ref().unwrap().search, SearchPath::Kubernetes);
    assert!(it.any && it.minimal && it.whoami);

    let [allow, block, filter] = &*it.acl else {
        panic!("{it:?}")
    };
    assert_eq!(
        (allow.action, allow.types.len(), allow.networks.len()),
        (AclAction::Allow, 2, 2)
    );
    assert_eq!(allow.networks[1].to_string(), "192.168.0.1/32");
    assert_eq!(
        (block.action, block.types.len(), block.networks.len()),
        (AclAction::Block, 0, 0)
    );
    assert_eq!(filter.zones[0].to_string(), "example.org.");

    let [named, also, root] = &*it.log else {
        panic!("{it:?}")
    };
    assert_eq!(
        (named.zone.to_string(), also.zone.to_string()),
        ("example.org.".into(), "cluster.local.".into())
    );
    assert_eq!(named.classes, [LogClass::Denial, LogClass::Error]);
    let literal = |it: &str| LogPart::Literal(it.to_owned());
    assert_eq!(
        named.format,
        [
            LogPart::Field(LogField::Remote),
            literal(" "),
            LogPart::Field(LogField::Name),
            literal(" 100% {>ID} "),
            LogPart::Field(LogField::Id),
            literal(" -"),
        ]
    );
    assert_eq!(root.format.last(), Some(&literal("\"")));
    assert!(root.format.contains(&LogPart::Field(LogField::Opcode)));
}

#[test]
fn zones_upstreams_and_caches() {
    let corefile = file("everything", &[]);
    let it = &corefile.blocks[0].plugins;
    let [tls, plain] = &*it.forward else {
        panic!("{it:?}")
    };
    let server_name = Some("dns.quad9.net".to_owned());
    assert_eq!(
        tls.to[0].transport,
        UpstreamTransport::Tls {
            server_name: server_name.clone()
        }
    );
    assert_eq!(tls.to[0].address.to_string(), "9.9.9.9:853");
    assert_eq!(tls.to[1].transport, UpstreamTransport::Tls { server_name });
    assert_eq!(tls.to[1].address.to_string(), "[2620:fe::fe]:8853");
    assert_eq!(
        tls.tls.authority.as_deref(),
        Some(Path::new("/etc/ssl/ca.pem"))
    );
    assert!(!tls.health_check.recursion_desired && tls.health_check.interval == seconds(2));
    assert_eq!((tls.policy, tls.next.len()), (Policy::RoundRobin, 1));
    assert_eq!(
        (plain.policy, plain.failover.len()),
        (Policy::Sequential, 2)
    );
    assert_eq!(
        (plain.except.len(), plain.except[1].to_string()),
        (2, "168.192.in-addr.arpa.".to_owned())
    );
    assert_eq!(
        (plain.protocol, plain.max_connect_attempts),
        (ForwardProtocol::PreferUdp, 4)
    );
    assert!(plain.failfast_all_unhealthy_upstreams);

    let cache = it.cache.as_ref().unwrap();
    assert_eq!(
        (cache.success.capacity, cache.success.min_ttl),
        (1024, seconds(1))
    );
    assert_eq!(
        (cache.denial.capacity, cache.denial.max_ttl),
        (20000, seconds(20))
    );
    let prefetch = cache.prefetch.unwrap();
    assert_eq!(
        (prefetch.amount, prefetch.duration, prefetch.percentage),
        (10, seconds(120), 20)
    );
    let stale = cache.serve_stale.unwrap();
    assert_eq!(
        (stale.duration, stale.refresh),
        (seconds(7200), Refresh::Verify)
    );
    assert!(cache.servfail.is_zero() && cache.keep_ttl && cache.disable_denial[0].is_root());
    assert_eq!(cache.zones[0].to_string(), "cluster.local.");

    let hosts = it.hosts.as_ref().unwrap();
    assert_eq!(hosts.file, Path::new("/etc/coredns/hosts.d/names"));
    assert_eq!(
        (hosts.reload, hosts.reverse, hosts.inline[0].names.len()),
        (None, false, 2)
    );
    assert_eq!(hosts.inline[0].names[1].to_string(), "b.example.org.");

    let kubernetes = it.kubernetes.as_ref().unwrap();
    assert_eq!(kubernetes.zones.len(), 3);
    assert_eq!(
        kubernetes.tls.as_ref().unwrap().key,
        Path::new("/etc/coredns/key.pem")
    );
    assert_eq!(
        kubernetes.kubeconfig.as_ref().unwrap().context.as_deref(),
        Some("admin")
    );
    assert!(
        !kubernetes.endpoints && kubernetes.endpoint_pod_names && kubernetes.ignore_empty_service
    );
    let labels = kubernetes.labels.as_ref().unwrap();
    assert_eq!(
        labels.as_str(),
        "environment in (production, qa),tier!=db,!old"
    );
    assert_eq!(labels.requirements()[2], Requirement::Absent("old".into()));
    let selects = |of: &[(&str, &'static str)]| {
        labels.selects(|key| of.iter().find(|it| it.0 == key).map(|it| it.1))
    };
    assert!(selects(&[("environment", "qa"), ("tier", "web")]));
    assert!(!selects(&[("environment", "qa"), ("tier", "db")]));
    assert!(!selects(&[("environment", "dev")]));
}

#[test]
fn rewrites_and_templates() {
    let corefile = file("everything", &[]);
    let it = &corefile.blocks[0].plugins;
    let [kind, _, exact, regex, suffix, ttl, rcode] = &*it.rewrite else {
        panic!("{it:?}")
    };
    assert_eq!(kind.then, Then::Continue);
    let Rewrite::Name(exact) = &exact.rewrite else {
        panic!("{exact:?}")
    };
    assert_eq!(exact.name, NameMatch::Exact("old.example.org.".to_owned()));
    assert!(exact.answer.auto && exact.to == "new.example.org.");
    let Rewrite::Name(regex) = &regex.rewrite else {
        panic!("{regex:?}")
    };
    assert_eq!(
        (regex.answer.auto, regex.to.as_str()),
        (false, "{1}.svc.cluster.local.")
    );
    assert!(matches!(
        &*regex.answer.rules,
        [AnswerRule::Name { .. }, AnswerRule::Value { .. }]
    ));
    let Rewrite::Name(suffix) = &suffix.rewrite else {
        panic!("{suffix:?}")
    };
    assert_eq!(suffix.name, NameMatch::Suffix(".a.example.org.".to_owned()));
    assert!(suffix.answer.auto);
    let Rewrite::Ttl(ttl) = &ttl.rewrite else {
        panic!("{ttl:?}")
    };
    assert_eq!(ttl.ttl, 30..=60);
    assert!(matches!(rcode.rewrite, Rewrite::Rcode { .. }));

    let [template] = &*it.template else {
        panic!("{it:?}")
    };
    let pattern = &template.matches[0];
    let found = pattern.captures("ip-1-7f.example.org.");
    assert!(found.is_none());
    let rendered = template.answer[0].render(|value| match value {
        TextValue::Name => "ip-1-2.example.org.",
        TextValue::Group(_) => "1",
        _ => "2",
    });
    assert_eq!(rendered.unwrap(), "ip-1-2.example.org. 60 IN A 10.0.1.2");
    let rendered = template.additional[0].render(|_| "7f").unwrap();
    assert_eq!(rendered, "7f60 IN TXT 127");
    assert!(template.additional[0].render(|_| "1ff").is_err());
    assert_eq!(template.ederror, Some((21, "Not Supported".to_owned())));
}

#[test]
fn every_file_passes_the_oracle() {
    for dir in ["tests/files", "../../../fuzz/corpus/corefile"] {
        for entry in fs::read_dir(path(dir)).unwrap() {
            oracle::check(&fs::read(entry.unwrap().path()).unwrap());
        }
    }
}

/// Text of words that a Corefile has, so that the plugins are reached.
fn words() -> impl Strategy<Value = String> {
    let words: Vec<String> = text("everything")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let odd = [
        "{", "}", "{\n", "}\n", "\n", "\"", "import", "(a)", "a", "#", "*", "{$A}", "{{", "}}",
        "-1", "%", ".",
    ];
    let odd: Vec<String> = odd.map(str::to_owned).into();
    let word = prop_oneof![6 => prop::sample::select(words), 4 => prop::sample::select(odd), 1 => ".{0,8}"];
    let space = prop_oneof![3 => Just(" "), 2 => Just("\n"), 1 => Just("")];
    prop::collection::vec((word, space), 0..60).prop_map(|words| {
        words
            .into_iter()
            .fold(String::new(), |text, (word, space)| text + &word + space)
    })
}

/// Lines of a valid Corefile, some of them left out, doubled or in another order.
fn lines() -> impl Strategy<Value = String> {
    let text = text("everything");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let all = lines.len();
    prop::collection::vec((0..all, 0..all), 0..4).prop_map(move |swaps| {
        let mut lines = lines.clone();
        for (a, b) in swaps {
            lines[a] = lines[b].clone();
        }
        lines.join("\n")
    })
}

proptest! {
    // A case compiles the regular expressions of whole Corefiles.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![words(), lines(), any::<String>()]) {
        oracle::check(text.as_bytes());
    }
}
