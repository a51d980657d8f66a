//! Packets that are lost.

use std::net::SocketAddr;

use sluice_diagnose::trace::{Answer, End, Owner, Source, Trace};
use sluice_lab::require_netns;

use crate::world::{SERVICE_V4, World, dropper, hooks, send};

/// Causes of a packet that the kernel's routing dropped behind `prerouting`.
#[track_caller]
fn causes(trace: &Trace) -> &[String] {
    match &trace.end {
        End::Unrouted {
            hook: "prerouting",
            causes,
            ..
        } => causes,
        _ => panic!("{trace}"),
    }
}

#[test]
fn a_foreign_rule_that_drops_is_named() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    world.nft(
        "table inet firewall { chain forward { type filter hook forward priority 10; tcp dport 22 drop; \
         jump work; } chain work { tcp dport 8080 counter drop comment \"no web\"; } }",
    );
    let trace = world.trace_pod(SERVICE_V4);
    assert_eq!(hooks(&trace), ["prerouting", "forward"]);
    let hop = dropper(&trace);
    assert_eq!(hop.owner, Owner::Foreign);
    assert_eq!(
        (hop.family, &*hop.table, &*hop.chain),
        ("inet", "firewall", "work")
    );
    let listing = world.run("nft", "-a list chain inet firewall work");
    let line = listing.lines().find(|it| it.contains("no web")).unwrap();
    let number = format!("# handle {}", hop.handle.unwrap());
    assert!(line.ends_with(&number), "{line} {number}");
    assert_eq!(hop.comment.as_deref(), Some("no web"));
    assert!(
        hop.text
            .as_ref()
            .unwrap()
            .starts_with("tcp dport 8080 counter"),
        "{hop}"
    );
    let text = trace.to_string();
    assert!(text.contains("dropped in forward by rule"), "{text}");
    assert_eq!(trace.answer, Some(Answer::Silence));

    // A policy has no number.
    world.nft("flush chain inet firewall work");
    world.nft("add chain inet firewall forward { policy drop; }");
    let trace = world.trace_pod(SERVICE_V4);
    let hop = dropper(&trace);
    assert_eq!((&*hop.verdict, hop.handle), ("policy drop", None));
    assert_eq!(hop.priority, Some(10));
    // A rule that rejects answers.
    world.nft("insert rule inet firewall forward reject with icmpx admin-prohibited");
    let trace = world.trace_pod(SERVICE_V4);
    assert!(dropper(&trace).handle.is_some(), "{trace}");
    assert!(matches!(trace.answer, Some(Answer::Failed(_))), "{trace}");
}

#[test]
fn a_chain_whose_name_is_a_command_of_nft_is_not_passed_to_nft() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    world.nft("table ip filter { chain evil { drop; } chain forward { type filter hook forward priority 0; goto evil; } }");
    // nft refuses such names, the kernel takes them.
    let name = "x; delete table ip sluice;";
    world.home().run(|| {
        use sluice_nft::{
            Batch, Chain, Connection, Create, Expr, Family, Kernel as _, KernelRule, Scope, Verdict,
        };
        let scope = Scope {
            family: Family::Ipv4,
            table: "filter",
        };
        let mut batch = Batch::new();
        let chain = Chain {
            name: name.into(),
            ..Chain::default()
        };
        batch.add_chain(0, scope, &chain, Create::New);
        let drop = Expr::Verdict(Verdict::Drop);
        let rule = KernelRule {
            chain: name.into(),
            exprs: vec![drop],
            comment: Some("evil".into()),
        };
        batch.add_rule(0, scope, &rule);
        batch.flush_chain(0, scope, "forward");
        let goto = Expr::Verdict(Verdict::Goto(name.into()));
        batch.add_rule(
            0,
            scope,
            &KernelRule {
                chain: "forward".into(),
                exprs: vec![goto],
                comment: None,
            },
        );
        Connection::open().unwrap().commit(&batch).unwrap();
    });
    let trace = world.trace_pod(SERVICE_V4);
    let hop = dropper(&trace);
    assert_eq!(
        (&*hop.chain, hop.comment.as_deref(), hop.text.as_deref()),
        (name, Some("evil"), Some("drop comment \"evil\""))
    );
}

#[test]
fn rules_of_iptables_have_their_text() {
    require_netns!();
    let world = World::new();
    let web = world.pod("web-1").ipv4();
    for rule in [
        "-t nat -N KUBE-SERVICES".to_owned(),
        "-t nat -N KUBE-SEP-A".to_owned(),
        "-t nat -A PREROUTING -m comment --comment portals -j KUBE-SERVICES".to_owned(),
        "-t nat -A KUBE-SERVICES -d 10.96.0.99/32 -j KUBE-SEP-A".to_owned(),
        "-t nat -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment default/web:http -m tcp --dport 80 \
         -j KUBE-SEP-A".to_owned(),
        format!("-t nat -A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination {web}:8080"),
    ] {
        world.run("iptables-nft", &rule);
    }
    let trace = world.trace_pod(SERVICE_V4);
    assert!(matches!(trace.end, End::Delivered { .. }), "{trace}");
    let kube: Vec<_> = trace
        .hops()
        .filter(|it| it.owner == Owner::Kubernetes)
        .collect();
    let service = kube.iter().find(|it| it.chain == "KUBE-SERVICES").unwrap();
    assert_eq!(service.comment.as_deref(), Some("default/web:http"));
    assert!(
        service
            .text
            .as_ref()
            .unwrap()
            .contains("--dport 80 -j KUBE-SEP-A"),
        "{trace}"
    );
    assert!(kube.iter().any(|it| it.chain == "KUBE-SEP-A"), "{trace}");

    world.run(
        "iptables-nft",
        "-A FORWARD -p tcp -m tcp --dport 8080 -j REJECT",
    );
    let trace = world.trace_pod(SERVICE_V4);
    let hop = dropper(&trace);
    assert_eq!((hop.owner, &*hop.chain), (Owner::Foreign, "FORWARD"));
    assert!(hop.text.as_ref().unwrap().contains("-j REJECT"), "{hop}");
    assert_eq!(trace.answer, Some(Answer::Refused));
}

#[test]
fn the_kernels_routing_is_blamed_with_evidence() {
    require_netns!();
    let world = World::new();
    world.serve("far");
    let far = world.pod("far").ipv4();
    world.run("ip", &format!("route add blackhole {far}"));
    let trace = world.trace_pod(SERVICE_V4);
    let blackhole = format!("no route to {far}: the route is of type blackhole");
    assert!(causes(&trace)[0].starts_with(&blackhole), "{trace}");
    world.run("ip", &format!("route del blackhole {far}"));

    let cli = world.pod("cli");
    let interface = cli.host_interface().unwrap();
    let key = format!("net.ipv4.conf.{interface}.forwarding");
    world.run("sysctl", "-w net.ipv4.ip_forward=0");
    let trace = world.trace_pod(SERVICE_V4);
    assert_eq!(
        causes(&trace),
        [format!("{key} is 0: this node forwards no packets")]
    );
    world.run("sysctl", "-w net.ipv4.ip_forward=1");

    // The answer of rp_filter: the source is routed through another interface.
    world.run("ip", &format!("route replace {} dev eth0", cli.ipv4()));
    world.run(
        "sysctl",
        &format!("-w net.ipv4.conf.{interface}.rp_filter=1"),
    );
    let trace = world.trace_pod(SERVICE_V4);
    let key = format!("net.ipv4.conf.{interface}.rp_filter is 1");
    assert!(causes(&trace)[0].starts_with(&key), "{trace}");
}

#[test]
fn a_packet_that_the_kernel_does_not_send_has_its_reason() {
    require_netns!();
    let world = World::new();
    world.run("ip", "route add blackhole 10.96.0.10");
    let to: SocketAddr = SERVICE_V4.parse().unwrap();
    let trace = world.try_trace(&send(Source::Node, to)).unwrap();
    assert_eq!(trace.stages, []);
    assert!(
        matches!(&trace.end, End::Unseen { causes } if causes[0].contains("no packet: no route")),
        "{trace}"
    );
    assert!(matches!(trace.answer, Some(Answer::Failed(_))), "{trace}");
}

#[test]
fn a_legacy_rule_that_drops_is_found_by_its_counter() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    let rule = "-A FORWARD -p tcp -m tcp --dport 8080 -j DROP";
    let arguments: Vec<&str> = rule.split(' ').collect();
    let output = world
        .home()
        .command("iptables-legacy", &arguments)
        .output()
        .unwrap();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        eprintln!("SKIP: this kernel has no legacy iptables: {error}");
        return;
    }
    let trace = world.trace_pod(SERVICE_V4);
    let End::Vanished {
        hook: "forward",
        causes,
        ..
    } = &trace.end
    else {
        panic!("{trace}")
    };
    assert!(causes[0].ends_with(&format!("filter {rule}")), "{trace}");
    assert_eq!(trace.legacy.len(), 1, "{trace}");
}
