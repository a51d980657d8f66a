//! Schedulers that the kernel has and lacks.

use sluice_ipvs::{Ipvs, Options};
use sluice_plan::testing::{endpoints, service};

use super::{BOTH, Proxy, delete, http, options, refused, run, shows, shows_no, web};

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
    let mut proxy = Proxy::start(events);
    let named = refused(&proxy.resync());
    assert_eq!(named.len(), 1, "{named:?}");
    let words = "default/weighted:http: scheduler wrr: the kernel has no scheduler \"wrr\" (module \
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
    let report = proxy.retry();
    assert_eq!((report.full, refused(&report)), (false, vec![]));
    shows("ipvsadm", "-Ln -t 10.96.0.19:80", "wrr");
    assert_eq!(refused(&proxy.resync()), [""; 0]);
    shows("ipvsadm", "-Ln", "mh (mh-fallback)");
    Proxy::start(web(BOTH)).resync();
}

pub(super) fn schedulers(proxy: &mut Proxy) {
    let open = Ipvs::open(Options {
        scheduler: "nosuch".into(),
        ..options()
    });
    let error = open.err().unwrap().to_string();
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
    let named = refused(&proxy.change(both));
    assert_eq!(named.len(), 1, "{named:?}");
    let words = "default/odd:http: scheduler nosuch: the kernel has no scheduler \"nosuch\" (module \
                 ip_vs_nosuch); it has rr, wrr";
    assert!(named[0].starts_with(words), "{named:?}");
    let server = "TCP 10.96.0.12:80 mh (mh-fallback,mh-port)";
    shows("ipvsadm", "-Ln", server);
    shows("ipvsadm", "-Ln", "TCP 10.96.0.11:80 rr");
    // Endpoints come and go by another scheduler.
    let fewer = "10.244.0.6:8080@";
    let report = proxy.change([odd(fewer), good("nosuch", fewer)].concat());
    assert_eq!((report.full, refused(&report).len()), (false, 2));
    for server in ["10.96.0.11:80", "10.96.0.12:80"] {
        let lists = format!("-Ln -t {server}");
        shows("ipvsadm", &lists, &format!("TCP {server} rr"));
        shows("ipvsadm", &lists, "-> 10.244.0.6:8080 Masq 1");
        shows_no("ipvsadm", &lists, "-> 10.244.0.5:8080");
    }
    for report in [proxy.retry(), proxy.resync()] {
        assert!(report.is_empty(), "{report:?}");
        assert_eq!(refused(&report).len(), 2);
    }
    assert_eq!(refused(&proxy.change(good("mh", BOTH))), [""; 0]);
    shows("ipvsadm", "-Ln", server);
    proxy.change(["odd", "good"].map(delete).into());
    assert!(proxy.reconciler.refused().is_empty());
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.11:80");
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.12:80");
    // Affinity, and its end.
    let sticky = "default/sticky 10.96.0.13 http:80 affinity=7200";
    let mut events = vec![service(sticky)];
    events.extend(endpoints("default/sticky:http", BOTH));
    proxy.change(events);
    shows("ipvsadm", "-Ln", "TCP 10.96.0.13:80 rr persistent 7200");
}
