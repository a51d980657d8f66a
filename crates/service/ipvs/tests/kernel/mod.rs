//! What the kernel and its programs make of the objects: listed, found again, tampered with,
//! drained, removed. One machine for many questions: to boot one is what costs.

mod draining;
mod families;
mod live;
mod refusals;
mod schedulers;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use sluice_ipvs::{Arp, Ipvs, IpvsOptions, render_plan, sysctls, text};
use sluice_lab::{Netns, eventually, require_netns, require_vm};
use sluice_model::{Change, IpFamily, NamespacedName};
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{endpoints, node, service};
use sluice_plane::kube_proxy::MARKS;
use sluice_plane::{DataPlane as _, Proxy, Purpose, Removal, Request, Sysctl};
use sluice_reconcile::Upkeep;
use sluice_scenarios::Drive as _;
use sluice_xtables::programs::Programs;

use draining::{draining, draining_by};
use families::{IPV4, IPV6, a_family_in_trouble, an_unreadable_family};
use refusals::{
    a_node_port_that_somebody_took_away, a_refused_endpoint, a_refused_virtual_server, it_recovers,
    refused_source_ranges, what_somebody_took_away,
};
use schedulers::{schedulers, without_modules};

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

/// A proxy of this data plane.
type Node = Proxy<Ipvs>;

fn options() -> IpvsOptions {
    IpvsOptions {
        exclude_cidrs: vec!["192.0.2.0/24".parse().unwrap()],
        ..IpvsOptions::default()
    }
}

/// The programs of the machine, looked for once: that runs each of them, which takes seconds where the processor is emulated.
fn programs() -> Programs {
    static FOUND: OnceLock<Programs> = OnceLock::new();
    FOUND.get_or_init(detected).clone()
}

fn detected() -> Programs {
    Programs::detect(MARKS).unwrap()
}

/// node-a with these objects, opened anew.
fn start(events: Vec<Event>) -> Node {
    start_with(programs(), events)
}

fn start_with(programs: Programs, events: Vec<Event>) -> Node {
    let ipvs = Ipvs::with(programs, options()).unwrap();
    let mut node = Proxy::new(Settings::for_node("node-a"), ipvs);
    node.tell(events);
    node
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
        for Sysctl { path, value, .. } in sysctls(Arp::Strict).unwrap() {
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
        require_vm!("kernel::vm_kernel::everything_a_runbook_looks_at");
        require_netns!();
        in_namespace(|| {
            strangers();
            let mut proxy = start(web(BOTH));
            let report = proxy.resync();
            assert!(report.added > 50, "{report:?}");
            listings();
            a_set_has_grown();
            let again = proxy.resync();
            assert!(again.is_empty(), "a look finds {again:?}");
            live::what_explain_reads(&mut proxy);
            excluded();
            without_modules();
            a_family_in_trouble(&IPV6, &IPV4);
            a_family_in_trouble(&IPV4, &IPV6);
            // Beside the rules of the earlier one.
            let mut restarted = start_with(detected(), web(BOTH));
            let again = restarted.resync();
            assert!(again.is_empty(), "a restart finds {again:?}");
            drift(&mut restarted);
            a_preferred_address(&mut restarted);
            schedulers(&mut restarted);
            a_refused_endpoint(&mut restarted);
            it_recovers(&mut restarted);
            draining(&mut restarted);
            for scheduler in ["sh", "mh", "dh"] {
                draining_by(&mut restarted, scheduler);
            }
            refused_source_ranges(&mut restarted);
            a_refused_virtual_server(&mut restarted);
            what_somebody_took_away(&mut restarted);
            a_node_port_that_somebody_took_away(&mut restarted);
            another_policy(&mut restarted);
            text_is_loaded(restarted.plan());
            cleanup();
        });
        thread::scope(|scope| {
            // Half a minute goes by until the next comparison.
            scope.spawn(|| in_namespace(a_flush_of_legacy_tables));
            in_namespace(live::the_kernel_does_what_the_plan_says);
        });
    }

    /// Only nftables makes a table that iptables cannot read.
    #[test]
    fn a_table_of_nftables() {
        require_vm!("kernel::vm_kernel::a_table_of_nftables");
        require_netns!();
        in_namespace(|| {
            start(web(BOTH)).resync();
            for broken in [IPV6, IPV4] {
                an_unreadable_family(&broken);
            }
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
const ROOM: &str = "maxelem 1073741824";

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
    start(outside(BOTH)).resync();
    let server = "-Ln -t 192.0.2.20:80";
    shows("ipvsadm", server, "-> 10.244.0.6:8080 Masq 1");
    let again = start(outside(BOTH)).resync();
    assert!(again.is_empty(), "a restart finds {again:?}");
    start(outside("10.244.0.5:8080@")).resync();
    shows("ipvsadm", server, "-> 10.244.0.5:8080 Masq 1");
    shows_no("ipvsadm", server, "-> 10.244.0.6:8080");
    start(web(BOTH)).resync();
    shows_no("ipvsadm", "-Ln", "TCP 192.0.2.20:80 rr");
    shows("ipvsadm", "-Ln", "TCP 192.0.2.9:80 rr");
}

/// Rules that are gone let go of a set a moment later.
fn destroy(set: &str) {
    let gone = eventually(Duration::from_secs(10), || {
        let destroyed = Command::new("ipset").args(["destroy", set]).status();
        destroyed.unwrap().success().then_some(())
    });
    assert!(gone.is_some(), "{set} is in use");
}

/// The kernel tells nobody of it, so it is asked.
fn a_flush_of_legacy_tables() {
    // The kubelet's hint at the variant in use.
    run("iptables-legacy", "-t mangle -N KUBE-IPTABLES-HINT");
    let mut proxy = start_with(detected(), web(BOTH));
    proxy.resync();
    let is_watched = |proxy: &mut Node| {
        let due = proxy.reconciler_mut().upkeep().unwrap();
        let soon = matches!(due, Upkeep::After(it) if it.as_secs() <= 30);
        assert!(soon, "{due:?}");
    };
    is_watched(&mut proxy);
    proxy.change(web("10.244.0.5:8080@"));
    is_watched(&mut proxy);
    run("iptables-legacy", "-t nat -F KUBE-MARK-MASQ");
    // The last listing took a fiftieth of the time until the next one, at most.
    let noticed = || proxy.reconciler_mut().upkeep().err();
    assert!(eventually(Duration::from_secs(60), noticed).is_some());
    let repaired = proxy.synced();
    assert_eq!((repaired.full, repaired.replaced), (true, 1));
    is_watched(&mut proxy);
}

fn drift(proxy: &mut Node) {
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
fn a_preferred_address(proxy: &mut Node) {
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

/// A Service of one port, with these endpoints.
fn http(name: &str, about: &str, endpoints_text: &str) -> Vec<Event> {
    let mut events = vec![service(&format!("default/{name} {about}"))];
    events.extend(endpoints(&format!("default/{name}:http"), endpoints_text));
    events
}

/// The service ports that need something that the kernel lacks, and what.
fn refused(proxy: &Node) -> Vec<String> {
    let refused = proxy.reconciler().refusals().iter();
    refused
        .map(|(port, refusal)| format!("{}: {}", port.name, refusal.reason))
        .collect()
}

fn delete(name: &str) -> Event {
    Event::Service(Change::Delete(NamespacedName::new("default", name)))
}

/// Nobody is sent to an endpoint elsewhere without being masqueraded, not for a moment: who is not
/// masqueraded goes from the sets before real servers come, and comes when they are gone.
fn another_policy(proxy: &mut Node) {
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
fn interrupted(proxy: &mut Node, program: &str, arguments: &str, events: Vec<Event>) {
    run(program, arguments);
    assert!(proxy.try_change(events).is_err());
}

/// What `sluice render` prints is what the programs read.
fn text_is_loaded(plan: &sluice_plan::Plan) {
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
    let clean = || {
        let request = Request {
            purpose: Purpose::Cleanup,
            families: &IpFamily::ALL,
            keep: &|_| false,
        };
        let mut removal = Removal::default();
        Ipvs::LEFTOVERS.remove(&request, &mut removal);
        removal
    };
    let removal = clean();
    assert!(
        removal.errors.is_empty() && removal.notes.is_empty(),
        "{removal:?}"
    );
    assert!(!removal.removed.is_empty());
    let nothing = clean().removed;
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
