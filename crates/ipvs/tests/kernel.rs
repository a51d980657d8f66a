//! What the kernel and its programs make of the objects: listed, found again, tampered with,
//! drained, removed. One machine for many questions: to boot one is what costs.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use sluice_agent::takeover::remove_own;
use sluice_core::model::{Event, NamespacedName, ObjectKey};
use sluice_core::plan::Planner;
use sluice_core::reconcile::{Reconciler, Report};
use sluice_core::settings::Settings;
use sluice_core::testing::{endpoints, node, service};
use sluice_ipvs::{Arp, Ipvs, Options, render_plan, text};
use sluice_lab::{Netns, eventually, require_netns, require_vm};

fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Feeds text to a program.
fn feed(program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    assert!(
        child.wait().unwrap().success(),
        "{program} refused:\n{input}"
    );
}

/// Whether a listing has a line with these words one after the other.
fn has(listing: &str, words: &str) -> bool {
    let wanted: Vec<&str> = words.split_whitespace().collect();
    listing.lines().any(|line| {
        let line: Vec<&str> = line.split_whitespace().collect();
        line.windows(wanted.len()).any(|it| it == wanted)
    })
}

#[track_caller]
fn shows(program: &str, arguments: &str, words: &str) {
    let listing = run(program, arguments);
    assert!(has(&listing, words), "no {words:?} in\n{listing}");
}

#[track_caller]
fn shows_no(program: &str, arguments: &str, words: &str) {
    let listing = run(program, arguments);
    assert!(!has(&listing, words), "{words:?} in\n{listing}");
}

/// An agent's planner and reconciler, without the agent.
struct Proxy {
    planner: Planner,
    reconciler: Reconciler<Ipvs>,
}

fn options() -> Options {
    Options {
        exclude_cidrs: vec!["192.0.2.0/24".parse().unwrap()],
        ..Options::default()
    }
}

impl Proxy {
    fn start(events: Vec<Event>) -> Self {
        let mut planner = Planner::new(Settings::for_node("node-a"));
        events.into_iter().for_each(|it| planner.absorb(it));
        planner.replan();
        let reconciler = Reconciler::new(Ipvs::open(options()).unwrap());
        Self {
            planner,
            reconciler,
        }
    }

    fn change(&mut self, events: Vec<Event>) -> Report {
        events.into_iter().for_each(|it| self.planner.absorb(it));
        let changed = self.planner.replan().ports.into_keys().collect();
        self.reconciler.sync(self.planner.plan(), &changed).unwrap()
    }

    fn resync(&mut self) -> Report {
        self.reconciler.forget();
        let nothing = BTreeSet::new();
        self.reconciler.sync(self.planner.plan(), &nothing).unwrap()
    }
}

/// A node with two servers, on addresses of its own.
fn wire() {
    for line in [
        "link set lo up",
        "link add eth0 type dummy",
        "link set eth0 up",
        "address add 192.168.100.10/24 dev eth0",
        "address add 10.244.0.5/32 dev lo",
        "address add 10.244.0.6/32 dev lo",
    ] {
        run("ip", line);
    }
    for address in ["10.244.0.5:8080", "10.244.0.6:8080"] {
        let listener = TcpListener::bind(address).unwrap();
        thread::spawn(move || {
            // Ends with the machine.
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || serve(stream, address));
            }
        });
    }
}

/// Says who it is, for every byte.
fn serve(mut stream: TcpStream, name: &str) {
    let mut byte = [0];
    while matches!(stream.read(&mut byte), Ok(1)) {
        if stream.write_all(name.as_bytes()).is_err() {
            return;
        }
    }
}

fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"?").unwrap();
    let mut name = [0; "10.244.0.5:8080".len()];
    stream.read_exact(&mut name).unwrap();
    String::from_utf8(name.to_vec()).unwrap()
}

fn web(endpoints_text: &str) -> Vec<Event> {
    let mut events = vec![node("node-a 192.168.100.10")];
    events.push(service("default/web 10.96.0.10 NodePort http:80@30080"));
    events.extend(endpoints("default/web:http", endpoints_text));
    events
}

const BOTH: &str = "10.244.0.5:8080@ 10.244.0.6:8080@";

fn in_namespace(test: impl FnOnce() + Send) {
    let netns = Netns::new("ipvs").unwrap();
    netns.run(|| {
        sluice_ipvs::prepare(Arp::Strict).unwrap();
        wire();
        test();
    });
}

mod vm_kernel {
    use super::*;

    #[test]
    fn everything_a_runbook_looks_at() {
        require_vm!("6.1", "vm_kernel::everything_a_runbook_looks_at");
        require_netns!();
        in_namespace(|| {
            strangers();
            let mut proxy = Proxy::start(web(BOTH));
            let report = proxy.resync();
            assert!(report.added > 50 && report.refused.is_empty(), "{report:?}");
            listings();
            let again = proxy.resync();
            assert!(again.is_empty(), "a look finds {again:?}");
            excluded();
            a_family_in_trouble();
            let mut restarted = Proxy::start(web(BOTH));
            let again = restarted.resync();
            assert!(again.is_empty(), "a restart finds {again:?}");
            drift(&mut restarted);
            schedulers(&mut restarted);
            draining(&mut restarted);
            for scheduler in ["sh", "mh", "dh"] {
                draining_by(&mut restarted, scheduler);
            }
            text_is_loaded(restarted.planner.plan());
            cleanup();
        });
    }
}

/// What others made: stays, but for what looks like ours.
fn strangers() {
    run("ipvsadm", "-A -t 192.0.2.9:80 -s rr");
    run("ipvsadm", "-A -f 77 -s rr");
    run("ipvsadm", "-A -t 192.168.100.10:31999 -s rr");
    run("ipset", "create OTHER hash:ip");
    run("iptables", "-N OTHER");
}

fn listings() {
    shows("ipvsadm", "-Ln", "TCP 10.96.0.10:80 rr");
    shows("ipvsadm", "-Ln", "TCP 192.168.100.10:30080 rr");
    shows("ipvsadm", "-Ln", "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", "-Ln", "TCP 192.168.100.10:31999 rr");
    shows("ipset", "list KUBE-CLUSTER-IP", "10.96.0.10,tcp:80");
    shows("ipset", "list KUBE-NODE-PORT-TCP", "30080");
    shows("ip", "address show kube-ipvs0", "inet 10.96.0.10/32");
    shows("iptables-save", "-t nat", "-A PREROUTING -m comment");
    shows("sysctl", "net.ipv4.vs.conntrack", "= 1");
    shows("sysctl", "net.ipv4.conf.all.arp_ignore", "= 1");
}

/// What a Service has in an excluded network is known to the next process, and what others have
/// there stays.
fn excluded() {
    let outside = |text| {
        let mut events = web(BOTH);
        events.push(service("default/out 10.96.0.14 http:80 ext=192.0.2.20"));
        events.extend(endpoints("default/out:http", text));
        events
    };
    Proxy::start(outside(BOTH)).resync();
    let server = "-Ln -t 192.0.2.20:80";
    shows("ipvsadm", server, "-> 10.244.0.6:8080 Masq 1");
    let again = Proxy::start(outside(BOTH)).resync();
    assert!(again.is_empty(), "a restart finds {again:?}");
    Proxy::start(outside("10.244.0.5:8080@")).resync();
    shows("ipvsadm", server, "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", server, "-> 10.244.0.6:8080");
    Proxy::start(web(BOTH)).resync();
    shows_no("ipvsadm", "-Ln", "TCP 192.0.2.20:80 rr");
    shows("ipvsadm", "-Ln", "TCP 192.0.2.9:80 rr");
}

/// Where one family cannot be served, the other is, and the sync says what is to be done.
fn a_family_in_trouble() {
    run("ip6tables", "-F INPUT");
    run("ip6tables", "-F KUBE-IPVS-FILTER");
    run("ip6tables", "-t nat -F");
    run("ip6tables", "-t mangle -F");
    let set = "KUBE-6-EXTERNAL-IP";
    // Rules that are gone let go of it a moment later.
    let gone = eventually(Duration::from_secs(10), || {
        let destroyed = Command::new("ipset").args(["destroy", set]).status();
        destroyed.unwrap().success().then_some(())
    });
    assert!(gone.is_some(), "{set} is in use");
    run("ipset", &format!("create {set} hash:net family inet6"));
    run("ipvsadm", "-D -t 10.96.0.10:80");
    let mut proxy = Proxy::start(web(BOTH));
    let nothing = BTreeSet::new();
    let synced = proxy.reconciler.sync(proxy.planner.plan(), &nothing);
    let error = synced.unwrap_err().to_string();
    let hint = "nothing of IPv6 was written: use ipset KUBE-6-EXTERNAL-IP: it is not a hash:ip,port: \
                remove it with `ipset destroy KUBE-6-EXTERNAL-IP`";
    assert!(error.contains(hint), "{error}");
    shows("ipvsadm", "-Ln", "TCP 10.96.0.10:80 rr");
    run("ipset", &format!("destroy {set}"));
    assert!(!proxy.resync().is_empty());
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

fn drift(proxy: &mut Proxy) {
    let server = "-t 10.96.0.10:80";
    for (program, arguments) in [
        ("ipvsadm", format!("-e {server} -r 10.244.0.5:8080 -m -w 7")),
        ("ipvsadm", format!("-d {server} -r 10.244.0.6:8080")),
        (
            "ipvsadm",
            "-E -t 192.168.100.10:30080 -s wlc -p 60".to_owned(),
        ),
        ("ipset", "del KUBE-CLUSTER-IP 10.96.0.10,tcp:80".to_owned()),
        ("ipset", "add KUBE-IPVS-IPS 10.96.0.77".to_owned()),
        ("ip", "address del 10.96.0.10/32 dev kube-ipvs0".to_owned()),
        ("ip", "address add 10.96.0.78/32 dev kube-ipvs0".to_owned()),
        ("iptables", "-t nat -F KUBE-SERVICES".to_owned()),
        ("iptables", "-F INPUT".to_owned()),
    ] {
        run(program, &arguments);
    }
    let repaired = proxy.resync();
    assert!(!repaired.is_empty());
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
    shows("ipvsadm", "-Ln", "-> 10.244.0.6:8080 Masq 1");
    shows_no("ipvsadm", "-Ln", "Masq 7");
    shows("ipset", "list KUBE-CLUSTER-IP", "10.96.0.10,tcp:80");
    shows_no("ip", "address show kube-ipvs0", "inet 10.96.0.78/32");
    run("ip", "link delete kube-ipvs0");
    run("ipvsadm", "-D -t 10.96.0.10:80");
    proxy.resync();
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

fn schedulers(proxy: &mut Proxy) {
    let open = Ipvs::open(Options {
        scheduler: "nosuch".into(),
        ..options()
    });
    let error = open.err().unwrap().to_string();
    assert!(
        error.contains("nosuch") && error.contains("rr, wrr"),
        "{error}"
    );
    let mut events = vec![
        service("default/odd 10.96.0.11 http:80 scheduler=nosuch"),
        service("default/good 10.96.0.12 http:80 scheduler=mh"),
    ];
    events.extend(endpoints("default/odd:http", BOTH));
    events.extend(endpoints("default/good:http", BOTH));
    let report = proxy.change(events);
    let reasons: Vec<_> = report.refused.iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("it has rr, wrr"), "{reasons:?}");
    shows(
        "ipvsadm",
        "-Ln",
        "TCP 10.96.0.12:80 mh (mh-fallback,mh-port)",
    );
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.11:80");
    let keys = ["odd", "good"]
        .map(|it| Event::Delete(ObjectKey::Service(NamespacedName::new("default", it))));
    proxy.change(keys.into());
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.12:80");
    // Affinity, and its end.
    let sticky = "default/sticky 10.96.0.13 http:80 affinity=7200";
    let mut events = vec![service(sticky)];
    events.extend(endpoints("default/sticky:http", BOTH));
    proxy.change(events);
    shows("ipvsadm", "-Ln", "TCP 10.96.0.13:80 rr persistent 7200");
}

fn draining(proxy: &mut Proxy) {
    let mut stream = TcpStream::connect("10.96.0.10:80").unwrap();
    let chosen = ask(&mut stream);
    let other = match &*chosen {
        "10.244.0.5:8080" => "10.244.0.6:8080",
        _ => "10.244.0.5:8080",
    };
    let idle = proxy.reconciler.upkeep().unwrap();
    assert_eq!(idle, None, "nobody drains yet");
    let leave = |proxy: &mut Proxy| {
        let all = endpoints("default/web:http", &format!("{other}@"));
        assert!(proxy.change(all).refused.is_empty());
    };
    leave(proxy);
    shows("ipvsadm", "-Ln", &format!("-> {chosen} Masq 0"));
    assert_eq!(
        proxy.reconciler.upkeep().unwrap(),
        Some(Duration::from_secs(1))
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
        proxy.reconciler.upkeep().unwrap().is_none().then_some(())
    });
    assert!(gone.is_some(), "{}", run("ipvsadm", "-Ln"));
    let listing = run("ipvsadm", "-Ln -t 10.96.0.10:80");
    assert!(!has(&listing, &format!("-> {chosen}")), "{listing}");
}

/// While a real server drains, new clients are served by the other, whatever chooses.
fn draining_by(proxy: &mut Proxy, scheduler: &str) {
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
    proxy.change(vec![Event::Delete(ObjectKey::Service(service))]);
}

/// What `sluice render` prints is what the programs read.
fn text_is_loaded(plan: &sluice_core::plan::Plan) {
    let netns = Netns::new("text").unwrap();
    let text = text::data_plane(&render_plan(plan, "rr"));
    netns.run(|| {
        for section in text.split("\n# ").map(|it| it.trim_start_matches("# ")) {
            let (command, input) = section.split_once('\n').unwrap();
            let mut words = command.split_whitespace();
            let program = words.next().unwrap();
            let arguments: Vec<&str> = words.collect();
            feed(program, &arguments, &format!("{input}\n"));
        }
        shows("ipvsadm", "-Ln", "TCP 10.96.0.10:80 rr");
    });
}

fn cleanup() {
    let removal = remove_own();
    assert!(
        removal.errors.is_empty() && removal.notes.is_empty(),
        "{removal:?}"
    );
    assert!(!removal.removed.is_empty());
    let nothing = remove_own().removed;
    assert!(nothing.is_empty(), "{nothing:?}");
    shows("ipvsadm", "-Ln", "TCP 192.0.2.9:80 rr");
    shows("ipvsadm", "-Ln", "FWM 77 rr");
    shows_no("ipvsadm", "-Ln", "TCP 10.96.0.10:80 rr");
    assert_eq!(run("ipset", "list -n").trim(), "OTHER");
    shows("iptables-save", "", ":OTHER - [0:0]");
    for program in ["iptables-save", "ip6tables-save"] {
        let rules = run(program, "");
        assert!(!rules.contains("KUBE-"), "{rules}");
    }
    let links = run("ip", "link");
    assert!(!links.contains("kube-ipvs0"), "{links}");
}
