//! What the kernel refuses, and what somebody took away: the sync fails and says so, everything else
//! is written, and the next sync reads the kernel.

use sluice_plan::testing::endpoints;
use sluice_scenarios::Drive as _;

use super::{BOTH, Node, ROOM, delete, destroy, http, run, shows, shows_no, shrink, web};

/// No packet can be sent to a broadcast address, so the kernel takes no real server there.
const BROADCAST: &str = "192.168.100.255:8080";

pub(super) fn a_refused_endpoint(proxy: &mut Node) {
    let mut events = web("10.244.0.6:8080@");
    let members = format!("{BROADCAST} 10.244.0.5:8080@");
    events.extend(http("broken", "10.96.0.20 http:80", &members));
    let named =
        format!("real server {BROADCAST} of 10.96.0.20:80/tcp: kernel said: Invalid argument");
    let error = proxy.try_change(events).unwrap_err().to_string();
    assert!(error.contains(&named), "{error}");
    let broken = "-Ln -t 10.96.0.20:80";
    shows("ipvsadm", broken, "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", broken, &format!("-> {BROADCAST}"));
    let web_lists = "-Ln -t 10.96.0.10:80";
    shows_no("ipvsadm", web_lists, "-> 10.244.0.5:8080");
    // Others change all the same.
    let error = proxy.try_change(web(BOTH)).unwrap_err().to_string();
    assert!(error.contains(&named), "{error}");
    shows("ipvsadm", web_lists, "-> 10.244.0.5:8080 Masq 1");
}

pub(super) fn it_recovers(proxy: &mut Node) {
    let report = proxy.change(endpoints("default/broken:http", BOTH));
    assert!(report.full, "{report:?}");
    shows(
        "ipvsadm",
        "-Ln -t 10.96.0.20:80",
        "-> 10.244.0.6:8080 Masq 1",
    );
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
}

/// Who shall not get in does not, even where the kernel has no room to keep them out.
pub(super) fn refused_source_ranges(proxy: &mut Node) {
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
    proxy.tell(balanced("203.0.113.1,203.0.113.2"));
    for _ in 0..2 {
        let error = proxy.try_sync().unwrap_err().to_string();
        assert!(error.contains("KUBE-LOAD-BALANCER-FW"), "{error}");
        shows_no("ipvsadm", "-Ln", "TCP 203.0.113.2:80 rr");
        shows_no("ipset", "list KUBE-LOAD-BALANCER", "203.0.113.2,tcp:80");
        shows("ipvsadm", "-Ln", "TCP 203.0.113.1:80 rr");
    }
    run("iptables", "-F OTHER");
    destroy("SLUICE-SPARE");
    proxy.synced();
    shows("ipset", "list KUBE-LOAD-BALANCER-FW", ROOM);
    for address in ["203.0.113.1", "203.0.113.2"] {
        shows("ipvsadm", "-Ln", &format!("TCP {address}:80 rr"));
        let member = format!("{address},tcp:80");
        shows("ipset", "list KUBE-LOAD-BALANCER-FW", &member);
    }
    proxy.change(vec![delete("balanced")]);
}

/// The scheduler was there when it was asked for.
pub(super) fn a_refused_virtual_server(proxy: &mut Node) {
    let hashed = || http("hashed", "10.96.0.23 http:80 scheduler=mh", BOTH);
    proxy.change(hashed());
    proxy.change(vec![delete("hashed")]);
    let loader = run("sysctl", "-n kernel.modprobe");
    run("sysctl", "-qw kernel.modprobe=/bin/false");
    run("rmmod", "ip_vs_mh");
    let error = proxy.try_change(hashed()).unwrap_err().to_string();
    let named = "virtual server 10.96.0.23:80/tcp: kernel said: No such file or directory";
    assert!(error.contains(named), "{error}");
    // Else a packet would come to whatever listens on the node.
    shows_no("ipset", "list KUBE-CLUSTER-IP", "10.96.0.23,tcp:80");
    // The next sync asks which schedulers there are, and another one stands in.
    proxy.synced();
    let refusal = proxy.reconciler().refusals().values().next().unwrap();
    assert!(
        refusal.is_served && refusal.reason.contains("\"mh\""),
        "{refusal:?}"
    );
    shows("ipvsadm", "-Ln", "TCP 10.96.0.23:80 rr");
    run("sysctl", &format!("-qw kernel.modprobe={}", loader.trim()));
    proxy.resync();
    shows(
        "ipvsadm",
        "-Ln",
        "TCP 10.96.0.23:80 mh (mh-fallback,mh-port)",
    );
    shows("ipset", "list KUBE-CLUSTER-IP", "10.96.0.23,tcp:80");
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
    proxy.change(vec![delete("hashed")]);
}

/// One virtual server for a NodePort and a virtual IP of the same numbers.
const BOTH_NUMBERS: &str = "192.168.100.10:31080";

pub(super) fn what_somebody_took_away(proxy: &mut Node) {
    for (program, arguments) in [
        ("ipvsadm", "-D -t 10.96.0.10:80"),
        ("ip", "link delete kube-ipvs0"),
    ] {
        run(program, arguments);
        let mut events = web(BOTH);
        events.extend(http("late", "10.96.0.25 http:80", BOTH));
        assert!(proxy.try_change(events).is_err(), "{program}");
        assert!(proxy.reconciler().is_resync_due());
        assert!(proxy.synced().full);
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
pub(super) fn a_node_port_that_somebody_took_away(proxy: &mut Node) {
    let server = format!("TCP {BOTH_NUMBERS} rr");
    let about = "10.96.0.27 NodePort http:80@31080";
    proxy.change(http("behind", about, "10.244.0.5:8080@"));
    run("ipvsadm", &format!("-D -t {BOTH_NUMBERS}"));
    let about = "10.96.0.28 http:31080 ext=192.168.100.10";
    let error = proxy.try_change(http("front", about, "10.244.0.6:8080@"));
    assert!(error.is_err());
    assert!(proxy.synced().full);
    proxy.change(vec![delete("behind")]);
    shows("ipvsadm", "-Ln", &server);
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
    proxy.change(vec![delete("front")]);
    shows_no("ipvsadm", "-Ln", &server);
}
