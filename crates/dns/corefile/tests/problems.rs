//! What is refused, and what is said about it.

use std::io;
use std::path::Path;

use sluice_corefile::{Corefile, HostsEntry, ORDER, Problem, Sources, read};

/// Two files, one variable.
struct Small;

impl Sources for Small {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str().unwrap() {
            "resolv.conf" => Ok("nameserver 10.0.0.1".to_owned()),
            "empty" => Ok("# nothing\n".to_owned()),
            "again" => Ok("import again\nimport again".to_owned()),
            "open" => Ok("log \"".to_owned()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        match folder.to_str().unwrap() {
            "." => Ok(vec!["empty".to_owned(), "open".to_owned()]),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SELF").then(|| "{$SELF}".to_owned())
    }
}

fn outcome(text: &str) -> Result<Corefile, Vec<Problem>> {
    read("Corefile", text, 53, &Small)
}

/// The lines of a file that is refused, each without `Corefile:`.
fn problems(text: &str) -> Vec<String> {
    let problems = outcome(text).expect_err(text);
    let lines = problems.iter().map(ToString::to_string);
    lines
        .map(|it| it.trim_start_matches("Corefile:").to_owned())
        .collect()
}

/// Checks one block that is refused for one reason.
fn refused(plugin: &str, why: &str) {
    let found = problems(&format!(". {{\n{plugin}\n}}"));
    assert_eq!(found, [format!("2: {why}")], "{plugin}");
}

/// Checks a plugin whose second line, an option, is refused for one reason.
fn option(plugin: &str, option: &str, why: &str) {
    let found = problems(&format!(". {{\n{plugin} {{\n{option}\n}}\n}}"));
    let name = plugin.split(' ').next().unwrap();
    assert_eq!(found, [format!("3: {name}: {why}")], "{plugin} {option}");
}

fn accepted(plugin: &str) {
    let text = format!(". {{\n{plugin}\n}}");
    outcome(&text).unwrap_or_else(|why| panic!("{plugin}: {why:?}"));
}

#[test]
fn all_problems_come_at_once() {
    let text = "\
example.org {
    forwrd . 10.0.0.1
    cache 0
    kubernetes cluster.local {
        pod insecure
        ttl 4000
        pods sure
    }
    log {
        class denials
    }
}
tls://example.net {
    hosts {
        fallthru
    }
}
";
    assert_eq!(
        problems(text),
        [
            "2: unknown plugin \"forwrd\": did you mean \"forward\"?",
            "3: cache: \"0\" is no number from 1 to 2147483647",
            "5: kubernetes: unknown option \"pod\": did you mean \"pods\"?",
            "6: kubernetes: ttl: \"4000\" is no number from 0 to 3600",
            "7: kubernetes: pods: \"sure\" is not one of disabled, insecure, verified",
            "10: log: class: unknown value \"denials\": did you mean \"denial\"?",
            "13: \"tls://example.net\": servers with tls:// are not supported, only DNS over UDP and TCP",
            "15: hosts: unknown option \"fallthru\": did you mean \"fallthrough\"?",
        ]
    );
}

#[test]
fn plugins_that_are_not_here() {
    refused("dnssec", "the plugin dnssec of CoreDNS is not supported");
    refused(
        "proxy . 10.0.0.1",
        "unknown plugin \"proxy\": CoreDNS 1.5 replaced it by \"forward\"",
    );
    refused(
        "kubernets",
        "unknown plugin \"kubernets\": did you mean \"kubernetes\"?",
    );
    refused("nothing {\n a {\n b\n }\n}", "unknown plugin \"nothing\"");
    refused(
        "rewrite edns0 local set 0xffee abcd",
        "rewrite: edns0: EDNS0 options of queries go to no upstream here: leave the rule out",
    );
    refused(
        "rewrite cname exact a. b.",
        "rewrite: cname: targets of aliases cannot be replaced here: rewrite the name that is asked for",
    );
    option(
        "kubernetes a b",
        "multicluster b",
        "multicluster: ServiceImports have no names here: leave it out, and its zones",
    );
    option(
        "kubernetes a",
        "zonal",
        "zonal: names that choose a zone do not exist here: leave it out",
    );
    refused(
        "loadbalance weighted f",
        "loadbalance: the policy weighted is not here: round_robin gives all addresses the same share",
    );
    refused(
        "autopath @erratic",
        "autopath: \"@erratic\" is not supported, only @kubernetes is",
    );
    refused(
        "forward . https://9.9.9.9",
        "forward: \"https://9.9.9.9\": only dns:// and tls:// are supported",
    );
}

#[test]
fn every_plugin_of_the_order_is_known() {
    for plugin in ORDER {
        if let Err(problems) = outcome(&format!(". {{\n{plugin}\n}}")) {
            let prefix = format!("{plugin}: ");
            assert!(
                problems.iter().all(|it| it.message.starts_with(&prefix)),
                "{problems:?}"
            );
        }
    }
}

#[test]
fn lines_of_hosts_files() {
    let names = |line: &str| {
        let entry = HostsEntry::parse(line).unwrap();
        entry.map(|it| it.names.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(
        names("10.0.0.1\ta.Example b # c"),
        Some(vec!["a.example.".into(), "b.".into()])
    );
    assert_eq!(names("fe80::1%lo0 a"), Some(vec!["a.".to_owned()]));
    assert_eq!(
        (names("# a"), names(""), names("10.0.0.1 # a")),
        (None, None, None)
    );
    assert_eq!(
        HostsEntry::parse("a b").unwrap_err(),
        "\"a b\" begins with no address"
    );
    assert_eq!(
        HostsEntry::parse("::1 a..b").unwrap_err(),
        "\"a..b\" is no domain name"
    );
}

/// As for CoreDNS, the zone of an address of the link does not count.
#[test]
fn an_inline_address_may_have_a_zone() {
    let corefile = outcome(". {\n hosts {\n fe80::1%eth0 a.example\n }\n}\n").unwrap();
    let hosts = corefile.blocks[0].plugins.hosts.as_ref().unwrap();
    let expected = HostsEntry::parse("fe80::1 a.example").unwrap();
    assert_eq!(hosts.inline, Vec::from_iter(expected));
}

#[test]
fn notes() {
    let text = "\
. {
    debug
    debug
    pprof localhost:6053
    errors {
        stacktrace
    }
    reload
    reload 4s
    health
    health :9
    autopath @kubernetes
}
b.example {
    debug
    kubernetes b.example c.example {
        apiserver_max_inflight 5
        ttl 30 40
        tls a b c
    }
}
";
    let corefile = outcome(text).unwrap();
    let notes: Vec<String> = corefile.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "Corefile:2: debug: has no effect: a panic is always logged",
            "Corefile:4: pprof: has no effect: profiles of Go's runtime do not exist here",
            "Corefile:6: errors: stacktrace: has no effect: a panic is always logged with its place",
            "Corefile:9: reload: stands twice in a server block, the first counts",
            "Corefile:11: health: stands twice in a server block, the last counts",
            "Corefile:12: autopath: has no effect without the plugin kubernetes in the same server block",
            "Corefile:17: kubernetes: apiserver_max_inflight: has no effect: there is one watch for each kind of object",
            "Corefile:18: kubernetes: ttl: the argument \"40\" has no effect",
            "Corefile:16: kubernetes: tls: has no effect: it goes with endpoint and without kubeconfig",
        ]
    );
    let plugins = &corefile.blocks[0].plugins;
    assert_eq!(plugins.reload.as_ref().unwrap().interval.as_secs(), 30);
    assert_eq!(plugins.health.as_ref().unwrap().address.port(), 9);
}

#[test]
fn keys_of_server_blocks() {
    let key = |text: &str| problems(&format!("{text} {{\n}}")).join("; ");
    assert_eq!(
        key("example.org:"),
        "1: \"example.org:\": the port is missing"
    );
    assert_eq!(key(":53"), "1: \"\" is no domain name");
    assert_eq!(key("a..b"), "1: \"a..b\" is no domain name");
    assert_eq!(key("a:70000"), "1: \"a:70000\": a port is at most 65535");
    assert_eq!(
        key("a A."),
        "1: cannot serve dns://a.:53: it is already defined at Corefile:1"
    );
    assert_eq!(problems(""), ["1: no server block"]);

    let two =
        |first: &str, second: &str| outcome(&format!("a {{\n{first}\n}}\na:53 {{\n{second}\n}}"));
    let why = two("", "").unwrap_err();
    assert_eq!(
        why[0].to_string(),
        "Corefile:4: cannot serve dns://a.:53: it is already defined at Corefile:1"
    );
    assert!(two("bind 127.0.0.1", "").is_err());
    assert!(two("bind 127.0.0.1 ::1", "bind ::1").is_err());
    assert!(two("bind 127.0.0.1", "bind ::1").is_ok());

    let zones = |text: &str| -> Vec<String> {
        let corefile = outcome(text).unwrap();
        let keys = corefile.blocks[0].keys.iter();
        keys.map(ToString::to_string).collect()
    };
    assert_eq!(zones("10.0.0.0/8"), ["dns://10.in-addr.arpa.:53"]);
    assert_eq!(zones("0.0.0.0/0:5353"), ["dns://in-addr.arpa.:5353"]);
    assert_eq!(zones("10.1.2.3/32"), ["dns://3.2.1.10.in-addr.arpa.:53"]);
    assert_eq!(zones("10.0.0.0/17").len(), 128);
    let two = [
        "dns://8.b.d.0.1.0.0.2.ip6.arpa.:53",
        "dns://9.b.d.0.1.0.0.2.ip6.arpa.:53",
    ];
    assert_eq!(zones("2001:db8::/31"), two);
    let corefile = read("Corefile", "a:1053, b\n{\n}", 5300, &Small).unwrap();
    let keys: Vec<String> = corefile.blocks[0]
        .keys
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(keys, ["dns://a.:1053", "dns://b.:5300"]);
}

#[test]
fn grammar() {
    let one = |text: &str| problems(text).join("; ");
    assert_eq!(
        one(". {\nlog"),
        "1: the server block has no end: \"}\" is missing"
    );
    assert_eq!(
        one(". {\nlog {\nclass all\n"),
        "2: \"}\" is missing for this \"{\""
    );
    assert_eq!(one(". {\nlog . \"a\n}\n"), "2: the quote is not closed");
    assert_eq!(one(". {\n}\n}"), "3: \"}\" without \"{\"");
    assert_eq!(
        one("{\nlog\n}"),
        "1: a server block begins with a zone, not with \"{\""
    );
    assert_eq!(one("a, {\n}"), "1: a zone is missing after the comma");
    assert_eq!(one("a,"), "1: a zone is missing after the comma");
    assert_eq!(one(". { errors }"), "1: \"}\" must be on a line of its own");
    assert_eq!(
        one(". {\nhealth { lameduck 5s }\n}"),
        "2: \"}\" must be on a line of its own"
    );
    assert_eq!(
        one(". {\nhealth\n{\nlameduck 5s\n}\n}"),
        "3: \"{\" must be on the line of its plugin"
    );
    assert_eq!(
        one(". {\nhealth {\n} log\n}"),
        "3: \"log\" stands behind \"}\""
    );
    assert_eq!(one("(a)\n."), "1: the snippet (a) has no \"{\"");
    assert_eq!(one("(a) {\nlog"), "1: the snippet (a) has no end");
    assert_eq!(one("(a) {\n}\n(a) {\n}"), "3: the snippet (a) stands twice");
    assert_eq!(
        one(". {\nx {\ny {\nz {\na {\nb {\n}\n}\n}\n}\n}\n}"),
        "6: too many blocks in blocks"
    );

    let blocks = |text: &str| outcome(text).unwrap().blocks;
    assert!(blocks(".:53\nlog\nminimal")[0].plugins.minimal);
    assert!(blocks(". { # {\n log#x\nminimal\n}")[0].plugins.minimal);
    assert_eq!(blocks("\u{feff}a\r\n{\r\n}\r\nb {\n}").len(), 2);
    assert_eq!(blocks(".")[0].plugins, Default::default());
    assert_eq!(
        blocks("(s) {\nnsid x\"y \"a \\\" \\n\n\"\n}\n. {\nimport s\nminimal\n}")[0]
            .plugins
            .nsid
            .as_deref(),
        Some("x\"y a \" \\n\n")
    );
    assert_eq!(
        blocks(". {\nnsid a{$NONE}b{%NONE%}c{$}{$SELF}\n}")[0]
            .plugins
            .nsid
            .as_deref(),
        Some("abc{$}{$SELF}")
    );
}

#[test]
fn imports() {
    let one = |text: &str| problems(text).join("; ");
    assert_eq!(
        one(". {\nimport\n}"),
        "2: import: the name of a snippet or file is missing"
    );
    assert_eq!(
        one(". {\nimport a b\n}"),
        "2: import: takes one argument, \"b\" is one more"
    );
    assert_eq!(
        one(". {\nimport none\n}"),
        "2: import: no snippet and no file \"none\": no such file"
    );
    assert_eq!(
        one("import **"),
        "1: import: \"**\": a pattern has at most one * and one ?"
    );
    assert_eq!(
        one("import [a]"),
        "1: import: \"[a]\": a pattern has at most one * and one ?"
    );
    assert_eq!(one("import x/*"), "1: import: \"x/*\": permission denied");
    let cycle = "import: more than 1000 imports or 1048576 words: a snippet or file imports itself";
    assert_eq!(one(". {\nimport again\n}"), format!("again:1: {cycle}"));
    assert_eq!(
        one("(a) {\nimport a\n}\n. {\nimport a\n}"),
        format!("2: {cycle}")
    );
    assert_eq!(
        one(". {\nimport open\n}"),
        "open:1: the quote is not closed"
    );
    assert_eq!(
        one(". {\nimport ?pen\n}"),
        "open:1: the quote is not closed"
    );
    assert!(outcome(". {\nimport e*y\n}").is_ok());
}

#[test]
fn arguments() {
    for plugin in ["any", "minimal", "whoami", "loop"] {
        refused(
            &format!("{plugin} x"),
            &format!("{plugin}: takes no argument, \"x\" is one"),
        );
    }
    for plugin in [
        "errors",
        "ready",
        "kubernetes a",
        "hosts",
        "cache",
        "loop",
        "prometheus",
        "nsid",
    ] {
        let name = plugin.split(' ').next().unwrap();
        let found = problems(&format!(". {{\n{plugin}\n{plugin}\n}}"));
        assert_eq!(
            found,
            [format!("3: {name}: may stand only once in a server block")]
        );
    }
    refused(
        "bufsize 100",
        "bufsize: \"100\" is no number from 512 to 4096",
    );
    option("any", "x", "unknown option \"x\"");
}

#[test]
fn health_reload_and_sizes() {
    refused(
        "health 8080",
        "health: \"8080\" is no address and port such as :8080 or 127.0.0.1:8080",
    );
    option(
        "health",
        "lameduck 5",
        "lameduck: \"5\" is no duration such as 30s, 1m30s, 100ms: the unit is missing",
    );
    option("health", "lameduck -5s", "lameduck: \"-5s\" is negative");
    option(
        "health",
        "lamduck 5s",
        "unknown option \"lamduck\": did you mean \"lameduck\"?",
    );
    option(
        "ready",
        "monitor x",
        "monitor: \"x\" is not one of until-ready, continuously",
    );
    refused("reload 1s", "reload: 1s is less than 2s");
    refused("reload 10s 100ms", "reload: 100ms is less than 1s");
    refused(
        "reload 10s 5s 5s",
        "reload: takes at most 2 arguments, \"5s\" is one more",
    );
    refused(
        "bufsize 511",
        "bufsize: \"511\" is no number from 512 to 4096",
    );
    refused("bind", "bind: an argument is missing");
    refused(
        "bind 10.0.0.0/8",
        "bind: \"10.0.0.0/8\" is no address and no name of an interface",
    );
    refused(
        "errors file",
        "errors: \"file\" is not supported, only stdout is",
    );
    option(
        "errors",
        "consolidate 5m",
        "consolidate: a duration and a regular expression are needed",
    );
    option(
        "errors",
        "consolidate 5m (",
        "consolidate: regular expression \"(\": unclosed group",
    );
    option(
        "errors",
        "consolidate 5m x show_first info",
        "consolidate: unknown argument \"info\"",
    );
    option(
        "acl",
        "allows",
        "unknown option \"allows\": did you mean \"allow\"?",
    );
    option(
        "acl",
        "allow nets 1",
        "allow: \"nets\" is not one of type, net, file",
    );
    option("acl", "allow net", "allow: net: an argument is missing");
    option(
        "acl",
        "allow net x",
        "allow: \"x\" is no network such as 10.0.0.0/8",
    );
}

#[test]
fn caches() {
    option("cache", "success", "success: an argument is missing");
    option(
        "cache",
        "success x",
        "success: \"x\" is no number from 0 to 2147483647",
    );
    option(
        "cache",
        "denial 100 0",
        "denial: \"0\" is no number from 1 to 2147483647",
    );
    option(
        "cache",
        "prefetch 1 1m 5%",
        "prefetch: \"5%\" is no percentage from 10% to 90%",
    );
    option(
        "cache",
        "prefetch 1 1m 50",
        "prefetch: \"50\" is no percentage from 10% to 90%",
    );
    option(
        "cache",
        "serve_stale 20",
        "serve_stale: \"20\" is no duration such as 30s, 1m30s, 100ms: the unit is missing",
    );
    option(
        "cache",
        "serve_stale 1m nono",
        "serve_stale: \"nono\" is not one of immediate, verify",
    );
    option("cache", "servfail 6m", "servfail: at most 5m are allowed");
    option(
        "cache",
        "disable x",
        "disable: \"x\" is not one of success, denial",
    );
    option(
        "cache",
        "keepttl 1",
        "keepttl: takes no argument, \"1\" is one",
    );
    option(
        "cache",
        "keepttl {\na\n}",
        "keepttl: has no options of its own",
    );
}

#[test]
fn forwards() {
    refused(
        "forward .",
        "forward: a zone and at least one upstream are needed",
    );
    refused(
        "forward . nowhere",
        "forward: no address and no file: \"nowhere\": no such file",
    );
    refused("forward . empty", "forward: no name server in the files");
    refused(
        "forward . 10.0.0.1:x",
        "forward: \"10.0.0.1:x\": wrong port",
    );
    let many = "10.0.0.1 ".repeat(16);
    refused(
        &format!("forward . {many}"),
        "forward: 16 upstreams, at most 15 are allowed",
    );
    option(
        "forward . 1.1.1.1",
        "failover NOERROR",
        "failover: NOERROR is no failure",
    );
    option(
        "forward . 1.1.1.1",
        "next NXDOMIAN",
        "next: unknown response code \"NXDOMIAN\": did you mean \"nxdomain\"?",
    );
    option(
        "forward . 1.1.1.1",
        "policy rr",
        "policy: \"rr\" is not one of random, round_robin, sequential",
    );
    option(
        "forward . 1.1.1.1",
        "health_check 1s rec",
        "health_check: \"rec\" is not one of no_rec, domain",
    );
    option(
        "forward . 1.1.1.1",
        "max_concurent 5",
        "unknown option \"max_concurent\": did you mean \"max_concurrent\"?",
    );
    option(
        "forward . 1.1.1.1",
        "resolver 1.1.1.1",
        "resolver: the option resolver of CoreDNS is not supported: leave it out",
    );
    option(
        "forward . 1.1.1.1",
        "tls a b c d",
        "tls: takes at most 3 arguments, \"d\" is one more",
    );
    refused(
        "forward . tls://9.9.9.9%a {\n tls_servername b\n}",
        "forward: tls_servername is \"b\", and 9.9.9.9:853 has \"a\" of its own",
    );
    for upstream in [
        "resolv.conf",
        "::1",
        "[::1]:53",
        "tls://1.1.1.1",
        "dns://1.1.1.1:53",
    ] {
        accepted(&format!("forward . {upstream}"));
    }
    let corefile = outcome(". {\nforward 10.0.0.0/9 1.1.1.1\n}").unwrap();
    assert_eq!(corefile.notes.len(), 1);
}

#[test]
fn kubernetes_and_hosts() {
    refused(
        "kubernetes in-addr.arpa",
        "kubernetes: a zone that is no reverse zone is missing",
    );
    refused(
        "kubernetes a {\n namespaces x\n namespace_labels y\n}",
        "kubernetes: namespaces and namespace_labels exclude each other",
    );
    option(
        "kubernetes a",
        "resyncperiod 5m",
        "resyncperiod: CoreDNS removed resyncperiod, leave it out",
    );
    option(
        "kubernetes a",
        "tls a b",
        "tls: a certificate, a key and an authority are needed",
    );
    option(
        "kubernetes a",
        "ignore emptyservice",
        "ignore: \"emptyservice\" is not empty_service",
    );
    option(
        "kubernetes a",
        "labels a in (b",
        "labels: label selector \"a in (b\": unable to parse requirement: found '', expected: ',' or ')'",
    );
    option(
        "kubernetes a",
        "labels a=b=c",
        "labels: label selector \"a=b=c\": found '=', expected: ',' or 'end of string'",
    );
    option(
        "kubernetes a",
        "labels a like b",
        "labels: label selector \"a like b\": unable to parse requirement: found 'like', expected: in, notin, =, ==, !=, gt, lt",
    );
    option(
        "kubernetes a",
        "labels a>1",
        "labels: label selector \"a>1\": a>1 compares numbers, which this plugin does not",
    );
    option("hosts", "ttl 0", "ttl: \"0\" is no number from 1 to 65535");
    option("hosts", "10.0.0.1", "10.0.0.1: an argument is missing");
    option(
        "hosts",
        "10.0.0.1 a..b",
        "10.0.0.1: \"a..b\" is no domain name",
    );
    let late = problems(". {\nhosts {\nfallthrough\n10.0.0.1 a\n}\n}");
    assert_eq!(
        late,
        ["4: hosts: 10.0.0.1: lines with addresses must stand before fallthrough"]
    );
}

/// Rules that the tests of CoreDNS's plugin accept and refuse.
#[test]
fn rewrite_rules() {
    let (staging, answer) = (
        "staging.mydomain.com coredns.rock",
        "(.*).coredns.rock {1}.staging.mydomain.com",
    );
    for rule in [
        "exact srv3.coredns.rocks srv4.coredns.rocks".to_owned(),
        "srv1.coredns.rocks srv2.coredns.rocks".to_owned(),
        "suffix coredns.rocks coredns.rocks.".to_owned(),
        "regex (.*).coredns.rocks 10".to_owned(),
        "regex (.*).coredns.rocks {1}.coredns.rocks".to_owned(),
        format!("suffix {staging} answer auto"),
        format!("regex {staging} answer auto"),
        format!("regex {staging} answer name {answer} name {answer}"),
        format!("regex {staging} answer name {answer} answer value {answer}"),
        format!("suffix {staging} answer value {answer} name {answer}"),
        format!("exact {staging} answer value {answer}"),
    ] {
        accepted(&format!("rewrite stop name {rule}"));
        accepted(&format!("rewrite {{\nname {rule}\n}}"));
    }
    for (rule, why) in [
        (
            "regex (.*).coredns.rocks {1}.{2}.coredns.rocks".to_owned(),
            "\"{1}.{2}.coredns.rocks\" uses more groups than the 1 of \"(.*).coredns.rocks\""
                .to_owned(),
        ),
        (
            format!("suffix {staging} answer"),
            "answer: one of auto, name, value is missing".to_owned(),
        ),
        (
            format!("suffix {staging} answer name"),
            "answer name: a pattern and its replacement are needed".to_owned(),
        ),
        (
            format!("suffix {staging} answer other"),
            "answer: \"other\" is not one of auto, name, value".to_owned(),
        ),
        (
            format!("regex {staging} answer auto answer name {answer}"),
            "answer auto and answer name exclude each other".to_owned(),
        ),
        (
            "a".to_owned(),
            "a name and its replacement are needed".to_owned(),
        ),
        (
            "like a b".to_owned(),
            "\"like\" is not one of exact, prefix, suffix, substring, regex".to_owned(),
        ),
        (
            format!("regex {} x", "a".repeat(10_001)),
            "the regular expression has 10001 bytes, at most 10000 are allowed".to_owned(),
        ),
    ] {
        refused(
            &format!("rewrite name {rule}"),
            &format!("rewrite: name: {why}"),
        );
    }
    refused("rewrite ttl a -", "rewrite: ttl: a range needs an end");
    refused(
        "rewrite ttl a 5-1",
        "rewrite: ttl: the range \"5-1\" is empty",
    );
    refused(
        "rewrite type A B",
        "rewrite: type: unknown record type \"B\"",
    );
    refused(
        "rewrite",
        "rewrite: the field is missing: name, type, class, ttl or rcode",
    );
    refused(
        "rewrite stop answer name",
        "rewrite: answer must stand after a name",
    );
    accepted("rewrite type TYPE28 LOC");
    accepted("rewrite rcode regex .* 2 3");
    accepted("rewrite ttl example.org 30-");
}

#[test]
fn templates() {
    refused("template IN", "template: a class and a type are needed");
    refused("template IN B", "template: unknown record type \"B\"");
    refused(
        "template XX A",
        "template: \"XX\" is not one of the classes IN, CH, HS, NONE, ANY",
    );
    refused(
        "template IN A {\n match x\n}",
        "template: one of answer, authority, rcode is missing",
    );
    let only = "is not supported, only .Name, .Type, .Class, .Zone, .Remote, .Group.NAME, index .Match N, \
                index .Group NAME and parseInt are";
    for action in [
        "range .Match",
        ".Meta \\\"a\\\"",
        ".Question.Name",
        "printf \\\"%s\\\" .Name",
        "if .Name",
    ] {
        let shown = format!("{{{{ {action} }}}}")
            .replace("\\\"", "\\\\\\\"")
            .replace("\\\\\\\"", "\\\"");
        option(
            "template IN A",
            &format!("answer \"{{{{ {action} }}}}\""),
            &format!("answer: \"{shown}\" {only}"),
        );
    }
    option(
        "template IN A",
        "answer \"{{ .Name\"",
        "answer: \"{{ .Name\": \"}}\" is missing",
    );
    option(
        "template IN A",
        "rcode NX",
        "rcode: unknown response code \"NX\"",
    );
    let found = problems(". {\ntemplate IN A {\nrcode NXDOMAIN\nederror x\n}\n}");
    assert_eq!(
        found,
        ["4: template: ederror: \"x\" is no number from 0 to 65535"]
    );
    let found = problems(
        ". {\ntemplate IN A {\nmatch (?P<a>.) (?P<b>.)\nanswer \"{{ .Group.a }}{{ .Group.b }}\"\n}\n}",
    );
    assert_eq!(
        found,
        [
            "2: template: the pattern \"(?P<b>.)\" has no group \"a\"",
            "2: template: the pattern \"(?P<a>.)\" has no group \"b\"",
        ]
    );
    refused(
        "template IN A {\n answer \"{{ index .Match 1 }}\"\n}",
        "template: the pattern \".*\" has no group 1",
    );
    let text = ". {\ntemplate IN A {\nanswer \"a{{- /* no */ -}} b {{- .Name}} {{ `}}` }} {{\\\"x\\\"}}\"\n}\n}";
    let corefile = outcome(text).unwrap();
    let text = &corefile.blocks[0].plugins.template[0].answer[0];
    assert_eq!(text.render(|_| "n").unwrap(), "abn }} x");
}
