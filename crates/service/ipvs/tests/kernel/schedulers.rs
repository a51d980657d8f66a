//! Schedulers that the kernel has and lacks.

use sluice_ipvs::{Ipvs, IpvsOptions};
use sluice_plan::testing::{endpoints, service};

use sluice_scenarios::Drive as _;

use super::{
    BOTH, Node, delete, http, options, programs, refused, run, shows, shows_no, start, web,
};

/// Schedulers that nobody asked for are not missed, or named.
pub(super) fn without_modules() {
    let loader = run("sysctl", "-n kernel.modprobe");
    run("sysctl", "-qw kernel.modprobe=/bin/false");
    let mut events = web(BOTH);
    let about = "10.96.0.18 NodePort http:80@31180 etp=local affinity=600";
    events.extend(http("near", about, "10.244.0.5:8080@ 10.244.7.7:8080"));
    events.extend(http(
        "weighted",
        "10.96.0.19 http:80",
        "10.244.0.5:8080@%5 10.244.0.6:8080@",
    ));
    run("modprobe", "ip_vs_sh");
    let mut proxy = start(events);
    proxy.resync();
    let named = refused(&proxy);
    assert_eq!(named.len(), 1, "{named:?}");
    let words = "default/weighted:http: the kernel has no scheduler \"wrr\" (module \
                 ip_vs_wrr); it has rr";
    let stands_in = named[0].ends_with("; rr stands in");
    assert!(named[0].starts_with(words) && stands_in, "{named:?}");
    shows("ipvsadm", "-Ln", "sh (sh-fallback)");
    shows("ipvsadm", "-Ln -t 10.96.0.19:80", "rr");
    shows(
        "ipvsadm",
        "-Ln -t 10.96.0.19:80",
        "-> 10.244.0.5:8080 Masq 5",
    );
    run("sysctl", &format!("-qw kernel.modprobe={}", loader.trim()));
    proxy.reconciler_mut().probe().unwrap();
    assert!(proxy.synced().full);
    assert_eq!(refused(&proxy), [""; 0]);
    shows("ipvsadm", "-Ln -t 10.96.0.19:80", "wrr");
    shows("ipvsadm", "-Ln", "mh (mh-fallback)");
    start(web(BOTH)).resync();
}

pub(super) fn schedulers(proxy: &mut Node) {
    let unknown = IpvsOptions {
        scheduler: "nosuch".into(),
        ..options()
    };
    let opened = Ipvs::with(programs(), unknown);
    let error = opened.err().unwrap().to_string();
    assert!(
        error.contains("nosuch") && error.contains("rr, wrr"),
        "{error}"
    );
    let odd = |endpoints_text| http("odd", "10.96.0.11 http:80 scheduler=nosuch", endpoints_text);
    let good = |name, endpoints_text| {
        let about = format!("10.96.0.12 http:80 scheduler={name}");
        http("good", &about, endpoints_text)
    };
    let both = [odd(BOTH), good("mh", BOTH)].concat();
    proxy.change(both);
    let named = refused(proxy);
    assert_eq!(named.len(), 1, "{named:?}");
    let words = "default/odd:http: the kernel has no scheduler \"nosuch\" (module \
                 ip_vs_nosuch); it has rr, wrr";
    assert!(named[0].starts_with(words), "{named:?}");
    let server = "TCP 10.96.0.12:80 mh (mh-fallback,mh-port)";
    shows("ipvsadm", "-Ln", server);
    shows("ipvsadm", "-Ln", "TCP 10.96.0.11:80 rr");
    // Endpoints come and go by another scheduler.
    let fewer = "10.244.0.6:8080@";
    let report = proxy.change([odd(fewer), good("nosuch", fewer)].concat());
    assert_eq!((report.full, refused(proxy).len()), (false, 2));
    for server in ["10.96.0.11:80", "10.96.0.12:80"] {
        let lists = format!("-Ln -t {server}");
        shows("ipvsadm", &lists, &format!("TCP {server} rr"));
        shows("ipvsadm", &lists, "-> 10.244.0.6:8080 Masq 1");
        shows_no("ipvsadm", &lists, "-> 10.244.0.5:8080");
    }
    let report = proxy.resync();
    assert!(report.is_empty(), "{report:?}");
    assert_eq!(refused(proxy).len(), 2);
    proxy.change(good("mh", BOTH));
    assert_eq!(refused(proxy).len(), 1);
    shows("ipvsadm", "-Ln", server);
    proxy.change(["odd", "good"].map(delete).into());
    assert!(proxy.reconciler().refusals().is_empty());
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.11:80");
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.12:80");
    // Affinity, and its end.
    let sticky = "default/sticky 10.96.0.13 http:80 affinity=7200";
    let mut events = vec![service(sticky)];
    events.extend(endpoints("default/sticky:http", BOTH));
    proxy.change(events);
    shows("ipvsadm", "-Ln", "TCP 10.96.0.13:80 rr persistent 7200");
}
