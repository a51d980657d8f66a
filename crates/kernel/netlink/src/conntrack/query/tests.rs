//! The listing of the kernel before our own filter. Other tests are in `tests/kernel`.

use std::process::Command;
use std::{env, thread};

use nix::sched::{CloneFlags, unshare};

use super::*;

fn filter(family: Family) -> FlowFilter {
    FlowFilter {
        family,
        destination: None,
        protocol: None,
        destination_port: None,
    }
}

/// Makes an entry without any traffic, by way of the `conntrack` program.
fn insert(destination: &str, protocol: &str, port: u16) {
    let source = if destination.contains(':') {
        "fd00::1"
    } else {
        "10.0.0.1"
    };
    let port = port.to_string();
    let mut args = vec![
        "-I",
        "-p",
        protocol,
        "-s",
        source,
        "-d",
        destination,
        "-t",
        "60",
    ];
    args.extend(["--sport", "4000", "--dport", &port]);
    if protocol == "tcp" {
        args.extend(["--state", "ESTABLISHED"]);
    }
    let output = Command::new("conntrack").args(&args).output().unwrap();
    assert!(
        output.status.success(),
        "conntrack {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn listed(filter: FlowFilter) -> usize {
    let mut conntrack = Conntrack::open().unwrap();
    conntrack.list(&filter, |_| Some(())).unwrap().len()
}

#[test]
fn the_kernel_filters_what_it_can() {
    let thread = thread::spawn(|| match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => check(),
        Err(errno) if env::var_os("CI").is_none() => {
            eprintln!("SKIP: needs a network namespace: {errno}")
        }
        Err(errno) => panic!("CI must run kernel tests: {errno}"),
    });
    thread.join().unwrap();
}

fn check() {
    for (one, two, family) in [
        ("10.1.0.1", "10.1.0.2", Family::Ipv4),
        ("fd01::1", "fd01::2", Family::Ipv6),
    ] {
        for destination in [one, two] {
            for protocol in ["tcp", "udp"] {
                insert(destination, protocol, 53);
                insert(destination, protocol, 80);
            }
        }
        let udp = FlowFilter {
            protocol: Some(17),
            ..filter(family)
        };
        assert_eq!(listed(filter(family)), 8);
        assert_eq!(listed(udp), 4);
        assert_eq!(
            listed(FlowFilter {
                destination_port: Some(53),
                ..udp
            }),
            2
        );
        let here = FlowFilter {
            destination: one.parse().ok(),
            ..filter(family)
        };
        let here_udp = FlowFilter {
            destination: one.parse().ok(),
            destination_port: Some(53),
            ..udp
        };
        // The kernel is not asked to compare IPv6 addresses.
        let expected = if family == Family::Ipv4 {
            (4, 1)
        } else {
            (8, 2)
        };
        assert_eq!((listed(here), listed(here_udp)), expected);
        let mut conntrack = Conntrack::open().unwrap();
        assert_eq!(conntrack.flows(&here).unwrap().len(), 4);
        assert_eq!(conntrack.flows(&here_udp).unwrap().len(), 1);
    }
}
