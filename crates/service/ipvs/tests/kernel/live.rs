//! `sluice explain --live` on virtual servers and ipsets.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluice_ipvs::{Ipvs, IpvsOptions};
use sluice_model::LocalAddresses;
use sluice_plan::Event;
use sluice_plan::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host};
use sluice_plane::Proxy;
use sluice_scenarios::{Drive as _, live};

use super::{Node, programs, run};

/// A written Service is found, and what somebody changed is named.
pub(super) fn what_explain_reads(proxy: &mut Node) {
    let ask = |proxy: &Node| live::ask::<Ipvs>(proxy.planner(), "node", "10.96.0.10:80").1;
    let found = ask(proxy);
    assert_eq!(found.differences, [""; 0], "{found}");
    let text = found.to_string();
    for line in [
        "10.96.0.10,tcp:80, scheduler rr",
        "member of ipset KUBE-CLUSTER-IP",
        "10.244.0.5:8080 weight 1: 0 active, 0 inactive, 0 connections so far",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    for (program, arguments, expected) in [
        (
            "ipvsadm",
            "-d -t 10.96.0.10:80 -r 10.244.0.6:8080",
            "the kernel sends no packet to 10.244.0.6:8080: the plan does",
        ),
        (
            "ipset",
            "del KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
            "no ipset of frontends has 10.96.0.10,tcp:80: rules refuse its packets",
        ),
        (
            "ip",
            "address del 10.96.0.10/32 dev kube-ipvs0",
            "10.96.0.10 is not an address of kube-ipvs0 or another interface: IPVS does not see its \
             packets",
        ),
        (
            "ipvsadm",
            "-D -t 10.96.0.10:80",
            "by the plan this node sends the packet to an endpoint, but the kernel rejects the packet: \
             there is no virtual server 10.96.0.10,tcp:80",
        ),
    ] {
        run(program, arguments);
        assert_eq!(ask(proxy).differences, [expected], "{program} {arguments}");
        proxy.resync();
        assert_eq!(ask(proxy).differences, [""; 0], "{program} {arguments}");
    }
}

/// Whatever the Services are, kernel and plan agree after a sync.
pub(super) fn the_kernel_does_what_the_plan_says() {
    let config = Config {
        cases: 12,
        failure_persistence: None,
        // Each try is a sync.
        max_shrink_iters: 0,
        ..Config::default()
    };
    let packets = prop::collection::vec(arbitrary_packet(), 1..40);
    let cases = (arbitrary_settings(), arbitrary_events(), packets);
    let host = host();
    live::give_addresses(&host);
    let result = TestRunner::new(config).run(&cases, |(mut settings, events, packets)| {
        // Virtual servers know no loopback.
        settings.localhost_node_ports = false;
        let ipvs = Ipvs::with(programs(), IpvsOptions::default()).unwrap();
        let mut proxy = Proxy::new(settings, ipvs);
        let addresses = Event::LocalAddresses(LocalAddresses {
            all: host.clone(),
            default_route: Vec::new(),
        });
        proxy.change([addresses].into_iter().chain(events).collect());
        for packet in &packets {
            live::assert_agrees::<Ipvs>(proxy.planner(), packet, &host);
        }
        Ok(())
    });
    result.unwrap();
}
