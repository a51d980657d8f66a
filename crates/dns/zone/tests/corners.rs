//! Questions at the edges of the rules, most of them answered as CoreDNS's sources do.

use hickory_proto::rr::{Name, RecordType};
use sluice_model::{Change, NamespacedName};
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects, Outcome, PodRecords, Question, Settings, answer};

use crate::support::{
    NOW, ask, ask_about, deletion, external, namespace, objects, pod, says, service, settings,
    slice,
};

/// Questions below `cluster.local`, with what the answer says.
#[track_caller]
fn check(objects: &Objects, settings: &Settings, table: &[(&str, &str)]) {
    for (question, expected) in table {
        let question = format!("{question}.cluster.local.");
        let said = says(objects, settings, &question).replace(".cluster.local.", ".");
        assert_eq!(said, *expected, "{question}");
    }
}

fn zones() -> Settings {
    settings(&["cluster.local.", "in-addr.arpa.", "ip6.arpa."])
}

fn complete(events: &[Event]) -> Objects {
    objects(NamespaceRule::DeclaredOrImplied, events)
}

#[test]
fn cluster_ips_of_both_families() {
    let objects = complete(&[
        service(
            "d/dual",
            "10.96.0.2 fd00::2",
            "web:80 dns:53/udp dns-tcp:53",
        ),
        service("d/six", "fd00::6", "web:80"),
        service("d/waiting", "", "web:80"),
        service("d/portless", "10.96.0.9", ""),
    ]);
    let dual = "+ dual.d.svc. A 10.96.0.2; dual.d.svc. AAAA fd00::2";
    check(
        &objects,
        &zones(),
        &[
            ("A dual.d.svc", "A 10.96.0.2"),
            ("AAAA dual.d.svc", "AAAA fd00::2"),
            // Six places share 100; two ports of one number are one record.
            (
                "SRV dual.d.svc",
                &format!("SRV 0 16 53 dual.d.svc.; SRV 0 16 80 dual.d.svc. {dual}"),
            ),
            (
                "SRV _dns._udp.dual.d.svc",
                &format!("SRV 0 50 53 dual.d.svc. {dual}"),
            ),
            (
                "SRV dns.UDP.dual.d.svc",
                &format!("SRV 0 50 53 dual.d.svc. {dual}"),
            ),
            (
                "SRV _._tcp.dual.d.svc",
                &format!("SRV 0 25 53 dual.d.svc.; SRV 0 25 80 dual.d.svc. {dual}"),
            ),
            (
                "SRV _web._.dual.d.svc",
                &format!("SRV 0 50 80 dual.d.svc. {dual}"),
            ),
            ("A _web._tcp.dual.d.svc", "A 10.96.0.2"),
            (
                "A __web._tcp.dual.d.svc",
                "NXDOMAIN: Service d/dual has no tcp port called _web",
            ),
            (
                "A _web._udp.dual.d.svc",
                "NXDOMAIN: Service d/dual has no udp port called web",
            ),
            (
                "A six.d.svc",
                "NODATA: Service d/six exists and has no A records",
            ),
            ("AAAA six.d.svc", "AAAA fd00::6"),
            (
                "A waiting.d.svc",
                "NODATA: Service d/waiting exists and has no A records",
            ),
            (
                "SRV waiting.d.svc",
                "NODATA: Service d/waiting exists and has no SRV records",
            ),
            (
                "TXT waiting.d.svc",
                "NODATA: Service d/waiting exists and has no TXT records",
            ),
            ("A portless.d.svc", "A 10.96.0.9"),
            (
                "SRV portless.d.svc",
                "NODATA: Service d/portless exists and has no SRV records",
            ),
            (
                "A _._tcp.portless.d.svc",
                "NXDOMAIN: Service d/portless has no tcp port",
            ),
            ("A _._.portless.d.svc", "A 10.96.0.9"),
        ],
    );
}

#[test]
fn types_without_records() {
    let objects = complete(&[
        service("d/web", "10.96.0.2", "web:80"),
        external("d/ext", "db.example.com"),
    ]);
    for kind in [
        "ANY", "HTTPS", "SVCB", "MX", "CNAME", "CAA", "DS", "NAPTR", "HINFO", "PTR",
    ] {
        let none = format!("NODATA: Service d/web exists and has no {kind} records");
        check(
            &objects,
            &zones(),
            &[
                (&format!("{kind} web.d.svc"), &none),
                (
                    &format!("{kind} nope.d.svc"),
                    "NXDOMAIN: there is no Service nope in namespace d",
                ),
                (
                    &format!("{kind} d.svc"),
                    "NODATA: only names below this one have records",
                ),
            ],
        );
    }
    let ext = |kind| {
        format!(
            "NODATA: Service d/ext, which stands for db.example.com, which has no {kind} records"
        )
    };
    check(
        &objects,
        &zones(),
        &[
            ("MX ext.d.svc", &ext("MX")),
            ("SRV ext.d.svc", &ext("SRV")),
            ("TXT ext.d.svc", &ext("TXT")),
            ("CNAME ext.d.svc", "CNAME db.example.com."),
            ("A ext.d.svc", "CNAME db.example.com.; ..."),
            (
                "SRV _a._tcp.ext.d.svc",
                "NXDOMAIN: Service d/ext stands for db.example.com: it has no ports and endpoints",
            ),
            (
                "A a.ext.d.svc",
                "NXDOMAIN: Service d/ext stands for db.example.com: it has no ports and endpoints",
            ),
            ("CNAME _._.ext.d.svc", "CNAME db.example.com."),
        ],
    );
}

#[test]
fn endpoints() {
    let objects = complete(&[
        service("d/db", "headless", "pg:5432"),
        slice(
            "d/db-1",
            "db",
            "pg:5432 m:9187",
            &["10.0.0.1&db-0", "10.0.0.2", "10.0.0.3!&db-2"],
        ),
        // The other family of the same endpoints, another port number, and an endpoint twice.
        slice("d/db-2", "db", "pg:5433", &["fd00::1&db-0", "fd00::"]),
        slice("d/db-3", "db", "pg:5432", &["10.0.0.1&db-0"]),
        slice("d/orphan-1", "orphan", "pg:5432", &["10.0.0.9&lost"]),
        slice("d/nobody", "", "pg:5432", &["10.0.0.8"]),
    ]);
    let pg = "db-0.db.d.svc. A 10.0.0.1; db-0.db.d.svc. AAAA fd00::1";
    check(
        &objects,
        &zones(),
        &[
            ("A db.d.svc", "A 10.0.0.1; A 10.0.0.2"),
            ("AAAA db.d.svc", "AAAA fd00::; AAAA fd00::1"),
            ("A _m._tcp.db.d.svc", "A 10.0.0.1; A 10.0.0.2"),
            (
                "AAAA _m._tcp.db.d.svc",
                "NODATA: Service d/db exists and has no AAAA records",
            ),
            (
                "A _x._tcp.db.d.svc",
                "NXDOMAIN: Service d/db has no tcp port called x",
            ),
            // Five places; that of the third slice repeats the first.
            (
                "SRV _pg._tcp.db.d.svc",
                &format!(
                    "SRV 0 20 5432 10-0-0-2.db.d.svc.; SRV 0 20 5432 db-0.db.d.svc.; SRV 0 20 5433 db-0.db.d.svc.; \
                 SRV 0 20 5433 fd00--0.db.d.svc. + 10-0-0-2.db.d.svc. A 10.0.0.2; {pg}; fd00--0.db.d.svc. AAAA fd00::"
                ),
            ),
            ("A DB-0.db.d.svc", "A 10.0.0.1"),
            ("AAAA db-0.db.d.svc", "AAAA fd00::1"),
            (
                "SRV db-0.db.d.svc",
                &format!(
                    "SRV 0 25 5432 db-0.db.d.svc.; SRV 0 25 5433 db-0.db.d.svc.; SRV 0 25 9187 db-0.db.d.svc. + {pg}"
                ),
            ),
            (
                "A fd00--0.db.d.svc",
                "NODATA: endpoint fd00:: of Service d/db, in EndpointSlice db-2, which has no A records",
            ),
            (
                "A db-2.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called db-2",
            ),
            (
                "A 10-0-0-1.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called 10-0-0-1",
            ),
            (
                "A _db-0.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called _db-0",
            ),
            (
                "A lost.orphan.d.svc",
                "NXDOMAIN: there is no Service orphan in namespace d",
            ),
        ],
    );
    let ptr = |address: &str| says(&objects, &zones(), &format!("PTR {address}.in-addr.arpa."));
    assert_eq!(ptr("1.0.0.10"), "PTR db-0.db.d.svc.cluster.local.");
    assert_eq!(ptr("9.0.0.10"), "PTR lost.orphan.d.svc.cluster.local.");
    assert_eq!(
        ptr("3.0.0.10"),
        "NXDOMAIN: no ClusterIP and no ready endpoint is 10.0.0.3"
    );
    assert_eq!(
        ptr("8.0.0.10"),
        "NXDOMAIN: no ClusterIP and no ready endpoint is 10.0.0.8"
    );
}

#[test]
fn endpoints_with_several_addresses() {
    let own = ["10.0.0.1,10.0.0.2&h", "10.0.0.3,10.0.0.4"];
    let objects = complete(&[
        service("d/web", "headless", "a:1"),
        slice("d/web-1", "web", "a:1", &own),
    ]);
    check(
        &objects,
        &zones(),
        &[
            (
                "A web.d.svc",
                "A 10.0.0.1; A 10.0.0.2; A 10.0.0.3; A 10.0.0.4",
            ),
            ("A h.web.d.svc", "A 10.0.0.1; A 10.0.0.2"),
            ("A 10-0-0-3.web.d.svc", "A 10.0.0.3"),
            ("A 10-0-0-4.web.d.svc", "A 10.0.0.4"),
            (
                "SRV _a._tcp.web.d.svc",
                "SRV 0 25 1 10-0-0-3.web.d.svc.; SRV 0 25 1 10-0-0-4.web.d.svc.; SRV 0 25 1 h.web.d.svc. + \
                 10-0-0-3.web.d.svc. A 10.0.0.3; 10-0-0-4.web.d.svc. A 10.0.0.4; \
                 h.web.d.svc. A 10.0.0.1; h.web.d.svc. A 10.0.0.2",
            ),
        ],
    );
    let name_of = |address| {
        let question = format!("PTR {address}.0.0.10.in-addr.arpa.");
        says(&objects, &zones(), &question)
    };
    assert_eq!(name_of(2), "PTR h.web.d.svc.cluster.local.");
    assert_eq!(name_of(4), "PTR 10-0-0-4.web.d.svc.cluster.local.");
}

/// Most resolvers take the first name: one that leads back to this address alone.
#[test]
fn a_reverse_name_with_a_hostname_comes_first() {
    let objects = complete(&[
        service("d/api", "headless", ""),
        slice("d/api-1", "api", "", &["10.0.0.1", "10.0.0.2"]),
        service("d/web", "headless", ""),
        slice("d/web-1", "web", "", &["10.0.0.1&db-0", "10.0.0.2"]),
    ]);
    for (address, expected) in [
        ("1", ["db-0.web", "10-0-0-1.api"]),
        ("2", ["10-0-0-2.api", "10-0-0-2.web"]),
    ] {
        let name = Name::from_ascii(format!("{address}.0.0.10.in-addr.arpa.")).unwrap();
        let question = Question {
            name: &name,
            record_type: RecordType::PTR,
        };
        let settings = zones();
        let Outcome::Records { answers, .. } = answer(&objects, &settings, question).outcome else {
            panic!("no records of {address}");
        };
        let found: Vec<String> = answers.iter().map(|it| it.data.to_string()).collect();
        assert_eq!(
            found,
            expected.map(|it| format!("{it}.d.svc.cluster.local."))
        );
    }
}

#[test]
fn slices_without_ports() {
    let objects = complete(&[
        service("d/a", "headless", ""),
        slice("d/a-1", "a", "", &["10.0.0.1&x"]),
        slice("d/a-2", "a", "web:80", &["10.0.0.2&y"]),
        service("d/empty", "headless", "web:80"),
        slice("d/empty-1", "empty", "web:80", &["10.0.0.4!"]),
    ]);
    check(
        &objects,
        &zones(),
        &[
            ("A a.d.svc", "A 10.0.0.1; A 10.0.0.2"),
            ("A x.a.d.svc", "A 10.0.0.1"),
            ("A _web._tcp.a.d.svc", "A 10.0.0.2"),
            // The slice without ports shares in the weights.
            (
                "SRV a.d.svc",
                "SRV 0 50 80 y.a.d.svc. + y.a.d.svc. A 10.0.0.2",
            ),
            (
                "SRV x.a.d.svc",
                "NODATA: endpoint 10.0.0.1 of Service d/a, in EndpointSlice a-1, which has no SRV records",
            ),
            (
                "A empty.d.svc",
                "NXDOMAIN: Service d/empty has no ready endpoint",
            ),
            (
                "TXT empty.d.svc",
                "NXDOMAIN: Service d/empty has no ready endpoint",
            ),
        ],
    );
}

#[test]
fn names_of_pods_as_endpoints() {
    let long = format!("10.0.0.3*{}", "p".repeat(64));
    let objects = complete(&[
        service("d/db", "headless", "pg:1"),
        slice(
            "d/db-1",
            "db",
            "pg:1",
            &[
                "10.0.0.1*pod-a",
                "10.0.0.2&host*pod-b",
                &long,
                "10.0.0.4*a.b",
            ],
        ),
    ]);
    let mut settings = zones();
    check(
        &objects,
        &settings,
        &[
            (
                "A pod-a.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called pod-a",
            ),
            ("A 10-0-0-1.db.d.svc", "A 10.0.0.1"),
        ],
    );
    settings.endpoint_pod_names = true;
    check(
        &objects,
        &settings,
        &[
            ("A pod-a.db.d.svc", "A 10.0.0.1"),
            (
                "A 10-0-0-1.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called 10-0-0-1",
            ),
            ("A host.db.d.svc", "A 10.0.0.2"),
            (
                "A pod-b.db.d.svc",
                "NXDOMAIN: no ready endpoint of Service d/db is called pod-b",
            ),
            ("A 10-0-0-3.db.d.svc", "A 10.0.0.3"),
            ("A 10-0-0-4.db.d.svc", "A 10.0.0.4"),
        ],
    );
    let ptr = says(&objects, &settings, "PTR 1.0.0.10.in-addr.arpa.");
    assert_eq!(ptr, "PTR pod-a.db.d.svc.cluster.local.");
}

#[test]
fn aliases_inside_the_zone() {
    let chain = |i: usize| {
        external(
            &format!("d/c{i}"),
            &format!("c{}.d.svc.cluster.local", i + 1),
        )
    };
    let mut events: Vec<_> = (0..9).map(chain).collect();
    events.extend([
        service("d/c9", "10.96.0.9", "a:1"),
        external("d/up", "UP.d.svc.Cluster.Local"),
        external("d/a", "b.d.svc.cluster.local"),
        external("d/b", "a.d.svc.cluster.local"),
        external("d/out", "far.d.svc.cluster.local"),
        external("d/far", "example.com"),
        external("d/nothing", "nope.d.svc.cluster.local"),
        external("d/number", "10.0.0.1"),
        external("d/apex", "cluster.local"),
        external("d/ns", "ns.dns.cluster.local"),
        external("d/pod", "10-0-0-1.d.pod.cluster.local"),
    ]);
    let objects = complete(&events);
    let mut settings = zones();
    settings.pods = PodRecords::Insecure;
    settings.listens = vec!["192.0.2.1".parse().unwrap()];
    let nothing = |name: &str, target: &str, kind: &str| {
        format!("NODATA: Service d/{name}, which stands for {target}, which has no {kind} records")
    };
    check(
        &objects,
        &settings,
        &[
            (
                "A c7.d.svc",
                "CNAME c8.d.svc.; c8.d.svc. CNAME c9.d.svc.; c9.d.svc. A 10.96.0.9",
            ),
            (
                "AAAA c8.d.svc",
                &nothing("c8", "c9.d.svc.cluster.local", "AAAA"),
            ),
            ("A c0.d.svc", &nothing("c0", "c1.d.svc.cluster.local", "A")),
            ("CNAME c0.d.svc", "CNAME c1.d.svc."),
            ("A up.d.svc", &nothing("up", "UP.d.svc.Cluster.Local", "A")),
            ("A a.d.svc", &nothing("a", "b.d.svc.cluster.local", "A")),
            (
                "A out.d.svc",
                "CNAME far.d.svc.; far.d.svc. CNAME example.com.; ...",
            ),
            (
                "A nothing.d.svc",
                &nothing("nothing", "nope.d.svc.cluster.local", "A"),
            ),
            (
                "A number.d.svc",
                "NXDOMAIN: externalName of Service d/number is an address, not a name",
            ),
            ("A apex.d.svc", &nothing("apex", "cluster.local", "A")),
            ("A ns.d.svc", "CNAME ns.dns.; ns.dns. A 192.0.2.1"),
            (
                "A pod.d.svc",
                "CNAME 10-0-0-1.d.pod.; 10-0-0-1.d.pod. A 10.0.0.1",
            ),
        ],
    );
    let reply = ask(
        &objects,
        &settings,
        "c1.d.svc.cluster.local.",
        RecordType::A,
    );
    assert_eq!(
        reply.answers.len(),
        9,
        "eight aliases are the longest chain"
    );
}

#[test]
fn what_an_alias_leads_to() {
    let objects = complete(&[external("d/ext", "a_b.Example.com")]);
    let (settings, name) = (
        zones(),
        Name::from_ascii("Ext.d.svc.cluster.local.").unwrap(),
    );
    let question = Question {
        name: &name,
        record_type: RecordType::AAAA,
    };
    let Outcome::Alias { answers, target } = answer(&objects, &settings, question).outcome else {
        panic!("not an alias");
    };
    assert_eq!(target.to_ascii(), "a_b.Example.com.");
    assert!(answers[0].name.eq_case(&name));
}

#[test]
fn pods() {
    let objects = complete(&[
        pod("d", "one", &["10.0.0.1", "fd00::1"]),
        pod("d", "host-1", &["192.0.2.1"]),
        pod("d", "host-2", &["192.0.2.1"]),
        pod("e", "other", &["10.0.0.2"]),
    ]);
    let mut settings = zones();
    check(
        &objects,
        &settings,
        &[
            (
                "A 10-0-0-1.d.pod",
                "NXDOMAIN: pods disabled: pods have no names",
            ),
            ("A d.pod", "NXDOMAIN: pods disabled: pods have no names"),
            ("A pod", "NODATA: only names below this one have records"),
        ],
    );
    settings.pods = PodRecords::Verified;
    check(
        &objects,
        &settings,
        &[
            ("A 10-0-0-1.d.pod", "A 10.0.0.1"),
            (
                "AAAA 10-0-0-1.d.pod",
                "NODATA: pod d/one, which has no AAAA records",
            ),
            ("AAAA fd00--1.d.pod", "AAAA fd00::1"),
            (
                "A 10-0-0-2.d.pod",
                "NXDOMAIN: no pod in namespace d has the address 10.0.0.2",
            ),
            (
                "SRV 192-0-2-1.d.pod",
                "SRV 0 50 0 192-0-2-1.d.pod. + 192-0-2-1.d.pod. A 192.0.2.1",
            ),
            (
                "A one.d.pod",
                "NXDOMAIN: one is no address with dashes, as 10-244-1-2 is",
            ),
            ("A d.pod", "NODATA: only names below this one have records"),
            ("A nope.pod", "NXDOMAIN: there is no namespace nope"),
        ],
    );
    settings.pods = PodRecords::Insecure;
    check(
        &objects,
        &settings,
        &[
            ("A 10-9-9-9.d.pod", "A 10.9.9.9"),
            (
                "TXT 10-9-9-9.d.pod",
                "NODATA: the address that the name spells (pods insecure: no pod is looked for), which has no TXT records",
            ),
            ("A y.x.10-9-9-9.d.pod", "A 10.9.9.9"),
            (
                "A z.y.x.10-9-9-9.d.pod",
                "NXDOMAIN: no name in the zone has so many labels",
            ),
            (
                "SRV X.10-9-9-9.d.pod",
                "SRV 0 100 0 10-9-9-9.d.pod. + 10-9-9-9.d.pod. A 10.9.9.9",
            ),
            (
                "A 10-9-9-9.nope.pod",
                "NXDOMAIN: there is no namespace nope",
            ),
        ],
    );
    assert_eq!(objects.pods_at("192.0.2.1".parse().unwrap()).count(), 2);
}

#[test]
fn namespaces() {
    let web = [
        service("d/web", "10.96.0.1", "a:1"),
        service("e/web", "10.96.0.2", "a:1"),
    ];
    let declared = |rule| {
        objects(
            rule,
            &[&web[..], &[namespace("d"), namespace("empty")]].concat(),
        )
    };
    let missing = "NXDOMAIN: there is no namespace e";
    for rule in [NamespaceRule::Declared, NamespaceRule::DeclaredOrImplied] {
        check(
            &declared(rule),
            &zones(),
            &[
                ("A web.d.svc", "A 10.96.0.1"),
                ("A web.e.svc", missing),
                ("A e.svc", missing),
                (
                    "A empty.svc",
                    "NODATA: only names below this one have records",
                ),
            ],
        );
    }
    check(
        &objects(NamespaceRule::Declared, &web),
        &zones(),
        &[("A web.e.svc", missing)],
    );
    let mut implied = objects(NamespaceRule::DeclaredOrImplied, &web);
    check(
        &implied,
        &zones(),
        &[
            ("A web.e.svc", "A 10.96.0.2"),
            ("A nope.svc", "NXDOMAIN: there is no namespace nope"),
        ],
    );
    implied.absorb(&deletion(&web[1]), NOW);
    check(&implied, &zones(), &[("A e.svc", missing)]);

    let mut some = zones();
    some.namespaces.insert("d".into());
    let objects = objects(NamespaceRule::DeclaredOrImplied, &web);
    check(
        &objects,
        &some,
        &[
            ("A web.D.svc", "A 10.96.0.1"),
            (
                "A web.e.svc",
                "NXDOMAIN: namespace e is not among the namespaces of the kubernetes plugin",
            ),
        ],
    );
    let ptr = |address: &str| says(&objects, &some, &format!("PTR {address}.in-addr.arpa."));
    assert_eq!(ptr("1.0.96.10"), "PTR web.d.svc.cluster.local.");
    assert_eq!(
        ptr("2.0.96.10"),
        "NXDOMAIN: no ClusterIP and no ready endpoint is 10.96.0.2"
    );
}

#[test]
fn empty_services_and_no_endpoints() {
    let objects = complete(&[
        service("d/full", "10.96.0.1", "a:1"),
        slice("d/full-1", "full", "a:1", &["10.0.0.1&x"]),
        service("d/empty", "10.96.0.2", "a:1"),
        slice("d/empty-1", "empty", "a:1", &["10.0.0.2!&y"]),
        service("d/db", "headless", "a:1"),
        slice("d/db-1", "db", "a:1", &["10.0.0.3&z"]),
        external("d/ext", "example.com"),
    ]);
    let mut settings = zones();
    settings.ignore_empty_service = true;
    check(
        &objects,
        &settings,
        &[
            ("A full.d.svc", "A 10.96.0.1"),
            (
                "A empty.d.svc",
                "NXDOMAIN: Service d/empty has no ready endpoint",
            ),
            ("CNAME ext.d.svc", "CNAME example.com."),
        ],
    );
    settings.no_endpoints = true;
    check(
        &objects,
        &settings,
        &[
            ("A full.d.svc", "A 10.96.0.1"),
            ("A empty.d.svc", "A 10.96.0.2"),
            (
                "A db.d.svc",
                "NXDOMAIN: noendpoints: endpoints of Service d/db have no names",
            ),
            (
                "A x.full.d.svc",
                "NXDOMAIN: noendpoints: endpoints of Service d/full have no names",
            ),
        ],
    );
    let ptr = |address: &str| says(&objects, &settings, &format!("PTR {address}.in-addr.arpa."));
    assert_eq!(ptr("1.0.96.10"), "PTR full.d.svc.cluster.local.");
    assert_eq!(
        ptr("1.0.0.10"),
        "NXDOMAIN: no ClusterIP and no ready endpoint is 10.0.0.1"
    );
}

#[test]
fn the_zone_itself() {
    let objects = complete(&[service("d/web", "10.96.0.1", "a:1")]);
    let soa = "SOA ns.dns. hostmaster. SERIAL 7200 1800 86400 30";
    check(
        &objects,
        &zones(),
        &[
            ("A svc", "NODATA: only names below this one have records"),
            (
                "TXT svc",
                "NXDOMAIN: no Service or pod has this name, so it has no TXT records",
            ),
            (
                "SOA nope",
                "NODATA: the zone itself, which has no SOA records",
            ),
            (
                "NS web.d.svc",
                "NODATA: Service d/web exists and has no NS records",
            ),
            (
                "A other",
                "NXDOMAIN: the zone has names below svc and pod, none below other",
            ),
            ("TXT dns-version", "28800 TXT \"1.1.0\""),
            (
                "A dns-version",
                "NXDOMAIN: the zone has names below svc and pod, none below dns-version",
            ),
            (
                "PTR web.d.svc",
                "NODATA: Service d/web exists and has no PTR records",
            ),
            (
                "A c.b.a.web.d.svc",
                "NXDOMAIN: no name in the zone has so many labels",
            ),
        ],
    );
    let apex = |kind: &str| {
        says(&objects, &zones(), &format!("{kind} cluster.local.")).replace(".cluster.local.", ".")
    };
    assert_eq!(apex("SOA"), soa);
    assert_eq!(
        apex("NS"),
        "NODATA: the zone itself, which has no NS records"
    );
    assert_eq!(
        apex("AAAA"),
        "NODATA: only names below this one have records"
    );
    assert_eq!(
        says(&objects, &zones(), "A example.com."),
        "not ours: no zone of the kubernetes plugin is around this name"
    );
    assert_eq!(
        says(&objects, &zones(), "A ."),
        "not ours: no zone of the kubernetes plugin is around this name"
    );
}

#[test]
fn servers_of_the_zone() {
    let at = |address: &str| {
        let mut settings = zones();
        settings.listens = vec![address.parse().unwrap(), "fd00::53".parse().unwrap()];
        settings
    };
    let objects = complete(&[
        service("sys/dns", "10.96.0.10 fd00::10", "dns:53/udp"),
        slice(
            "sys/dns-1",
            "dns",
            "dns:53/udp",
            &["10.0.0.53", "10.0.0.54"],
        ),
        service("sys/headless", "headless", "dns:53/udp"),
        slice(
            "sys/headless-1",
            "headless",
            "dns:53/udp",
            &["10.0.0.55&a", "10.0.0.56"],
        ),
    ]);
    let ns = |settings: &Settings, kind: &str| {
        let name = if kind == "NS" {
            "cluster.local."
        } else {
            "ns.dns.cluster.local."
        };
        says(&objects, settings, &format!("{kind} {name}")).replace(".cluster.local.", ".")
    };
    let elsewhere = at("192.0.2.1");
    assert_eq!(
        ns(&elsewhere, "NS"),
        "NS ns.dns. + ns.dns. A 192.0.2.1; ns.dns. AAAA fd00::53"
    );
    assert_eq!(ns(&elsewhere, "A"), "A 192.0.2.1");
    assert_eq!(ns(&elsewhere, "AAAA"), "AAAA fd00::53");
    assert_eq!(
        ns(&elsewhere, "SRV"),
        "NODATA: the servers of the zone, which has no SRV records"
    );
    assert!(ns(&elsewhere, "TXT").starts_with("NXDOMAIN"));
    assert!(ns(&zones(), "A").starts_with("NODATA"));
    let pod = at("10.0.0.53");
    assert_eq!(
        ns(&pod, "NS"),
        "NS dns.sys.svc. + dns.sys.svc. A 10.96.0.10; dns.sys.svc. AAAA fd00::10"
    );
    assert_eq!(ns(&pod, "A"), "A 10.96.0.10");
    let headless = at("10.0.0.56");
    assert_eq!(
        ns(&headless, "NS"),
        "NS 10-0-0-56.headless.sys.svc.; NS a.headless.sys.svc. + 10-0-0-56.headless.sys.svc. A 10.0.0.56; \
         a.headless.sys.svc. A 10.0.0.55"
    );
}

#[test]
fn reverse_zones() {
    let objects = complete(&[
        service("d/web", "10.96.0.1 fd00::1", "a:1"),
        slice("d/web-1", "web", "a:1", &["10.0.0.1", "10.96.0.1"]),
        slice("e/y-1", "y", "a:1", &["10.0.0.1&b"]),
        slice("e/x-1", "x", "a:1", &["10.0.0.1"]),
        slice("e/x-2", "x", "b:1", &["10.0.0.1"]),
    ]);
    let settings = settings(&[
        "in-addr.arpa.",
        "ip6.arpa.",
        "other.example.",
        "cluster.local.",
    ]);
    let says = |question: &str| says(&objects, &settings, question);
    let only = "NXDOMAIN: a reverse zone has PTR records of whole addresses only";
    assert_eq!(
        says("PTR 1.0.96.10.In-Addr.arpa."),
        "PTR web.d.svc.other.example."
    );
    assert_eq!(
        says("PTR 1.0.0.10.in-addr.arpa."),
        "PTR 10-0-0-1.web.d.svc.other.example.; PTR 10-0-0-1.x.e.svc.other.example.; PTR b.y.e.svc.other.example."
    );
    assert_eq!(says("A 1.0.96.10.in-addr.arpa."), only);
    assert_eq!(says("TXT 1.0.96.10.in-addr.arpa."), only);
    assert_eq!(says("PTR 0.96.10.in-addr.arpa."), only);
    assert_eq!(says("PTR x.1.0.96.10.in-addr.arpa."), only);
    assert_eq!(
        says("PTR in-addr.arpa."),
        "NODATA: only names below this one have records"
    );
    assert_eq!(
        says("A svc.in-addr.arpa."),
        "NODATA: only names below this one have records"
    );
    assert_eq!(says("A web.d.svc.in-addr.arpa."), only);
    assert_eq!(
        says("SOA in-addr.arpa."),
        "SOA ns.dns.in-addr.arpa. hostmaster.in-addr.arpa. SERIAL 7200 1800 86400 30"
    );
    let v6 = format!("PTR 1.{}d.f.ip6.arpa.", "0.".repeat(29));
    assert_eq!(says(&v6), "PTR web.d.svc.other.example.");
}

#[test]
fn several_zones() {
    let objects = complete(&[
        service("d/web", "10.96.0.1", "a:1"),
        external("d/here", "web.d.svc.deep.cluster.local"),
        external("d/there", "web.d.svc.cluster.local"),
    ]);
    let settings = settings(&["cluster.local.", "deep.cluster.local.", "10.in-addr.arpa."]);
    let says = |question: &str| says(&objects, &settings, question);
    assert_eq!(says("A web.d.svc.deep.cluster.local."), "A 10.96.0.1");
    assert_eq!(
        says("SRV web.d.svc.deep.cluster.local."),
        "SRV 0 100 1 web.d.svc.deep.cluster.local. + web.d.svc.deep.cluster.local. A 10.96.0.1"
    );
    assert_eq!(
        says("PTR 1.0.96.10.in-addr.arpa."),
        "PTR web.d.svc.cluster.local."
    );
    assert!(says("PTR 1.0.96.11.in-addr.arpa.").starts_with("not ours"));
    // A name of another zone is the caller's to follow.
    assert_eq!(
        says("A there.d.svc.deep.cluster.local."),
        "CNAME web.d.svc.cluster.local.; ..."
    );
    assert_eq!(
        says("A here.d.svc.deep.cluster.local."),
        "CNAME web.d.svc.deep.cluster.local.; web.d.svc.deep.cluster.local. A 10.96.0.1"
    );
}

#[test]
fn the_zone_of_all_names() {
    let objects = complete(&[service("d/web", "10.96.0.1", "a:1")]);
    let settings = settings(&["."]);
    assert_eq!(says(&objects, &settings, "A web.d.svc."), "A 10.96.0.1");
    assert_eq!(
        says(&objects, &settings, "PTR 1.0.96.10.in-addr.arpa."),
        "PTR web.d.svc."
    );
    assert_eq!(
        says(&objects, &settings, "SOA ."),
        "SOA ns.dns. hostmaster. SERIAL 7200 1800 86400 30"
    );
}

#[test]
fn the_letter_case_is_that_of_the_question() {
    let objects = complete(&[
        service("d/web", "10.96.0.1", "a:1"),
        slice("d/web-1", "web", "a:1", &["10.0.0.1&x"]),
    ]);
    let says = |question: &str| says(&objects, &zones(), question);
    let reply = ask(
        &objects,
        &zones(),
        "WeB.d.Svc.Cluster.LOCAL.",
        RecordType::SRV,
    );
    assert_eq!(
        reply.answers,
        ["WeB.d.Svc.Cluster.LOCAL. 30 SRV 0 100 1 web.d.svc.Cluster.LOCAL."]
    );
    assert_eq!(
        reply.additionals,
        ["web.d.svc.Cluster.LOCAL. 30 A 10.96.0.1"]
    );
    let reply = ask(
        &objects,
        &zones(),
        "nope.d.svc.CLUSTER.local.",
        RecordType::A,
    );
    let soa = "CLUSTER.local. 30 SOA ns.dns.CLUSTER.local. hostmaster.CLUSTER.local. SERIAL 7200 1800 86400 30";
    assert_eq!(reply.authorities, [soa]);
    assert_eq!(
        says("SOA CLUSTER.local."),
        soa.replace("CLUSTER.local. 30 ", "")
    );
    assert_eq!(says("A X.web.d.svc.cluster.local."), "A 10.0.0.1");
    assert_eq!(
        says("TXT DNS-Version.cluster.local."),
        "28800 TXT \"1.1.0\""
    );
}

#[test]
fn times_to_live() {
    let objects = complete(&[service("d/web", "10.96.0.1", "a:1")]);
    let ttl = |ttl: u32, record_type| {
        let mut settings = zones();
        settings.ttl = ttl;
        let reply = ask(&objects, &settings, "web.d.svc.cluster.local.", record_type);
        [reply.answers, reply.authorities].concat().join("")
    };
    assert_eq!(
        ttl(0, RecordType::A),
        "web.d.svc.cluster.local. 0 A 10.96.0.1"
    );
    assert_eq!(
        ttl(3600, RecordType::A),
        "web.d.svc.cluster.local. 3600 A 10.96.0.1"
    );
    assert_eq!(
        ttl(9999, RecordType::A),
        "web.d.svc.cluster.local. 3600 A 10.96.0.1"
    );
    // The SOA's own TTL ends at 300; how long the negative answer is kept does not.
    let soa = ttl(3600, RecordType::AAAA);
    assert!(
        soa.starts_with("cluster.local. 300 SOA") && soa.ends_with(" 3600"),
        "{soa}"
    );
}

#[test]
fn before_all_objects_are_there() {
    let mut objects = Objects::new(NamespaceRule::Declared);
    for event in [
        namespace("d"),
        service("d/web", "10.96.0.1", "a:1"),
        external("d/alias", "late.d.svc.cluster.local"),
    ] {
        objects.absorb(&event, NOW);
    }
    let settings = zones();
    let late = "there is no Service late in namespace d";
    let alias =
        "Service d/alias, which stands for late.d.svc.cluster.local, which has no A records";
    check(
        &objects,
        &settings,
        &[
            ("A web.d.svc", "A 10.96.0.1"),
            ("A late.d.svc", &format!("SERVFAIL: {late}")),
            ("A alias.d.svc", &format!("SERVFAIL: {alias}")),
            ("A d.svc", "NODATA: only names below this one have records"),
        ],
    );
    assert!(says(&objects, &settings, "PTR 9.9.9.9.in-addr.arpa.").starts_with("SERVFAIL"));
    assert!(!objects.is_synced());
    objects.absorb(&Event::SYNCED, NOW);
    assert!(objects.is_synced());
    check(
        &objects,
        &settings,
        &[
            ("A late.d.svc", &format!("NXDOMAIN: {late}")),
            ("A alias.d.svc", &format!("NODATA: {alias}")),
        ],
    );
}

#[test]
fn labels_that_are_no_names() {
    let objects = complete(&[service("d/web", "10.96.0.1", "a:1")]);
    let settings = zones();
    let zone: [&[u8]; 3] = [b"svc", b"cluster", b"local"];
    let ask = |labels: [&[u8]; 2]| {
        let name = Name::from_labels([&labels[..], &zone[..]].concat()).unwrap();
        ask_about(&objects, &settings, &name, RecordType::A)
    };
    for label in [&b"\xff\0"[..], b".", b"*", b"a.b", b"-", b"_", b"web.d"] {
        let reply = ask([label, b"d"]);
        assert_eq!(reply.code, "NXDOMAIN");
        assert!(
            reply.origin.starts_with("there is no Service "),
            "{}",
            reply.origin
        );
        let reply = ask([b"web", label]);
        assert!(
            reply.origin.starts_with("there is no namespace "),
            "{}",
            reply.origin
        );
    }
    assert_eq!(
        ask([b"\xffX", b"d"]).origin,
        "there is no Service \\xffx in namespace d"
    );
}

#[test]
fn names_without_room() {
    let label = "x".repeat(63);
    let objects = complete(&[
        service(&format!("{label}/{label}"), "10.96.0.1", "a:1"),
        service(&format!("{label}/h"), "headless", "a:1"),
        slice(
            &format!("{label}/h-1"),
            "h",
            "a:1",
            &[&format!("10.0.0.1&{label}"), "10.0.0.2&y"],
        ),
    ]);
    // 63 + 63 + 3 for the Service and svc leave room for the zone, those for the endpoint do not.
    let zone = format!("{}.{}.", "z".repeat(63), "z".repeat(56));
    let settings = settings(&[&zone, "in-addr.arpa."]);
    let reply = ask(
        &objects,
        &settings,
        &format!("{label}.{label}.svc.{zone}"),
        RecordType::SRV,
    );
    assert_eq!(reply.code, "NOERROR");
    let reply = ask(
        &objects,
        &settings,
        &format!("h.{label}.svc.{zone}"),
        RecordType::SRV,
    );
    assert_eq!(reply.answers.len(), 1, "{:?}", reply.answers);
    let reply = ask(
        &objects,
        &settings,
        "1.0.0.10.in-addr.arpa.",
        RecordType::PTR,
    );
    assert_eq!(reply.code, "NXDOMAIN");
}

#[test]
fn revision_and_serial() {
    let mut objects = Objects::new(NamespaceRule::DeclaredOrImplied);
    let mut now = 100;
    let mut change = |event: Event| {
        now += 1;
        let kinds = [PodRecords::Insecure, PodRecords::Verified];
        let before = kinds.map(|it| objects.revision(it));
        objects.absorb(&event, now);
        let grew = [0, 1].map(|it| objects.revision(kinds[it]) > before[it]);
        assert_eq!(
            kinds.map(|it| objects.serial(it) == now),
            grew,
            "the serial is the time of the last change"
        );
        grew
    };
    let of_pod = [false, true];
    assert_eq!(
        change(pod("d", "first", &["10.0.0.9"])),
        [true; 2],
        "there is a namespace d"
    );
    assert_eq!(change(pod("d", "p", &["10.0.0.9"])), of_pod);
    assert_eq!(change(pod("d", "p", &["10.0.0.9"])), [false; 2]);
    assert_eq!(change(pod("d", "p", &["10.0.0.8"])), of_pod);
    let delete = |name| Event::Pod(Change::Delete(NamespacedName::new("d", name)));
    assert_eq!(change(delete("first")), of_pod);
    assert_eq!(change(delete("p")), [true; 2], "there is no namespace d");
    let mut grows = |event: Event| {
        let [grew, verified] = change(event);
        assert_eq!(grew, verified);
        grew
    };
    let web = service("d/web", "10.96.0.1", "a:1");
    let ready = slice("d/web-1", "web", "a:1", &["10.0.0.1"]);
    assert!(grows(web.clone()));
    assert!(!grows(web));
    assert!(grows(service("d/web", "10.96.0.2", "a:1")));
    assert!(grows(service("d/web", "10.96.0.2", "a:2")));
    assert!(grows(ready.clone()));
    assert!(!grows(slice(
        "d/web-1",
        "web",
        "a:1",
        &["10.0.0.1", "10.0.0.2!"]
    )));
    assert!(grows(slice(
        "d/web-1",
        "web",
        "a:1",
        &["10.0.0.1", "10.0.0.2"]
    )));
    assert!(grows(slice(
        "d/web-1",
        "web",
        "a:1",
        &["10.0.0.1&name", "10.0.0.2"]
    )));
    assert!(grows(slice(
        "d/web-1",
        "other",
        "a:1",
        &["10.0.0.1&name", "10.0.0.2"]
    )));
    assert!(grows(deletion(&ready)));
    assert!(!grows(deletion(&ready)));
    assert!(grows(namespace("d")));
    assert!(!grows(namespace("d")));
    assert!(grows(deletion(&namespace("d"))));
    assert!(!grows(deletion(&namespace("d"))));
    assert!(grows(Event::SYNCED));
    assert!(!grows(Event::SYNCED));
}

#[test]
fn objects_of_another_source() {
    let events = [namespace("d"), service("d/web", "10.96.0.1", "a:1")];
    let mut objects = complete(&events);
    for it in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        objects.absorb(&pod("d", "p", &[it]), 1);
    }
    let kinds = [PodRecords::Insecure, PodRecords::Verified];
    let before = kinds.map(|it| objects.revision(it));
    objects.replace(complete(&[service("d/web", "10.96.0.2", "a:1")]));
    assert!(kinds.map(|it| objects.revision(it)) > before);
    assert!(objects.revision(kinds[1]) > before[1]);
    check(&objects, &zones(), &[("A web.d.svc", "A 10.96.0.2")]);
}
