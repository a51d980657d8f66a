//! Packets that arrive.

use std::net::{IpAddr, SocketAddr};

use sluice_diagnose::trace::{Answer, End, Owner, Request, Source, TraceError};
use sluice_lab::{Attach, Probe, Server, eventually, require_netns};
use sluice_model::Protocol;

use crate::world::{SERVICE_V4, SERVICE_V6, World, hooks, send, wait};

#[test]
fn a_pods_packet_is_followed_through_our_rules_to_the_endpoint() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    let web = world.pod("web-1");
    let interface = web.host_interface();
    for (to, endpoint) in [
        (SERVICE_V4, IpAddr::from(web.ipv4())),
        (SERVICE_V6, web.ipv6().into()),
    ] {
        let trace = world.trace_pod(to);
        assert_eq!(hooks(&trace), ["prerouting", "forward", "postrouting"]);
        let End::Delivered {
            packet,
            interface: through,
            ..
        } = &trace.end
        else {
            panic!("{trace}")
        };
        assert_eq!(packet.destination, SocketAddr::new(endpoint, 8080));
        assert_eq!(*through, interface);
        assert_eq!(trace.answer, Some(Answer::Connected));
        let [prerouting, ..] = &trace.stages[..] else {
            panic!("{trace}")
        };
        assert_eq!(prerouting.incoming, world.pod("cli").host_interface());
        assert_eq!(prerouting.arrived.unwrap().destination, to.parse().unwrap());
        assert_eq!(prerouting.left, Some(*packet));
        // Every rule is ours, and named: what nft prints is no more than the rule.
        for hop in trace.hops() {
            assert_eq!((hop.owner, &*hop.table), (Owner::Sluice, "sluice"), "{hop}");
            assert_eq!(hop.handle.is_some(), hop.text.is_some(), "{hop}");
        }
        let text = trace.to_string();
        assert!(text.contains(&format!("translated to {packet}")), "{text}");
        assert!(text.contains("answer      connected"), "{text}");
        let json = serde_json::to_value(&trace).unwrap();
        assert_eq!(json["end"]["kind"], "delivered");
        assert_eq!(json["stages"][0]["hops"][0]["owner"], "sluice");
    }
}

#[test]
fn the_nodes_own_packet_is_followed_through_loopback() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    let to: SocketAddr = SERVICE_V4.parse().unwrap();
    let trace = world.try_trace(&send(Source::Node, to)).unwrap();
    assert_eq!(hooks(&trace), ["output", "postrouting"]);
    assert_eq!(trace.answer, Some(Answer::Connected));

    // To a port of the node itself, with a rule of somebody else on the way.
    let node = world.cluster.node("node-a");
    let name = "daemon";
    let server = Server::start(node.netns(), name, 0, sluice_lab::Protocol::Tcp).unwrap();
    let to = SocketAddr::new(node.ipv4().into(), server.port());
    world.nft("table inet firewall { chain in { type filter hook input priority 0; counter comment \"ours\"; } }");
    for source in [Source::Node, Source::Address(node.ipv4().into())] {
        let trace = world.try_trace(&send(source, to)).unwrap();
        let expected = ["output", "postrouting", "prerouting", "input"];
        assert_eq!(hooks(&trace), expected, "{trace}");
        let here = End::Delivered {
            packet: trace.stages[3].left.unwrap(),
            interface: None,
            causes: Vec::new(),
        };
        assert_eq!(trace.end, here);
        let foreign = trace.hops().find(|it| it.owner == Owner::Foreign).unwrap();
        assert_eq!(foreign.comment.as_deref(), Some("ours"));
        assert_eq!(foreign.verdict, "continue");
    }
    drop(server);
    let trace = world.try_trace(&send(Source::Node, to)).unwrap();
    assert_eq!(trace.answer, Some(Answer::Refused), "{trace}");
}

#[test]
fn an_empty_datagram_is_followed() {
    require_netns!();
    let world = World::new();
    world.serve("far");
    let cli = world.pod("cli").ipv4().into();
    let request = Request {
        protocol: Protocol::Udp,
        ..send(Source::Address(cli), "10.96.0.53:53".parse().unwrap())
    };
    let trace = world.try_trace(&request).unwrap();
    let End::Delivered {
        packet, interface, ..
    } = &trace.end
    else {
        panic!("{trace}")
    };
    let far = IpAddr::from(world.pod("far").ipv4());
    assert_eq!(packet.destination, SocketAddr::new(far, 8080));
    assert_eq!(interface.as_deref(), Some("eth0"));
    // The server of the lab answers any datagram.
    assert_eq!(trace.answer, Some(Answer::Connected));
}

#[test]
fn a_packet_of_another_machine_is_waited_for() {
    require_netns!();
    let world = World::new();
    world.serve("web-1");
    let node = world.cluster.node("node-a");
    let client = world.cluster.client("client");
    let to = SocketAddr::new(node.ipv4().into(), 30080);
    let from = Source::Address(client.ipv4().into());
    let refused = world.try_trace(&send(from, to)).unwrap_err();
    assert!(matches!(refused, TraceError::Elsewhere { .. }), "{refused}");
    assert!(refused.to_string().contains("--wait 30s"), "{refused}");
    for source in [from, Source::Anyone] {
        let request = wait(source, to, 60);
        let trace = std::thread::scope(|scope| {
            let trace = scope.spawn(|| {
                world
                    .home()
                    .run(|| sluice_diagnose::trace::trace(&request, None))
            });
            // Nobody knows from outside when the trace is armed; any packet will do.
            let asked = eventually(std::time::Duration::from_secs(60), || {
                Probe::tcp(to).from(client.netns());
                trace.is_finished().then_some(())
            });
            asked.unwrap();
            trace.join().unwrap().unwrap()
        });
        assert!(matches!(trace.end, End::Delivered { .. }), "{trace}");
        assert_eq!((trace.sent_from, trace.answer), (None, None));
        let arrived = trace.stages[0].arrived.unwrap();
        assert_eq!(arrived.source.ip(), IpAddr::from(client.ipv4()));
    }
    let nobody = world.try_trace(&wait(Source::Anyone, to, 0)).unwrap();
    assert!(
        matches!(&nobody.end, End::Unseen { causes } if causes.len() == 1),
        "{nobody}"
    );
    let mixed = wait(from, SERVICE_V6.parse().unwrap(), 0);
    let mixed = world.try_trace(&mixed).unwrap_err();
    assert!(matches!(mixed, TraceError::Families { .. }), "{mixed}");
    let impossible = world.try_trace(&send(Source::Anyone, to)).unwrap_err();
    assert!(matches!(impossible, TraceError::Anyone));
}

/// Netfilter's hooks run in the bridge then, and the packet never reaches the node's routing.
#[test]
fn a_packet_within_a_bridge_is_followed() {
    require_netns!();
    let world = World::attached(Attach::Bridged);
    world.serve("web-1");
    for called in [1, 0] {
        let key = "net.bridge.bridge-nf-call-iptables";
        world.run("sysctl", &format!("-w {key}={called}"));
        let trace = world.trace_pod(SERVICE_V4);
        let End::Delivered { packet, causes, .. } = &trace.end else {
            panic!("{trace}")
        };
        assert_eq!(packet.destination.ip(), world.pod("web-1").ipv4());
        if called == 1 {
            assert_eq!(trace.answer, Some(Answer::Connected), "{trace}");
            assert_eq!(causes.len(), 0, "{trace}");
        } else {
            // The endpoint answers the client through the bridge.
            assert_eq!(trace.answer, Some(Answer::Silence), "{trace}");
            let cause = format!("client and endpoint are both behind cni0, and {key} is not 1");
            assert!(causes[0].starts_with(&cause), "{trace}");
        }
    }
}
