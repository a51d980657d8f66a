//! IPVS and its interface, as `ipvsadm` and `ip` see them, in a virtual machine: few kernels of test
//! machines have them.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use sluice_lab::{eventually, require_vm};
use sluice_netlink::ipvs::{
    Change, Flags, Forwarding, Ipvs, Key, Real, SCHEDULERS, Timeouts, Virtual, VirtualServer,
};
use sluice_netlink::{Errno, Failure, Family};
use sluice_route::{
    Address, AddressChange, Addresses, Connection, Kind, Settings, addresses, link,
};

use crate::netns::{self, program};

const DEADLINE: Duration = Duration::from_secs(10);
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// One machine for all: to start it takes longer than any.
#[test]
fn ipvs() {
    require_vm!("vm_ipvs::ipvs");
    netns::run(servers_are_what_ipvsadm_lists);
    netns::run(each_refusal_names_its_change);
    netns::run(schedulers_are_those_of_the_kernel);
    netns::run(timeouts_are_those_of_ipvsadm);
    netns::run(thousands_are_listed);
    netns::run(addresses_of_a_dummy_are_local);
    netns::run(connections_are_counted);
}

fn at(ip: &str, protocol: u8, port: u16) -> Key {
    let ip = ip.parse().unwrap();
    Key::Address(VirtualServer { ip, protocol, port })
}

fn round_robin(key: Key) -> Virtual {
    Virtual {
        key,
        scheduler: "rr".into(),
        flags: Flags::default(),
        timeout: 0,
        prefix: key.family().bits(),
    }
}

fn real(address: &str, weight: u32) -> Real {
    Real {
        address: address.parse().unwrap(),
        forwarding: Forwarding::Masquerade,
        weight,
        upper_threshold: 0,
        lower_threshold: 0,
    }
}

/// In a namespace with loopback: where IPv4 has no address at all the kernel takes no real server.
fn open() -> Ipvs {
    program("ip", &["link", "set", "lo", "up"], "");
    Ipvs::open().unwrap().expect("this kernel has IPVS")
}

#[track_caller]
fn apply(ipvs: &mut Ipvs, changes: &[Change]) {
    let refused = ipvs.apply(changes).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
}

/// What `ipvsadm-save -n` prints, in the order of the alphabet.
fn saved() -> Vec<String> {
    let text = program("ipvsadm", &["-S", "-n"], "");
    let mut lines: Vec<String> = text.lines().map(|it| it.trim().to_owned()).collect();
    lines.sort();
    lines
}

fn listed(ipvs: &mut Ipvs) -> Vec<(Virtual, Vec<Real>)> {
    let servers = ipvs.virtual_servers().unwrap();
    let mut all: Vec<(Virtual, Vec<Real>)> = servers
        .into_iter()
        .map(|it| {
            let reals = ipvs.real_servers(&it.key).unwrap();
            let mut reals: Vec<Real> = reals.iter().map(|it| it.server).collect();
            reals.sort();
            (it, reals)
        })
        .collect();
    all.sort_by_key(|(server, _)| server.key);
    all
}

fn servers_are_what_ipvsadm_lists() {
    let mut ipvs = open();
    let four = at("10.96.0.10", TCP, 80);
    let six = at("fd00:10:96::a", UDP, 53);
    let persistent = Virtual {
        scheduler: "sh".into(),
        flags: Flags::PERSISTENT | Flags::HASH_FALLBACK | Flags::HASH_PORT,
        timeout: 10800,
        prefix: 24,
        ..round_robin(four)
    };
    let mark = |family| Key::Mark { family, mark: 7 };
    let one_packet = Virtual {
        flags: Flags::ONE_PACKET,
        prefix: 64,
        ..round_robin(six)
    };
    let limited = Real {
        upper_threshold: 20,
        lower_threshold: 10,
        ..real("10.244.0.2:8080", 1)
    };
    let direct = Real {
        forwarding: Forwarding::Route,
        ..real("[fd00:244::2]:53", 0)
    };
    let mut expected = vec![
        (
            persistent.clone(),
            vec![limited, real("10.244.1.3:8080", 100)],
        ),
        (one_packet, vec![direct]),
        (round_robin(at("10.96.0.11", SCTP, 9)), vec![]),
        (
            round_robin(mark(Family::Ipv4)),
            vec![real("10.244.0.9:0", 1)],
        ),
        (round_robin(mark(Family::Ipv6)), vec![]),
    ];
    expected.sort_by_key(|(server, _)| server.key);
    let mut changes = Vec::new();
    for (server, reals) in &expected {
        changes.push(Change::AddVirtual(server.clone()));
        let key = server.key;
        changes.extend(reals.iter().map(|it| Change::AddReal(key, *it)));
    }
    apply(&mut ipvs, &changes);
    assert_eq!(listed(&mut ipvs), expected);
    assert_eq!(
        saved(),
        [
            "-A --sctp-service 10.96.0.11:9 -s rr",
            "-A -f 7 -6 -s rr",
            "-A -f 7 -s rr",
            "-A -t 10.96.0.10:80 -s sh -p 10800 -M 255.255.255.0 -b sh-fallback,sh-port",
            "-A -u [fd00:10:96::a]:53 -s rr -o",
            "-a -f 7 -r 10.244.0.9:0 -m -w 1",
            "-a -t 10.96.0.10:80 -r 10.244.0.2:8080 -m -w 1",
            "-a -t 10.96.0.10:80 -r 10.244.1.3:8080 -m -w 100",
            "-a -u [fd00:10:96::a]:53 -r [fd00:244::2]:53 -g -w 0",
        ]
    );
    let thresholds = program("ipvsadm", &["-L", "-n", "--thresholds"], "");
    let line = thresholds.lines().find(|it| it.contains("10.244.0.2:8080"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[1..4], ["10.244.0.2:8080", "20", "10"]);
    // Everything but the key may change, and flags may go.
    let plain = round_robin(four);
    apply(
        &mut ipvs,
        &[
            Change::SetVirtual(plain.clone()),
            Change::SetReal(four, real("10.244.0.2:8080", 0)),
            Change::DeleteReal(four, "10.244.1.3:8080".parse().unwrap()),
            Change::DeleteVirtual(six),
            Change::DeleteVirtual(mark(Family::Ipv6)),
        ],
    );
    let found = listed(&mut ipvs);
    assert!(
        found.contains(&(plain, vec![real("10.244.0.2:8080", 0)])),
        "{found:?}"
    );
    assert_eq!(found.len(), 3);
    // What `ipvsadm` makes is read as well.
    program(
        "ipvsadm",
        &[
            "-E",
            "-t",
            "10.96.0.10:80",
            "-s",
            "sh",
            "-p",
            "10800",
            "-M",
            "255.255.255.0",
            "-b",
            "sh-fallback,sh-port",
        ],
        "",
    );
    assert!(listed(&mut ipvs).iter().any(|(it, _)| *it == persistent));
}

fn each_refusal_names_its_change() {
    let mut ipvs = open();
    let key = at("10.96.0.10", TCP, 80);
    let missing = at("10.96.0.99", TCP, 80);
    let endpoint = real("10.244.0.2:8080", 1);
    apply(
        &mut ipvs,
        &[
            Change::AddVirtual(round_robin(key)),
            Change::AddReal(key, endpoint),
        ],
    );
    let unknown = Virtual {
        scheduler: "nonesuch".into(),
        ..round_robin(missing)
    };
    let heavy = real("10.244.0.3:8080", 1 << 31);
    let refused = ipvs
        .apply(&[
            Change::AddVirtual(round_robin(key)),
            Change::DeleteVirtual(missing),
            Change::AddVirtual(unknown),
            Change::SetVirtual(round_robin(missing)),
            Change::DeleteReal(missing, endpoint.address),
            Change::DeleteReal(key, heavy.address),
            Change::AddReal(key, endpoint),
            Change::AddReal(missing, endpoint),
            Change::SetReal(key, real("10.244.0.9:1", 1)),
            Change::AddReal(key, heavy),
            Change::AddReal(key, real("10.244.0.4:8080", 1)),
        ])
        .unwrap();
    let shown: Vec<(usize, Option<Errno>)> = refused
        .iter()
        .map(|Failure { index, error }| (*index, error.errno()))
        .collect();
    assert_eq!(
        shown,
        [
            (0, Some(Errno::EEXIST)),
            (2, Some(Errno::ENOENT)),
            (3, Some(Errno::ESRCH)),
            (6, Some(Errno::EEXIST)),
            (7, Some(Errno::ESRCH)),
            (8, Some(Errno::ENOENT)),
            (9, Some(Errno::ERANGE)),
        ]
    );
    assert_eq!(
        refused[1].error.to_string(),
        "add virtual server 10.96.0.99 protocol 6 port 80 scheduler nonesuch: \
         No such file or directory"
    );
    assert_eq!(
        refused[3].error.to_string(),
        "add real server 10.244.0.2:8080 of 10.96.0.10 protocol 6 port 80: File exists"
    );
    let [(_, reals)] = &listed(&mut ipvs)[..] else {
        panic!("one virtual server");
    };
    assert_eq!(reals.len(), 2, "the last was added all the same");
    assert_eq!(ipvs.real_servers(&missing).unwrap(), []);
}

fn schedulers_are_those_of_the_kernel() {
    let mut ipvs = open();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let folder = format!("/lib/modules/{}/kernel/net/netfilter/ipvs", release.trim());
    let there = |name: &&str| {
        let file = format!("{folder}/ip_vs_{name}.ko");
        Path::new(&file).exists() || Path::new(&format!("{file}.xz")).exists()
    };
    let expected: Vec<&str> = SCHEDULERS.into_iter().filter(there).collect();
    assert!(
        expected.contains(&"mh") && expected.len() > 10,
        "{expected:?}"
    );
    assert_eq!(ipvs.schedulers().unwrap(), expected);
    for unknown in ["nonesuch", "", "none", "a-name-of-more-than-fifteen"] {
        assert!(!ipvs.has_scheduler(unknown).unwrap(), "{unknown}");
    }
    assert_eq!(
        ipvs.virtual_servers().unwrap(),
        [],
        "nothing is left of asking"
    );
}

fn timeouts_are_those_of_ipvsadm() {
    let mut ipvs = open();
    let shown = || program("ipvsadm", &["-L", "--timeout"], "");
    assert_eq!(shown().trim(), "Timeout (tcp tcpfin udp): 900 120 300");
    let changed = Timeouts {
        tcp: 800,
        tcp_fin: 0,
        udp: 200,
    };
    ipvs.set_timeouts(changed).unwrap();
    assert_eq!(shown().trim(), "Timeout (tcp tcpfin udp): 800 120 200");
}

/// More than one datagram of changes, more than one of answers.
fn thousands_are_listed() {
    let mut ipvs = open();
    let mut changes = Vec::new();
    let mut expected = Vec::new();
    for number in 0..600_u16 {
        let ip = IpAddr::from([10, 96, (number / 250) as u8, (number % 250) as u8]);
        let server = round_robin(at(&ip.to_string(), TCP, 80));
        let reals = [real("10.244.0.2:8080", 1), real("10.244.0.3:8080", 1)];
        changes.push(Change::AddVirtual(server.clone()));
        changes.extend(reals.map(|it| Change::AddReal(server.key, it)));
        expected.push((server, reals.to_vec()));
    }
    apply(&mut ipvs, &changes);
    assert_eq!(listed(&mut ipvs), expected);
    let again = ipvs.apply(&changes).unwrap();
    assert_eq!(again.len(), changes.len(), "all are there already");
    let gone = expected.iter().map(|(it, _)| Change::DeleteVirtual(it.key));
    apply(&mut ipvs, &gone.collect::<Vec<_>>());
    assert_eq!(ipvs.virtual_servers().unwrap(), []);
}

fn addresses_of_a_dummy_are_local() {
    let name = "kube-ipvs0";
    assert!(create_dummy(name));
    assert!(!create_dummy(name));
    let made = link(name).unwrap().unwrap();
    assert_eq!(made.kind.as_deref(), Some("dummy"));
    let ips: Vec<IpAddr> = ["10.96.0.1", "10.96.0.10", "fd00:10:96::a"]
        .map(|it| it.parse().unwrap())
        .to_vec();
    let add: Vec<AddressChange> = ips.iter().copied().map(AddressChange::Add).collect();
    let mut addresses = Addresses::open().unwrap();
    let applied = addresses.apply(made.index, &add).unwrap();
    assert!(applied.refused.is_empty(), "{applied:?}");
    let mut found = addresses_of(made.index);
    found.sort();
    assert_eq!(found.iter().map(|it| it.ip).collect::<Vec<_>>(), ips);
    assert!(found.iter().all(|it| it.is_usable), "{found:?}");
    let shown = program("ip", &["-d", "addr", "show", name], "");
    for wanted in [
        "<BROADCAST,NOARP>",
        "state DOWN",
        "dummy",
        "inet 10.96.0.10/32 scope global kube-ipvs0",
        "inet6 fd00:10:96::a/128 scope global nodad",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    for ip in ["10.96.0.10", "fd00:10:96::a"] {
        let route = program("ip", &["route", "get", ip], "");
        assert!(route.starts_with(&format!("local {ip} ")), "{route}");
    }
    let delete = AddressChange::Delete(ips[0]);
    let applied = addresses.apply(made.index, &[delete]).unwrap();
    assert!(applied.refused.is_empty(), "{applied:?}");
    assert_eq!(addresses_of(made.index).len(), 2);
    assert!(Connection::open().unwrap().delete_link(name).unwrap());
    assert_eq!(link(name).unwrap(), None);
}

fn connections_are_counted() {
    let mut ipvs = open();
    create_dummy("kube-ipvs0");
    let dummy = link("kube-ipvs0").unwrap().unwrap();
    let mut addresses = Addresses::open().unwrap();
    let add = AddressChange::Add("10.96.0.10".parse().unwrap());
    let applied = addresses.apply(dummy.index, &[add]).unwrap();
    assert!(applied.refused.is_empty(), "{applied:?}");
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = endpoint.local_addr().unwrap();
    let key = at("10.96.0.10", TCP, 80);
    let real = real(&address.to_string(), 1);
    apply(
        &mut ipvs,
        &[
            Change::AddVirtual(round_robin(key)),
            Change::AddReal(key, real),
        ],
    );
    let mut client = TcpStream::connect("10.96.0.10:80").unwrap();
    let (mut server, _) = endpoint.accept().unwrap();
    client.write_all(b"hello").unwrap();
    let mut received = [0; 5];
    server.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"hello");
    let state = ipvs.real_servers(&key).unwrap()[0];
    assert_eq!((state.active, state.inactive), (1, 0));
    // The kernel updates its counters every two seconds, for all who read them.
    let mut seen = String::new();
    let agreed = eventually(DEADLINE, || {
        let connections = ipvs.real_servers(&key).unwrap()[0].connections;
        let shown = program("ipvsadm", &["-L", "-n", "--stats", "--exact"], "");
        let line = shown
            .lines()
            .find(|it| it.contains("->") && it.contains("127.0.0.1"));
        let mut words = line.unwrap().split_whitespace();
        let by_ipvsadm = words.nth(2).and_then(|it| it.parse().ok());
        seen = format!("{connections}, {shown}");
        (connections == 1 && by_ipvsadm == Some(connections)).then_some(())
    });
    assert!(agreed.is_some(), "{seen}");
}

fn create_dummy(name: &str) -> bool {
    let mut connection = Connection::open().unwrap();
    let made = connection.ensure(name, &Kind::Dummy, &Settings::default());
    made.unwrap()
}

/// Every address of one interface.
fn addresses_of(interface: u32) -> Vec<Address> {
    let mut all = addresses().unwrap();
    all.retain(|it| it.interface == interface);
    all
}
