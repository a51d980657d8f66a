//! Tests that addresses are listed, and their changes received, as the kernel has them.

use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sluice_route::{Address, Monitor, Wake, addresses};

use crate::netns::{self, program};

const DEADLINE: Duration = Duration::from_secs(20);

#[track_caller]
fn ip(arguments: &str) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    program("ip", &arguments, "");
}

/// Two ends of a cable, without addresses that the kernel makes by itself.
fn cable() {
    ip("link add x type veth peer name y");
    for end in ["x", "y"] {
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
}

fn find(wanted: &str) -> Option<Address> {
    let wanted: IpAddr = wanted.parse().unwrap();
    addresses().unwrap().into_iter().find(|it| it.ip == wanted)
}

#[test]
fn addresses_of_both_families_are_listed_with_their_own_end() {
    netns::run(|| {
        assert_eq!(addresses().unwrap(), [], "loopback is down and has none");
        ip("link set lo up");
        cable();
        ip("address add 10.0.0.1 peer 10.0.0.2 dev x");
        ip("address add fd00::1 dev x nodad");
        let found: Vec<IpAddr> = addresses().unwrap().iter().map(|it| it.ip).collect();
        for wanted in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1"] {
            assert!(
                found.contains(&wanted.parse().unwrap()),
                "{wanted}: {found:?}"
            );
        }
        assert!(!found.contains(&"10.0.0.2".parse().unwrap()), "{found:?}");
    });
}

/// Uniqueness takes a second to prove by default; the kernel sends a notice then.
#[test]
fn a_tentative_address_becomes_usable_and_that_is_heard() {
    netns::run(|| {
        cable();
        let mut monitor = Monitor::open().unwrap();
        ip("address add fd00::1 dev x");
        let first = find("fd00::1").unwrap();
        let received = wait_in_thread(move || {
            while !find("fd00::1").unwrap().is_usable {
                assert_eq!(monitor.wait(None).unwrap(), Wake::Changed);
            }
        });
        assert!(!first.is_usable);
        received.recv_timeout(DEADLINE).expect("usable in the end");
    });
}

#[test]
fn an_address_that_somebody_else_has_is_not_usable() {
    netns::run(|| {
        cable();
        ip("address add fd00::1 dev y nodad");
        let mut monitor = Monitor::open().unwrap();
        ip("address add fd00::1 dev x");
        let refuted = wait_in_thread(move || {
            loop {
                let output = program("ip", &["-6", "address", "show", "dev", "x"], "");
                if output.contains("dadfailed") {
                    return;
                }
                monitor.wait(None).unwrap();
            }
        });
        refuted.recv_timeout(DEADLINE).expect("refuted in the end");
        let all = addresses().unwrap();
        let usable: Vec<bool> = all
            .iter()
            .filter(|it| it.ip == "fd00::1".parse::<IpAddr>().unwrap())
            .map(|it| it.is_usable)
            .collect();
        assert_eq!(usable.len(), 2, "{all:?}");
        assert_eq!(usable.iter().filter(|it| **it).count(), 1, "{all:?}");
    });
}

/// Runs in the namespace of the caller: threads inherit it.
fn wait_in_thread(wait: impl FnOnce() + Send + 'static) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        wait();
        let _ = sender.send(());
    });
    receiver
}

#[test]
fn what_chooses_an_address_is_heard_and_other_routes_are_not() {
    netns::run(|| {
        ip("link set lo up");
        cable();
        ip("address add 10.0.0.1/24 dev x");
        ip("address add fd00::1/64 dev x nodad");
        let mut monitor = Monitor::open().unwrap();
        for change in [
            "route replace 10.9.0.0/16 via 10.0.0.2",
            "route replace fd09::/32 via fd00::2",
        ] {
            // New links and addresses cause further notices by themselves.
            let deadline = Instant::now() + DEADLINE;
            while is_heard(&mut monitor, change) {
                assert!(Instant::now() < deadline, "{change}: received every time");
            }
        }
        for change in [
            "route add default via 10.0.0.2",
            "route add default via fd00::2",
            "route del default",
            "-6 route del default",
            "route add 128.0.0.0/1 via 10.0.0.2",
            "rule add from 10.0.0.1 table 7",
            "address add 10.0.0.9/32 dev x",
            "address del 10.0.0.9/32 dev x",
            "link set x down",
        ] {
            assert!(is_heard(&mut monitor, change), "{change}");
        }
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let path = format!("/proc/sys/net/{setting}");
            let now = std::fs::read_to_string(&path).unwrap();
            monitor.take_changes().unwrap();
            let other = if now.trim() == "0" { "1" } else { "0" };
            std::fs::write(&path, other).unwrap();
            assert!(monitor.take_changes().unwrap(), "{setting}");
        }
    });
}

/// The kernel queues notices before the system call of the change returns.
fn is_heard(monitor: &mut Monitor, change: &str) -> bool {
    monitor.take_changes().unwrap();
    ip(change);
    monitor.take_changes().unwrap()
}

#[test]
fn lost_notices_are_a_change() {
    netns::run(|| {
        cable();
        let mut monitor = Monitor::open().unwrap();
        let add: String = (0..5000)
            .map(|it| format!("address add 10.1.{}.{}/32 dev x\n", it / 250, it % 250))
            .collect();
        program("ip", &["-batch", "-"], &add);
        assert!(monitor.take_changes().unwrap());
        assert_eq!(addresses().unwrap().len(), 5000);
    });
}

#[test]
fn a_wait_ends_when_it_is_told_to() {
    netns::run(|| {
        let mut monitor = Monitor::open().unwrap();
        let stopper = monitor.stopper();
        let ended = wait_in_thread(move || {
            assert_eq!(monitor.wait(None).unwrap(), Wake::Stopped);
        });
        stopper.stop();
        ended.recv_timeout(DEADLINE).expect("it ends");
    });
}
