use std::env;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_lab::{Netns, require_netns};

use super::*;

const WITHIN: Duration = Duration::from_secs(20);

fn set(text: &str) -> BTreeSet<IpAddr> {
    list(text).into_iter().collect()
}

fn list(text: &str) -> Vec<IpAddr> {
    let words = text.split_whitespace();
    words.map(|it| it.parse().expect("an address")).collect()
}

#[test]
fn the_default_route_decides_and_its_loss_alone_changes_nothing() {
    // Before, all there are now, what routes choose, expected.
    let cases = [
        ("", "10.0.0.1 ::1", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1 10.0.0.2", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "10.0.0.1 10.0.0.2", "", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2", "", ""),
        ("10.0.0.1", "10.0.0.2", "10.0.0.1", ""),
        (
            "10.0.0.1 fd00::1",
            "10.0.0.1 fd00::1 fd00::2",
            "fd00::2",
            "10.0.0.1 fd00::2",
        ),
        (
            "fd00::1",
            "10.0.0.1 fd00::1",
            "10.0.0.1",
            "10.0.0.1 fd00::1",
        ),
    ];
    for (before, all, chosen, expected) in cases {
        let known = LocalAddresses {
            all: BTreeSet::new(),
            default_route: list(before),
        };
        let found = settle(&known, set(all), &list(chosen));
        assert_eq!(
            found.default_route,
            list(expected),
            "{before} | {all} | {chosen}"
        );
    }
}

/// A machine with a network cable, and the results of its follower.
struct Machine {
    netns: Netns,
    received: Receiver<LocalAddresses>,
    own: Own,
    _addresses: Addresses,
}

impl Machine {
    fn new() -> Self {
        let netns = Netns::new("machine").expect("permitted");
        let wiring = "link add x type veth peer name y\nlink set lo up\nlink set y up\n\
            link set x addrgenmode none\nlink set x up\naddress add 10.0.0.1/24 dev x\n";
        ip(&netns, wiring);
        let (sender, received) = mpsc::channel();
        // Threads inherit the namespace of whoever starts them.
        let own = Own::default();
        let send = move |found| {
            // The test may have ended.
            let _ = sender.send(found);
        };
        let addresses = netns.run(|| Addresses::follow(send, own.clone(), "strange0"));
        Self {
            netns,
            received,
            own,
            _addresses: addresses.expect("permitted"),
        }
    }

    fn next(&self, deadline: Instant) -> Option<LocalAddresses> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.received.recv_timeout(left).ok()
    }

    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&LocalAddresses) -> bool) {
        let deadline = Instant::now() + WITHIN;
        let mut last = None;
        while let Some(found) = self.next(deadline) {
            if wanted(&found) {
                return;
            }
            assert_ne!(last.as_ref(), Some(&found), "nothing new is not said");
            last = Some(found);
        }
        panic!("{what}: {last:?}");
    }
}

/// The `ip` program, before it gets its commands.
fn ip_program(netns: &Netns) -> Child {
    let mut child = netns.command("ip", &["-batch", "-"]);
    child.stdin(Stdio::piped()).spawn().expect("installed")
}

fn run_ip(mut child: Child, batch: &str) {
    let mut input = child.stdin.take().expect("piped");
    input.write_all(batch.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("our child").success(), "{batch}");
}

fn ip(netns: &Netns, batch: &str) {
    run_ip(ip_program(netns), batch);
}

fn has(found: &LocalAddresses, address: &str) -> bool {
    found.all.contains(&address.parse().expect("an address"))
}

#[test]
fn the_first_word_comes_at_once_and_every_change_after_it() {
    require_netns!();
    let machine = Machine::new();
    let first = machine
        .next(Instant::now())
        .expect("sent before it returned");
    assert!(
        has(&first, "127.0.0.1") && has(&first, "10.0.0.1"),
        "{first:?}"
    );
    assert_eq!(first.default_route, list(""));
    ip(&machine.netns, "address add 10.0.0.9/24 dev x\n");
    machine.until("added", |it| has(it, "10.0.0.9"));
    let ip_of = |text: &str| text.parse().expect("an address");
    assert!(machine.own.contains(ip_of("10.0.0.1")) && machine.own.contains(ip_of("10.0.0.9")));
    ip(&machine.netns, "address del 10.0.0.9/24 dev x\n");
    machine.until("removed", |it| !has(it, "10.0.0.9"));
    assert!(!machine.own.contains(ip_of("10.0.0.9")));
    // Not proven unique at first: it counts when it can be bound.
    ip(&machine.netns, "address add fd00::1/64 dev x\n");
    machine.until("proven", |it| has(it, "fd00::1"));
    let bound = machine
        .netns
        .run(|| std::net::TcpListener::bind("[fd00::1]:0"));
    assert!(bound.is_ok(), "{bound:?}");
}

/// An address is added while the process can open no socket to list it. In a process of its own, whose
/// limit it lowers.
#[test]
fn a_listing_that_failed_is_made_again() {
    const CHILD: &str = "SLUICE_TEST_CHILD";
    require_netns!();
    if env::var_os(CHILD).is_none() {
        let name = "addresses::tests::a_listing_that_failed_is_made_again";
        let mut child = Command::new(env::current_exe().expect("a program"));
        let output = child.args(["--exact", name]).env(CHILD, "").output();
        let said = output.expect("this program").stdout;
        let said = String::from_utf8_lossy(&said);
        return assert!(said.contains("1 passed"), "{said}");
    }
    let machine = Machine::new();
    machine.until("the first", |it| has(it, "10.0.0.1"));
    let program = ip_program(&machine.netns);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).expect("permitted");
    run_ip(program, "address add 10.0.0.9/24 dev x\n");
    let found = machine.next(Instant::now() + Duration::from_millis(300));
    assert_eq!(found, None, "it cannot be listed");
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("permitted");
    machine.until("listed again", |it| has(it, "10.0.0.9"));
}

#[test]
fn addresses_that_ipvs_holds_for_services_are_not_the_machines() {
    require_netns!();
    let machine = Machine::new();
    // A bridge will do for the dummy device.
    let wiring = "link add strange0 type bridge\naddress add 10.96.0.1/32 dev strange0\n\
        address add 10.0.0.9/24 dev x\n";
    ip(&machine.netns, wiring);
    machine.until("the last one", |it| {
        assert!(!has(it, "10.96.0.1"), "{it:?}");
        has(it, "10.0.0.9")
    });
}

#[test]
fn five_hundred_at_once_are_all_there_in_the_end() {
    require_netns!();
    let machine = Machine::new();
    let lines = |verb: &str| -> String {
        let hosts = (0..500).map(|it| format!("10.1.{}.{}", it / 250, it % 250));
        hosts
            .map(|it| format!("address {verb} {it}/32 dev x\n"))
            .collect()
    };
    ip(&machine.netns, &lines("add"));
    machine.until("500 added", |it| it.all.len() >= 500 + 2);
    ip(&machine.netns, &lines("del"));
    machine.until("500 removed", |it| it.all.len() < 500);
}

#[test]
fn the_default_route_is_followed() {
    require_netns!();
    let machine = Machine::new();
    let is = |address: &'static str| move |it: &LocalAddresses| it.default_route == list(address);
    ip(&machine.netns, "route add default via 10.0.0.254\n");
    machine.until("a route", is("10.0.0.1"));
    let other = "address add 10.0.1.1/24 dev x\nroute replace default via 10.0.1.254\n";
    ip(&machine.netns, other);
    machine.until("another route", is("10.0.1.1"));
    ip(&machine.netns, "address del 10.0.1.1/24 dev x\n");
    machine.until("the route with what is left", is("10.0.0.1"));
    let without = "route del default\naddress add 10.0.2.1/24 dev x\n";
    ip(&machine.netns, without);
    machine.until("kept without a route", |it| {
        has(it, "10.0.2.1") && is("10.0.0.1")(it)
    });
    ip(&machine.netns, "address del 10.0.0.1/24 dev x\n");
    machine.until("gone with its address", is(""));
}

#[test]
fn dropping_it_ends_the_thread() {
    require_netns!();
    let Machine {
        netns,
        received,
        _addresses: addresses,
        ..
    } = Machine::new();
    assert!(received.try_recv().is_ok(), "the first word");
    drop(addresses);
    ip(&netns, "address add 10.0.0.9/24 dev x\n");
    // The sender went with the thread.
    let end = received.recv_timeout(WITHIN);
    assert_eq!(end.err(), Some(mpsc::RecvTimeoutError::Disconnected));
}
