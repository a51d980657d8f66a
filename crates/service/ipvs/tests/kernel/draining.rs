//! Real servers that lose their last connections.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use sluice_lab::eventually;
use sluice_model::{Change, NamespacedName};
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_reconcile::Upkeep;
use sluice_scenarios::Drive as _;

use super::{BOTH, Node, ask, has, run, shows};

/// Rules are compared as often.
const NEXT_COMPARISON: Upkeep = Upkeep::After(Duration::from_secs(30));

pub(super) fn draining(proxy: &mut Node) {
    let mut stream = TcpStream::connect("10.96.0.10:80").unwrap();
    let chosen = ask(&mut stream);
    let other = match &*chosen {
        "10.244.0.5:8080" => "10.244.0.6:8080",
        _ => "10.244.0.5:8080",
    };
    let idle = proxy.reconciler_mut().upkeep().unwrap();
    assert_eq!(idle, NEXT_COMPARISON, "nobody drains yet");
    let leave = |proxy: &mut Node| {
        let all = endpoints("default/web:http", &format!("{other}@"));
        let report = proxy.change(all);
        assert!(!report.full, "{report:?}");
    };
    leave(proxy);
    shows("ipvsadm", "-Ln", &format!("-> {chosen} Masq 0"));
    assert_eq!(
        proxy.reconciler_mut().upkeep().unwrap(),
        Upkeep::After(Duration::from_secs(1))
    );
    assert_eq!(ask(&mut stream), chosen, "the connection lives");
    for _ in 0..4 {
        let mut another = TcpStream::connect("10.96.0.10:80").unwrap();
        assert_eq!(ask(&mut another), other);
    }
    let look = proxy.resync();
    assert!(look.is_empty(), "draining is no drift: {look:?}");
    proxy.change(endpoints("default/web:http", BOTH));
    shows("ipvsadm", "-Ln", &format!("-> {chosen} Masq 1"));
    assert_eq!(ask(&mut stream), chosen, "it came back with its connection");
    leave(proxy);
    // What was said and not heard makes the end a reset, after which IPVS waits for ten seconds.
    stream.write_all(b"?").unwrap();
    let came = eventually(Duration::from_secs(5), || {
        (stream.peek(&mut [0; 4]).unwrap() > 0).then_some(())
    });
    assert!(came.is_some(), "no answer");
    drop(stream);
    let gone = eventually(Duration::from_secs(60), || {
        (proxy.reconciler_mut().upkeep().unwrap() == NEXT_COMPARISON).then_some(())
    });
    assert!(gone.is_some(), "{}", run("ipvsadm", "-Ln"));
    let listing = run("ipvsadm", "-Ln -t 10.96.0.10:80");
    assert!(!has(&listing, &format!("-> {chosen}")), "{listing}");
}

/// While a real server drains, new clients are served by the other, whatever chooses.
pub(super) fn draining_by(proxy: &mut Node, scheduler: &str) {
    let name = format!("default/by-{scheduler}:http");
    let address = "10.96.0.16:80";
    let mut events = vec![service(&format!(
        "default/by-{scheduler} 10.96.0.16 http:80 scheduler={scheduler}"
    ))];
    events.extend(endpoints(&name, BOTH));
    proxy.change(events);
    let mut stream = TcpStream::connect(address).unwrap();
    let chosen = ask(&mut stream);
    let other = match &*chosen {
        "10.244.0.5:8080" => "10.244.0.6:8080",
        _ => "10.244.0.5:8080",
    };
    proxy.change(endpoints(&name, &format!("{other}@")));
    for _ in 0..8 {
        let another = TcpStream::connect(address);
        let mut another = another.unwrap_or_else(|error| panic!("{scheduler}: {error}"));
        assert_eq!(ask(&mut another), other, "{scheduler}");
    }
    let look = proxy.resync();
    assert!(
        look.is_empty(),
        "{scheduler}: draining is no drift: {look:?}"
    );
    let service = NamespacedName::new("default", &*format!("by-{scheduler}"));
    proxy.change(vec![Event::Service(Change::Delete(service))]);
}
