//! What the kernel and its programs make of the objects: listed, found again, tampered with,
//! drained, removed. One machine for many questions: to boot one is what costs.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use sluice_agent::takeover::{left_own, remove_own};
use sluice_core::backend::{Backend, BackendError, Upkeep};
use sluice_core::model::{Event, NamespacedName, ObjectKey};
use sluice_core::plan::Planner;
use sluice_core::reconcile::{Reconciler, Report};
use sluice_core::settings::Settings;
use sluice_core::testing::{endpoints, node, service};
use sluice_ipvs::{Arp, Ipvs, Options, Sysctl, render_plan, sysctls, text};
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
        self.try_change(events).unwrap()
    }

    fn try_change(&mut self, events: Vec<Event>) -> Result<Report, BackendError> {
        events.into_iter().for_each(|it| self.planner.absorb(it));
        let changed = self.planner.replan().ports.into_keys().collect();
        self.reconciler.sync(self.planner.plan(), &changed)
    }

    fn resync(&mut self) -> Report {
        self.reconciler.forget();
        self.sync()
    }

    /// Tries again what was refused.
    fn retry(&mut self) -> Report {
        self.reconciler.retry();
        self.sync()
    }

    fn sync(&mut self) -> Report {
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
        for Sysctl { path, value } in sysctls(Arp::Strict).unwrap() {
            fs::write(path, value.to_string()).unwrap();
        }
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
            a_set_has_grown();
            let again = proxy.resync();
            assert!(again.is_empty(), "a look finds {again:?}");
            excluded();
            without_modules();
            a_family_in_trouble(&IPV6, &IPV4);
            a_family_in_trouble(&IPV4, &IPV6);
            for broken in [IPV6, IPV4] {
                an_unreadable_family(&broken);
            }
            let mut restarted = Proxy::start(web(BOTH));
            let again = restarted.resync();
            assert!(again.is_empty(), "a restart finds {again:?}");
            drift(&mut restarted);
            a_preferred_address(&mut restarted);
            schedulers(&mut restarted);
            a_refused_endpoint(&mut restarted);
            draining(&mut restarted);
            for scheduler in ["sh", "mh", "dh"] {
                draining_by(&mut restarted, scheduler);
            }
            it_recovers(&mut restarted);
            refused_objects(&mut restarted);
            refused_source_ranges(&mut restarted);
            a_refused_virtual_server(&mut restarted);
            what_somebody_took_away(&mut restarted);
            a_node_port_that_somebody_took_away(&mut restarted);
            another_policy(&mut restarted);
            text_is_loaded(restarted.planner.plan());
            cleanup();
        });
        in_namespace(a_flush_of_legacy_tables);
    }
}

/// What others made: stays, but for what looks like ours.
fn strangers() {
    run("ipvsadm", "-A -t 192.0.2.9:80 -s rr");
    run("ipvsadm", "-A -f 77 -s rr");
    run("ipvsadm", "-A -t 192.168.100.10:31999 -s rr");
    run("ipset", "create OTHER hash:ip");
    run("iptables", "-N OTHER");
    // As of kube-proxy, which knows no other size.
    run("ipset", "create KUBE-CLUSTER-IP hash:ip,port maxelem 2");
    for member in ["10.96.0.10,tcp:80", "10.96.0.99,icmp:8/0"] {
        run("ipset", &format!("add KUBE-CLUSTER-IP {member}"));
    }
    run("iptables", &format!("-A OTHER {KUBE_PROXYS_RULE}"));
    // Of one of ours that ended half-way.
    run("ipset", "create SLUICE-SPARE hash:ip");
}

const KUBE_PROXYS_RULE: &str = "-m set --match-set KUBE-CLUSTER-IP dst,dst";

/// The member that is wanted was there before, so that no sync adds it.
fn a_set_has_grown() {
    let cluster = "list KUBE-CLUSTER-IP";
    shows("ipset", cluster, ROOM);
    shows("ipset", cluster, "10.96.0.10,tcp:80");
    shows_no("ipset", cluster, "10.96.0.99,icmp:8/0");
    shows_no("ipset", "list -n", "SLUICE-SPARE");
    shows("iptables", "-S OTHER", KUBE_PROXYS_RULE);
    run("iptables", &format!("-D OTHER {KUBE_PROXYS_RULE}"));
}

/// What a set of ours may hold.
const ROOM: &str = "maxelem 1048576";

/// Puts a set for one member in the place of an empty one of ours.
fn shrink(set: &str) {
    run("ipset", "create OF-ONE hash:ip,port maxelem 1");
    run("ipset", &format!("swap OF-ONE {set}"));
    run("ipset", "destroy OF-ONE");
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

/// Schedulers that nobody asked for are not missed, or named.
fn without_modules() {
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

/// Where one family cannot be served, the other is, the status says what is to be done, and as soon
/// as it is done both are.
fn a_family_in_trouble(broken: &Family, healthy: &Family) {
    broken.iptables("-F INPUT");
    broken.iptables("-F KUBE-IPVS-FILTER");
    broken.iptables("-t nat -F");
    broken.iptables("-t mangle -F");
    let set = broken.local_balancers;
    destroy(set);
    run(
        "ipset",
        &format!("create {set} hash:net family {}", broken.inet),
    );
    healthy.iptables("-F KUBE-IPVS-FILTER");
    let mention = format!("OUTPUT -m set --match-set {set} src");
    broken.iptables(&format!("-A {mention}"));
    let mut proxy = Proxy::start(web(BOTH));
    assert_eq!(refused(&proxy.resync()), [""; 0]);
    let named = |what: &str| {
        let name = broken.name;
        Some(format!(
            "{name} is not served until this works: use ipset {set}: it is not a hash:ip,port: \
             remove {what} with `ipset destroy {set}`"
        ))
    };
    let what = "the rules that mention it, then the set";
    assert_eq!(unserved(&proxy), named(what));
    broken.iptables(&format!("-D {mention}"));
    // The kernel lets go of it a moment later.
    let is_free = eventually(Duration::from_secs(60), || {
        is_awaited(&mut proxy);
        (unserved(&proxy) == named("it")).then_some(())
    });
    assert!(is_free.is_some(), "{:?}", unserved(&proxy));
    assert!(!healthy.filter().is_empty() && broken.filter().is_empty());
    assert!(proxy.resync().is_empty(), "what can be written is");
    is_awaited(&mut proxy);
    run("ipset", &format!("destroy {set}"));
    can_be_served_again(&mut proxy, broken);
    assert!(!proxy.resync().is_empty());
    assert_eq!(unserved(&proxy), None);
    assert!(!broken.filter().is_empty());
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

/// Rules that are gone let go of a set a moment later.
fn destroy(set: &str) {
    let gone = eventually(Duration::from_secs(10), || {
        let destroyed = Command::new("ipset").args(["destroy", set]).status();
        destroyed.unwrap().success().then_some(())
    });
    assert!(gone.is_some(), "{set} is in use");
}

/// Where the rules of one family cannot be read, the Services of the other change as ever.
fn an_unreadable_family(broken: &Family) {
    let server = |family: &Family| match family.name {
        "IPv4" => "-Ln -t 10.96.0.17:80",
        _ => "-Ln -t [fd00:96::17]:80",
    };
    let real = |family: &Family, last: u8| match family.name {
        "IPv4" => format!("10.244.0.{last}:8080"),
        _ => format!("[fd00:244::{last}]:8080"),
    };
    let both = |last: u8| {
        let endpoints_text = format!("{}@ {}@", real(&IPV4, last), real(&IPV6, last));
        http("dual", "10.96.0.17 fd00:96::17 http:80", &endpoints_text)
    };
    let mut proxy = Proxy::start([web(BOTH), both(5)].concat());
    proxy.resync();
    let strange = format!("{} filter STRANGE", broken.nft);
    run("nft", &format!("add chain {strange}"));
    run("nft", &format!("add rule {strange} ct state new"));
    let report = proxy.resync();
    assert_eq!(refused(&report), [""; 0]);
    let named = format!(
        "{} is not served until this works: read the {0} rules: table filter has rules that only \
         nft can show; see `nft list table {} filter`, and move them to a table of their own",
        broken.name, broken.nft
    );
    assert_eq!(unserved(&proxy).as_ref(), Some(&named));
    proxy.change(both(6));
    for family in [IPV4, IPV6] {
        let (gone, there) = match family.name == broken.name {
            true => (6, 5),
            false => (5, 6),
        };
        shows("ipvsadm", server(&family), &real(&family, there));
        shows_no("ipvsadm", server(&family), &real(&family, gone));
    }
    is_awaited(&mut proxy);
    run("nft", &format!("delete chain {strange}"));
    can_be_served_again(&mut proxy, broken);
    assert!(!proxy.resync().is_empty());
    assert_eq!(unserved(&proxy), None);
    shows("ipvsadm", server(broken), &real(broken, 6));
    shows_no("ipvsadm", server(broken), &real(broken, 5));
    proxy.change(vec![delete("dual")]);
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

fn unserved(proxy: &Proxy) -> Option<String> {
    let unserved = proxy.reconciler.backend().unserved();
    unserved.map(|it| it.to_string())
}

#[track_caller]
fn is_awaited(proxy: &mut Proxy) {
    let due = proxy.reconciler.upkeep().unwrap();
    assert!(matches!(due, Upkeep::After(_)), "{due:?}");
}

#[track_caller]
fn can_be_served_again(proxy: &mut Proxy, family: &Family) {
    let tried = eventually(Duration::from_secs(60), || {
        match proxy.reconciler.upkeep().unwrap() {
            Upkeep::Resync(reason) => Some(reason),
            Upkeep::Nothing | Upkeep::After(_) => None,
        }
    });
    assert_eq!(tried, Some(format!("{} can be served now", family.name)));
}

struct Family {
    name: &'static str,
    nft: &'static str,
    inet: &'static str,
    program: &'static str,
    local_balancers: &'static str,
}

const IPV4: Family = Family {
    name: "IPv4",
    nft: "ip",
    inet: "inet",
    program: "iptables",
    local_balancers: "KUBE-LOAD-BALANCER-LOCAL",
};

const IPV6: Family = Family {
    name: "IPv6",
    nft: "ip6",
    inet: "inet6",
    program: "ip6tables",
    local_balancers: "KUBE-6-LOAD-BALANCER-LOCAL",
};

impl Family {
    fn iptables(&self, arguments: &str) -> String {
        run(self.program, arguments)
    }

    /// The rules of one of our chains.
    fn filter(&self) -> Vec<String> {
        let listing = self.iptables("-S KUBE-IPVS-FILTER");
        let rules = listing.lines().filter(|it| it.starts_with("-A"));
        rules.map(str::to_owned).collect()
    }
}

/// The kernel tells nobody of it, so it is asked.
fn a_flush_of_legacy_tables() {
    // The kubelet's hint at the variant in use.
    run("iptables-legacy", "-t mangle -N KUBE-IPTABLES-HINT");
    let mut proxy = Proxy::start(web(BOTH));
    proxy.resync();
    let is_watched = |proxy: &mut Proxy| {
        let due = proxy.reconciler.upkeep().unwrap();
        let soon = matches!(due, Upkeep::After(it) if it.as_secs() <= 30);
        assert!(soon, "{due:?}");
    };
    is_watched(&mut proxy);
    proxy.change(web("10.244.0.5:8080@"));
    is_watched(&mut proxy);
    run("iptables-legacy", "-t nat -F KUBE-MARK-MASQ");
    assert!(proxy.reconciler.upkeep().is_err());
    let repaired = proxy.sync();
    assert_eq!((repaired.full, repaired.replaced), (true, 1));
    is_watched(&mut proxy);
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
        (
            "ipset",
            "add KUBE-CLUSTER-IP 10.96.0.10,icmp:8/0".to_owned(),
        ),
        (
            "ipset",
            "add KUBE-LOOP-BACK 10.244.0.5,udplite:80,10.244.0.5".to_owned(),
        ),
        // Of one of ours that ended half-way.
        ("ipset", "create SLUICE-SPARE hash:ip".to_owned()),
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
    shows_no("ipset", "list -n", "SLUICE-SPARE");
    shows_no("ip", "address show kube-ipvs0", "inet 10.96.0.78/32");
    shows_no("ipset", "list KUBE-CLUSTER-IP", "10.96.0.10,icmp:8/0");
    shows_no(
        "ipset",
        "list KUBE-LOOP-BACK",
        "10.244.0.5,udplite:80,10.244.0.5",
    );
    run("ip", "link delete kube-ipvs0");
    run("ipvsadm", "-D -t 10.96.0.10:80");
    proxy.resync();
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
}

/// As kube-proxy leaves them: masquerading may choose one as its source.
fn a_preferred_address(proxy: &mut Proxy) {
    let deprecated = "inet6 fd00:96::2/128 scope global nodad deprecated";
    proxy.change(vec![service("default/preferred fd00:96::2 http:80")]);
    run(
        "ip",
        "address change fd00:96::2/128 dev kube-ipvs0 preferred_lft forever",
    );
    shows_no("ip", "address show kube-ipvs0", deprecated);
    proxy.resync();
    shows("ip", "address show kube-ipvs0", deprecated);
    let again = proxy.resync();
    assert!(again.is_empty(), "not repaired: {again:?}");
    proxy.change(vec![delete("preferred")]);
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

/// A Service of one port, with these endpoints.
fn http(name: &str, about: &str, endpoints_text: &str) -> Vec<Event> {
    let mut events = vec![service(&format!("default/{name} {about}"))];
    events.extend(endpoints(&format!("default/{name}:http"), endpoints_text));
    events
}

/// The service ports that a sync could not write whole, and why.
fn refused(report: &Report) -> Vec<String> {
    let refused = report.refused.iter();
    refused
        .map(|(port, reason)| format!("{}: {reason}", port.name))
        .collect()
}

/// No packet can be sent to a broadcast address, so the kernel takes no real server there.
const BROADCAST: &str = "192.168.100.255:8080";

fn a_refused_endpoint(proxy: &mut Proxy) {
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

fn it_recovers(proxy: &mut Proxy) {
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

fn delete(name: &str) -> Event {
    Event::Delete(ObjectKey::Service(NamespacedName::new("default", name)))
}

/// A member for which there is no room, an address for which there is no protocol.
fn refused_objects(proxy: &mut Proxy) {
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
fn refused_source_ranges(proxy: &mut Proxy) {
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
fn a_refused_virtual_server(proxy: &mut Proxy) {
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
fn what_somebody_took_away(proxy: &mut Proxy) {
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
fn a_node_port_that_somebody_took_away(proxy: &mut Proxy) {
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

/// Nobody is sent to an endpoint elsewhere without being masqueraded, not for a moment: who is not
/// masqueraded goes from the sets before real servers come, and comes when they are gone.
fn another_policy(proxy: &mut Proxy) {
    let policy = |policy| {
        let addresses = "ext=198.51.100.9 lb=203.0.113.9";
        let about = format!("10.96.0.29 LoadBalancer http:80@31090 {addresses} etp={policy}");
        http("turned", &about, "10.244.0.5:8080@ 10.244.7.7:8080")
    };
    let local = [
        ("list KUBE-EXTERNAL-IP-LOCAL", "198.51.100.9,tcp:80"),
        ("list KUBE-LOAD-BALANCER-LOCAL", "203.0.113.9,tcp:80"),
        ("list KUBE-NODE-PORT-LOCAL-TCP", "31090"),
    ];
    let is_cluster = || {
        for (list, member) in local {
            shows_no("ipset", list, member);
        }
        shows("ipset", "list KUBE-EXTERNAL-IP", "198.51.100.9,tcp:80");
    };
    let is_local = || {
        for (list, member) in local {
            shows("ipset", list, member);
        }
        shows_no("ipset", "list KUBE-EXTERNAL-IP", "198.51.100.9,tcp:80");
    };
    let mut events = policy("local");
    events.extend(http("leaving", "10.96.0.30 http:80", BOTH));
    proxy.change(events);
    is_local();
    interrupted(proxy, "ipvsadm", "-D -t 198.51.100.9:80", policy("cluster"));
    is_cluster();
    proxy.resync();
    is_cluster();
    let mut events = policy("local");
    events.push(delete("leaving"));
    interrupted(proxy, "ip", "link delete kube-ipvs0", events);
    is_cluster();
    proxy.resync();
    is_local();
    proxy.change(vec![delete("turned")]);
    let again = proxy.resync();
    assert!(again.is_empty(), "{again:?}");
}

/// A change that does not get further than to what somebody took away: the virtual server before
/// real ones are written to it, or the interface before anything goes.
fn interrupted(proxy: &mut Proxy, program: &str, arguments: &str, events: Vec<Event>) {
    run(program, arguments);
    events.into_iter().for_each(|it| proxy.planner.absorb(it));
    let changed = proxy.planner.replan().ports.into_keys().collect();
    let plan = proxy.planner.plan();
    assert!(proxy.reconciler.sync(plan, &changed).is_err());
}

fn draining(proxy: &mut Proxy) {
    let mut stream = TcpStream::connect("10.96.0.10:80").unwrap();
    let chosen = ask(&mut stream);
    let other = match &*chosen {
        "10.244.0.5:8080" => "10.244.0.6:8080",
        _ => "10.244.0.5:8080",
    };
    let idle = proxy.reconciler.upkeep().unwrap();
    assert_eq!(idle, Upkeep::Nothing, "nobody drains yet");
    let leave = |proxy: &mut Proxy| {
        let all = endpoints("default/web:http", &format!("{other}@"));
        let report = proxy.change(all);
        assert!(report.refused.is_empty() && !report.full, "{report:?}");
    };
    leave(proxy);
    shows("ipvsadm", "-Ln", &format!("-> {chosen} Masq 0"));
    assert_eq!(
        proxy.reconciler.upkeep().unwrap(),
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
        (proxy.reconciler.upkeep().unwrap() == Upkeep::Nothing).then_some(())
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

/// Also what somebody who flushed the rules by hand left.
fn cleanup() {
    for program in ["iptables", "ip6tables"] {
        run(program, "-F");
        run(program, "-X SLUICE-CLUSTER-IPS");
    }
    assert!(left_own());
    let removal = remove_own();
    assert!(
        removal.errors.is_empty() && removal.notes.is_empty(),
        "{removal:?}"
    );
    assert!(!removal.removed.is_empty());
    assert!(!left_own());
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
