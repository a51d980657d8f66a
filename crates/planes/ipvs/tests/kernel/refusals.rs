//! What the kernel refuses, and what somebody took away.

use std::collections::BTreeSet;
use std::net::TcpStream;

use sluice_plan::testing::{endpoints, service};

use super::{
    BOTH, Proxy, ROOM, ask, delete, destroy, has, http, refused, run, shows, shows_no, shrink, web,
};

/// No packet can be sent to a broadcast address, so the kernel takes no real server there.
const BROADCAST: &str = "192.168.100.255:8080";

pub(super) fn a_refused_endpoint(proxy: &mut Proxy) {
    let mut events = web("10.244.0.6:8080@");
    let members = format!("{BROADCAST} 10.244.0.5:8080@");
    events.extend(http("broken", "10.96.0.20 http:80", &members));
    let report = proxy.change(events);
    let named = [format!(
        "default/broken:http: real server {BROADCAST} of 10.96.0.20:80/tcp: Invalid argument"
    )];
    assert_eq!(refused(&report), named);
    assert!(!report.full);
    let broken = "-Ln -t 10.96.0.20:80";
    shows("ipvsadm", broken, "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", broken, &format!("-> {BROADCAST}"));
    let web_lists = "-Ln -t 10.96.0.10:80";
    shows_no("ipvsadm", web_lists, "-> 10.244.0.5:8080");
    // Others change; it is not tried again until it changes or the kernel is looked at.
    let report = proxy.change(web(BOTH));
    assert!(report.refused.is_empty() && !report.full, "{report:?}");
    shows("ipvsadm", web_lists, "-> 10.244.0.5:8080 Masq 1");
    assert_eq!(proxy.reconciler.refused().len(), 1);
    let report = proxy.resync();
    assert!(report.is_empty(), "{report:?}");
    assert_eq!(refused(&report), named);
    let report = proxy.retry();
    assert!(report.is_empty() && !report.full, "{report:?}");
    assert_eq!(refused(&report), named);
}

pub(super) fn it_recovers(proxy: &mut Proxy) {
    assert_eq!(proxy.reconciler.refused().len(), 1, "all along");
    let report = proxy.change(endpoints("default/broken:http", BOTH));
    assert!(report.refused.is_empty() && !report.full, "{report:?}");
    assert!(proxy.reconciler.refused().is_empty());
    shows(
        "ipvsadm",
        "-Ln -t 10.96.0.20:80",
        "-> 10.244.0.6:8080 Masq 1",
    );
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
}

/// A member for which there is no room, an address for which there is no protocol.
pub(super) fn refused_objects(proxy: &mut Proxy) {
    shrink("KUBE-EXTERNAL-IP");
    let first = "10.96.0.21 http:80 ext=198.51.100.1";
    assert_eq!(refused(&proxy.change(http("first", first, BOTH))), [""; 0]);
    let second = "10.96.0.22 http:80 ext=198.51.100.2";
    let report = proxy.change(http("second", second, BOTH));
    let named = "default/second:http: member 198.51.100.2,tcp:80 of ipset KUBE-EXTERNAL-IP: the \
                 set is full, or the member out of its range";
    assert_eq!(refused(&report), [named]);
    shows("ipvsadm", "-Ln", "TCP 198.51.100.2:80 rr");
    proxy.change(vec![delete("first")]);
    let report = proxy.retry();
    assert_eq!((report.added, refused(&report)), (1, vec![]));
    shows("ipset", "list KUBE-EXTERNAL-IP", "198.51.100.2,tcp:80");

    run("sysctl", "-qw net.ipv6.conf.kube-ipvs0.disable_ipv6=1");
    let mut events = vec![service("default/six fd00:96::1 http:80 more:81")];
    events.extend(http("four", "10.96.0.24 http:80", BOTH));
    let report = proxy.change(events);
    let named = refused(&report);
    assert_eq!(named.len(), 2, "{named:?}");
    for (named, port) in named.iter().zip(["http", "more"]) {
        // Newer kernels add words of their own.
        let expected =
            format!("default/six:{port}: address fd00:96::1 of kube-ipvs0: Permission denied");
        assert!(named.starts_with(&expected), "{named}");
    }
    shows("ip", "address show kube-ipvs0", "inet 10.96.0.24/32");
    run("sysctl", "-qw net.ipv6.conf.kube-ipvs0.disable_ipv6=0");
    let report = proxy.retry();
    assert!(!report.full, "{report:?}");
    assert_eq!((report.added, refused(&report)), (1, vec![]));
    shows("ip", "address show kube-ipvs0", "inet6 fd00:96::1/128");
    proxy.change(vec![delete("six"), delete("four"), delete("second")]);
}

/// Who shall not get in does not, even where the kernel has no room to keep them out.
pub(super) fn refused_source_ranges(proxy: &mut Proxy) {
    let balanced = |addresses: &str| {
        let about = format!("10.96.0.26 http:80 LoadBalancer lb={addresses} ranges=10.0.0.0/8");
        http("balanced", &about, BOTH)
    };
    shrink("KUBE-LOAD-BALANCER-FW");
    // Nor can it grow.
    run("ipset", "create SLUICE-SPARE hash:ip");
    run("iptables", "-A OTHER -m set --match-set SLUICE-SPARE src");
    proxy.change(balanced("203.0.113.1"));
    shows("ipvsadm", "-Ln", "TCP 203.0.113.1:80 rr");
    for report in [
        proxy.change(balanced("203.0.113.1,203.0.113.2")),
        proxy.retry(),
        proxy.resync(),
    ] {
        assert_eq!((refused(&report).len(), report.replaced), (1, 0));
        shows_no("ipvsadm", "-Ln", "TCP 203.0.113.2:80 rr");
        shows_no("ipset", "list KUBE-LOAD-BALANCER", "203.0.113.2,tcp:80");
        shows("ipvsadm", "-Ln", "TCP 203.0.113.1:80 rr");
    }
    run("iptables", "-F OTHER");
    destroy("SLUICE-SPARE");
    let report = proxy.resync();
    assert_eq!(refused(&report), [""; 0]);
    shows("ipset", "list KUBE-LOAD-BALANCER-FW", ROOM);
    for address in ["203.0.113.1", "203.0.113.2"] {
        shows("ipvsadm", "-Ln", &format!("TCP {address}:80 rr"));
        let member = format!("{address},tcp:80");
        shows("ipset", "list KUBE-LOAD-BALANCER-FW", &member);
    }
    proxy.change(vec![delete("balanced")]);
}

/// The scheduler was there when it was asked for.
pub(super) fn a_refused_virtual_server(proxy: &mut Proxy) {
    let loader = run("sysctl", "-n kernel.modprobe");
    run("sysctl", "-qw kernel.modprobe=/bin/false");
    run("rmmod", "ip_vs_mh");
    let report = proxy.change(http("hashed", "10.96.0.23 http:80 scheduler=mh", BOTH));
    let named = "default/hashed:http: member 10.96.0.23,tcp:80 of ipset KUBE-CLUSTER-IP: there is \
                 no virtual server for it: No such file or directory";
    assert_eq!(refused(&report), [named]);
    // Else a packet would come to whatever listens on the node.
    shows_no("ipset", "list KUBE-CLUSTER-IP", "10.96.0.23,tcp:80");
    shows("ipset", "list KUBE-IPVS-IPS", "10.96.0.23");
    lost_virtual_server(proxy);
    behind_a_refused_virtual_ip(proxy);
    run("sysctl", &format!("-qw kernel.modprobe={}", loader.trim()));
    let report = proxy.retry();
    assert_eq!((report.full, refused(&report)), (false, vec![]));
    shows(
        "ipvsadm",
        "-Ln",
        "TCP 10.96.0.23:80 mh (mh-fallback,mh-port)",
    );
    shows("ipset", "list KUBE-CLUSTER-IP", "10.96.0.23,tcp:80");
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
    in_front_of_a_node_port(proxy);
}

/// One virtual server for a NodePort and a virtual IP of the same numbers.
const BOTH_NUMBERS: &str = "192.168.100.10:31080";

/// A NodePort keeps its virtual server and its connections as long as the virtual IP that comes
/// before it is refused.
fn behind_a_refused_virtual_ip(proxy: &mut Proxy) {
    let behind = http(
        "behind",
        "10.96.0.27 NodePort http:80@31080",
        "10.244.0.5:8080@",
    );
    proxy.change(behind);
    let mut stream = TcpStream::connect(BOTH_NUMBERS).unwrap();
    assert_eq!(ask(&mut stream), "10.244.0.5:8080");
    let about = "10.96.0.28 http:31080 ext=192.168.100.10 scheduler=mh";
    let report = proxy.change(http("front", about, "10.244.0.6:8080@"));
    assert_eq!(refused(&report).len(), 1, "{report:?}");
    for _ in 0..2 {
        let listed = run("ipvsadm", &format!("-Ln -t {BOTH_NUMBERS}"));
        assert!(has(&listed, "-> 10.244.0.5:8080 Masq 1 1 0"), "{listed}");
        assert!(has(&listed, &format!("TCP {BOTH_NUMBERS} rr")), "{listed}");
        assert_eq!(ask(&mut stream), "10.244.0.5:8080");
        for report in [proxy.retry(), proxy.resync()] {
            assert!(report.is_empty(), "{report:?}");
        }
    }
}

fn in_front_of_a_node_port(proxy: &mut Proxy) {
    let server = format!("-Ln -t {BOTH_NUMBERS}");
    shows("ipvsadm", &server, "mh (mh-fallback,mh-port)");
    shows("ipvsadm", &server, "-> 10.244.0.6:8080 Masq 1");
    shows_no("ipvsadm", &server, "-> 10.244.0.5:8080");
    proxy.change(vec![delete("front")]);
    shows("ipvsadm", &server, "rr");
    shows("ipvsadm", &server, "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", &server, "-> 10.244.0.6:8080");
    proxy.change(vec![delete("behind")]);
    shows_no("ipvsadm", "-Ln", &format!("TCP {BOTH_NUMBERS}"));
}

/// What lets packets pass to a virtual server goes when that was taken away and cannot come back.
fn lost_virtual_server(proxy: &mut Proxy) {
    run("ipset", "add KUBE-CLUSTER-IP 10.96.0.23,tcp:80");
    proxy.reconciler.forget();
    let plan = proxy.planner.plan();
    let error = proxy.reconciler.sync(plan, &BTreeSet::new()).unwrap_err();
    let words = "virtual server 10.96.0.23:80/tcp is gone: No such file or directory";
    assert!(error.to_string().contains(words), "{error}");
    shows_no("ipset", "list KUBE-CLUSTER-IP", "10.96.0.23,tcp:80");
    assert_eq!(refused(&proxy.resync()).len(), 1);
}

/// That is nobody's fault: the kernel has to be read again.
pub(super) fn what_somebody_took_away(proxy: &mut Proxy) {
    for (program, arguments) in [
        ("ipvsadm", "-D -t 10.96.0.10:80"),
        ("ip", "link delete kube-ipvs0"),
    ] {
        run(program, arguments);
        let mut events = web(BOTH);
        events.extend(http("late", "10.96.0.25 http:80", BOTH));
        assert!(proxy.try_change(events).is_err(), "{program}");
        assert!(proxy.reconciler.is_full_due());
        let report = proxy.change(vec![]);
        assert!(report.full && report.refused.is_empty(), "{report:?}");
        let gone = [delete("late")].into_iter();
        proxy.change(
            gone.chain(endpoints("default/web:http", "10.244.0.6:8080@"))
                .collect(),
        );
    }
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
}

/// Its virtual server is not that of a virtual IP of the same numbers, which outlives it.
pub(super) fn a_node_port_that_somebody_took_away(proxy: &mut Proxy) {
    let server = format!("TCP {BOTH_NUMBERS} rr");
    let about = "10.96.0.27 NodePort http:80@31080";
    proxy.change(http("behind", about, "10.244.0.5:8080@"));
    run("ipvsadm", &format!("-D -t {BOTH_NUMBERS}"));
    let about = "10.96.0.28 http:31080 ext=192.168.100.10";
    let error = proxy.try_change(http("front", about, "10.244.0.6:8080@"));
    let words = "it is not there any more";
    assert!(error.unwrap_err().to_string().contains(words));
    let report = proxy.change(vec![]);
    assert!(report.full && report.refused.is_empty(), "{report:?}");
    proxy.change(vec![delete("behind")]);
    shows("ipvsadm", "-Ln", &server);
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
    proxy.change(vec![delete("front")]);
    shows_no("ipvsadm", "-Ln", &server);
}
