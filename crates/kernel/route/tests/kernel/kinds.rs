//! Interfaces of every kind, as `ip` shows them, and packets through them.

use std::io::{Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use sluice_route::{
    Address, Bridge, Connection, Forward, Hop, Kind, Mac, MacvlanMode, Namespace, Neighbour, Port,
    Route, Settings, Tunnel, Vxlan, open_tun,
};

use crate::netns::{self, program};

const UP: Settings<'static> = Settings {
    index: None,
    mac: None,
    mtu: None,
    master: None,
    up: Some(true),
    namespace: None,
};
const DEADLINE: Duration = Duration::from_secs(20);
/// Long enough for a packet that passes, on a busy machine.
const SILENCE: Duration = Duration::from_millis(300);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[track_caller]
fn shows(namespace: &Namespace, command: &str, wanted: &[&str]) {
    let words: Vec<&str> = command.split(' ').collect();
    let shown = namespace
        .run(|| program(words[0], &words[1..], ""))
        .unwrap();
    for it in wanted {
        assert!(shown.contains(it), "{command}: no {it:?} in {shown}");
    }
}

/// A socket of the namespace on port 7.
fn socket(namespace: &Namespace, at: &str) -> UdpSocket {
    let at = ip(at);
    let socket = namespace.run(|| UdpSocket::bind((at, 7)).unwrap()).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    socket
}

/// Whether a packet arrives within the deadline. It is sent again and again: carriers need a moment.
fn passes(from: &UdpSocket, to: &UdpSocket, deadline: Duration) -> bool {
    let end = Instant::now() + deadline;
    let target = to.local_addr().unwrap();
    let mut buffer = [0; 8];
    loop {
        // The route is missing while the carrier is.
        let _ = from.send_to(b"hello", target);
        if let Ok((5, source)) = to.recv_from(&mut buffer) {
            assert_eq!(source, from.local_addr().unwrap());
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
    }
}

/// Two namespaces with a cable, `eth0` at both ends.
fn cable(addresses: [&str; 2]) -> [Namespace; 2] {
    let [left, right] = [(); 2].map(|()| Namespace::create().unwrap());
    let peer = Settings {
        namespace: Some(&right),
        ..Settings::default()
    };
    let kind = Kind::Veth {
        peer: "eth0",
        settings: peer,
    };
    let first = Settings {
        index: Some(100),
        ..UP
    };
    let mut connection = Connection::open_in(&left).unwrap();
    connection.create("eth0", &kind, &first).unwrap();
    for (namespace, address) in [&left, &right].into_iter().zip(addresses) {
        let mut connection = Connection::open_in(namespace).unwrap();
        connection.set("eth0", &UP).unwrap();
        let index = connection.index("eth0").unwrap();
        connection.add(&Address::new(index, net(address))).unwrap();
    }
    [left, right]
}

#[test]
fn a_veth_is_made_with_its_peer_in_place() {
    netns::run(|| {
        let other = Namespace::create().unwrap();
        let here = Namespace::current().unwrap();
        let peer = Settings {
            mac: Some(Mac([2, 0, 0, 0, 0, 9])),
            mtu: Some(1400),
            namespace: Some(&other),
            ..Settings::default()
        };
        let kind = Kind::Veth {
            peer: "eth0",
            settings: peer,
        };
        let settings = Settings {
            index: Some(4711),
            mac: Some(Mac([0xee; 6])),
            mtu: Some(1450),
            ..UP
        };
        let mut connection = Connection::open().unwrap();
        connection.create("pod7", &kind, &settings).unwrap();
        let wanted = ["4711: pod7@", "mtu 1450", "ee:ee:ee:ee:ee:ee", "veth", "UP"];
        shows(&here, "ip -d link show dev pod7", &wanted);
        let wanted = [": eth0@", "mtu 1400", "02:00:00:00:00:09", "veth"];
        shows(&other, "ip -d link show dev eth0", &wanted);
        let made = connection.link("pod7").unwrap().unwrap();
        assert_eq!((made.index, made.mtu, made.is_up), (4711, 1450, true));
        assert_eq!(made.mac, Some(Mac([0xee; 6])));
        assert!(made.parent_namespace.is_some());

        let taken = connection.create("pod7", &kind, &settings).unwrap_err();
        assert!(taken.already_exists(), "{taken}");
        let words = taken.to_string();
        assert!(
            words.starts_with("create veth interface pod7: File exists"),
            "{words}"
        );
        assert!(!connection.ensure("pod7", &kind, &settings).unwrap());
        // The peer's name is taken too, and the kernel undoes the first end.
        let taken = connection.create("pod8", &kind, &UP).unwrap_err();
        assert!(taken.already_exists(), "{taken}");
        assert_eq!(connection.link("pod8").unwrap(), None);

        assert!(connection.delete_link("pod7").unwrap());
        let mut there = Connection::open_in(&other).unwrap();
        assert_eq!(there.link("eth0").unwrap(), None, "both ends go");
    });
}

#[test]
fn packets_pass_a_veth() {
    netns::run(|| {
        let [left, right] = cable(["10.0.0.1/24", "10.0.0.2/24"]);
        let (from, to) = (socket(&left, "10.0.0.1"), socket(&right, "10.0.0.2"));
        assert!(passes(&from, &to, DEADLINE));
    });
}

#[test]
fn links_change_their_name_master_and_namespace() {
    netns::run(|| {
        let other = Namespace::create().unwrap();
        let here = Namespace::current().unwrap();
        let mut connection = Connection::open().unwrap();
        connection
            .create("br0", &Kind::Bridge(Bridge::default()), &UP)
            .unwrap();
        let bridge = connection.index("br0").unwrap();
        let kind = Kind::Veth {
            peer: "y",
            settings: Settings::default(),
        };
        connection.create("x", &kind, &Settings::default()).unwrap();
        let changed = Settings {
            mtu: Some(1300),
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            master: Some(bridge),
            ..UP
        };
        connection.set("x", &changed).unwrap();
        let wanted = ["master br0", "mtu 1300", "02:00:00:00:00:01", ",UP"];
        shows(&here, "ip link show dev x", &wanted);
        assert_eq!(connection.link("x").unwrap().unwrap().master, Some(bridge));

        let port = Port {
            hairpin: Some(true),
            isolated: Some(true),
            learning: Some(false),
            neighbour_suppression: Some(true),
        };
        connection.set_port("x", &port).unwrap();
        assert_eq!(connection.link("x").unwrap().unwrap().port, Some(port));
        let wanted = [
            "hairpin on",
            "isolated on",
            "learning off",
            "neigh_suppress on",
        ];
        shows(&here, "bridge -d link show dev x", &wanted);
        let refused = connection.set_port("y", &port).unwrap_err().to_string();
        assert!(refused.starts_with("set port interface y: "), "{refused}");

        let released = Settings {
            master: Some(0),
            up: Some(false),
            ..Settings::default()
        };
        connection.set("x", &released).unwrap();
        let link = connection.link("x").unwrap().unwrap();
        assert_eq!((link.master, link.port, link.is_up), (None, None, false));
        connection.rename("x", "z").unwrap();
        let taken = connection.rename("z", "y").unwrap_err();
        assert!(taken.already_exists(), "{taken}");
        let moved = Settings {
            namespace: Some(&other),
            ..Settings::default()
        };
        connection.set("z", &moved).unwrap();
        assert_eq!(connection.link("z").unwrap(), None);
        shows(&other, "ip link show dev z", &["z@"]);

        let gone = connection.set("z", &UP).unwrap_err();
        assert!(gone.is_missing() && !gone.already_exists(), "{gone}");
        assert_eq!(gone.to_string(), "find interface z: No such device");
        assert!(!connection.delete_link("z").unwrap());
        let refused = connection.delete_link("lo").unwrap_err().to_string();
        assert!(refused.starts_with("delete interface lo: "), "{refused}");
        let no_mtu = Settings {
            mtu: Some(10),
            ..Settings::default()
        };
        let refused = connection.set("y", &no_mtu).unwrap_err().to_string();
        let wanted = "set interface y: Invalid argument (mtu less than device minimum)";
        assert_eq!(refused, wanted);
    });
}

/// Three hosts on one bridge. Isolated ports reach the other ports, and not each other.
#[test]
fn packets_pass_a_bridge_but_for_isolated_ports() {
    netns::run(|| {
        let here = Namespace::current().unwrap();
        let mut connection = Connection::open().unwrap();
        let bridge = Bridge {
            forward_delay: Duration::from_secs(4),
            ..Bridge::default()
        };
        let mac = Settings {
            mac: Some(Mac([0xee; 6])),
            ..UP
        };
        connection
            .create("br0", &Kind::Bridge(bridge), &mac)
            .unwrap();
        let wanted = [
            "bridge forward_delay 400 ",
            "stp_state 0",
            "mcast_snooping 0",
        ];
        shows(&here, "ip -d link show dev br0", &wanted);
        let master = connection.index("br0").unwrap();
        let hosts = [1, 2, 3].map(|number| {
            let host = Namespace::create().unwrap();
            let name = format!("port{number}");
            let kind = Kind::Veth {
                peer: "eth0",
                settings: Settings {
                    namespace: Some(&host),
                    ..Settings::default()
                },
            };
            let port = Settings {
                index: Some(100 + number),
                master: Some(master),
                ..UP
            };
            connection.create(&name, &kind, &port).unwrap();
            let mut inside = Connection::open_in(&host).unwrap();
            inside.set("eth0", &UP).unwrap();
            let index = inside.index("eth0").unwrap();
            let address = format!("10.0.0.{number}");
            inside
                .add(&Address::new(index, net(&format!("{address}/24"))))
                .unwrap();
            socket(&host, &address)
        });
        assert!(passes(&hosts[0], &hosts[1], DEADLINE));
        let isolated = Port {
            isolated: Some(true),
            ..Port::default()
        };
        for name in ["port1", "port2"] {
            connection.set_port(name, &isolated).unwrap();
        }
        assert!(!passes(&hosts[0], &hosts[1], SILENCE));
        assert!(passes(&hosts[0], &hosts[2], DEADLINE));
        // The entries that the bridge learned, and one entry of ours.
        let static_mac = Mac([2, 0, 0, 0, 0, 77]);
        let entry = Forward::through(connection.index("port3").unwrap(), static_mac);
        connection.add(&entry).unwrap();
        let all: Vec<Forward> = connection.list().unwrap();
        let ours = all
            .iter()
            .find(|it| it.mac == static_mac && it.vlan.is_none());
        assert_eq!(ours, Some(&entry), "{all:?}");
        let wanted = ["02:00:00:00:00:4d dev port3 ", "static"];
        shows(&here, "bridge fdb show br br0", &wanted);
        assert!(connection.add(&entry).unwrap_err().already_exists());
        connection.replace(&entry).unwrap();
        assert!(connection.delete(&entry).unwrap());
        assert!(!connection.delete(&entry).unwrap());
    });
}

/// A pod network as Flannel makes it: the route through the tunnel's address, a neighbour and an FDB entry.
#[test]
fn packets_pass_a_vxlan() {
    netns::run(|| {
        let ends = ["192.168.0.1", "192.168.0.2"];
        let hosts = cable(["192.168.0.1/24", "192.168.0.2/24"]);
        let macs = [1, 2].map(|it| Mac([0x0e, 0, 0, 0, 0, it]));
        let mut sockets = Vec::new();
        for (this, that) in [(0, 1), (1, 0)] {
            let mut connection = Connection::open_in(&hosts[this]).unwrap();
            let tunnel = Vxlan {
                local: Some(ip(ends[this])),
                underlay: Some(connection.index("eth0").unwrap()),
                ..Vxlan::new(Some(7), 8472)
            };
            let settings = Settings {
                mac: Some(macs[this]),
                mtu: Some(1450),
                ..UP
            };
            connection
                .create("flannel.7", &Kind::Vxlan(tunnel), &settings)
                .unwrap();
            let wanted = [
                "vxlan id 7 ",
                &format!("local {}", ends[this]),
                "dev eth0",
                "dstport 8472",
                "nolearning",
                "mtu 1450",
            ];
            shows(&hosts[this], "ip -d link show dev flannel.7", &wanted);
            let link = connection.link("flannel.7").unwrap().unwrap();
            assert_eq!(link.vxlan, Some(tunnel));
            let address = format!("10.244.{this}.0");
            connection
                .add(&Address::new(link.index, ip(&address)))
                .unwrap();

            let gateway = ip(&format!("10.244.{that}.0"));
            let hop = Hop {
                onlink: true,
                ..Hop::via(link.index, gateway)
            };
            let far = format!("10.244.{that}.0/24");
            connection.add(&Route::new(net(&far), hop)).unwrap();
            let neighbour = Neighbour::permanent(link.index, gateway, macs[that]);
            connection.add(&neighbour).unwrap();
            let entry = Forward::to(link.index, macs[that], ip(ends[that]));
            connection.add(&entry).unwrap();
            let all: Vec<Forward> = connection.list().unwrap();
            assert!(all.contains(&entry), "{all:?}");
            let wanted = [&*format!(
                "{} dst {} self permanent",
                macs[that], ends[that]
            )];
            shows(&hosts[this], "bridge fdb show dev flannel.7", &wanted);
            sockets.push(socket(&hosts[this], &address));
        }
        assert!(passes(&sockets[0], &sockets[1], DEADLINE));
        assert!(passes(&sockets[1], &sockets[0], DEADLINE));

        // Every unknown address goes to several machines.
        let mut connection = Connection::open_in(&hosts[0]).unwrap();
        let index = connection.index("flannel.7").unwrap();
        for end in ["192.168.0.8", "192.168.0.9"] {
            let entry = Forward {
                port: Some(4789),
                id: Some(9),
                ..Forward::to(index, Mac::default(), ip(end))
            };
            connection.append(&entry).unwrap();
            assert!(connection.list::<Forward>().unwrap().contains(&entry));
        }
        let wanted = ["00:00:00:00:00:00 dst 192.168.0.9 port 4789 vni 9"];
        shows(&hosts[0], "bridge fdb show dev flannel.7", &wanted);
    });
}

/// One tunnel for all hosts: the route of each packet names its remote end.
#[test]
fn packets_pass_an_external_vxlan() {
    netns::run(|| {
        let ends = ["192.168.0.1", "192.168.0.2"];
        let hosts = cable(["192.168.0.1/24", "192.168.0.2/24"]);
        let mut sockets = Vec::new();
        for (this, that) in [(0_u8, 1_u8), (1, 0)] {
            let host = &hosts[usize::from(this)];
            let mut connection = Connection::open_in(host).unwrap();
            let tunnel = Vxlan {
                group_policy: true,
                zero_checksum: true,
                ..Vxlan::new(None, 4789)
            };
            let settings = Settings {
                mac: Some(Mac([0x0e, 0, 0, 0, 0, this])),
                ..UP
            };
            connection
                .create("vx0", &Kind::Vxlan(tunnel), &settings)
                .unwrap();
            shows(
                host,
                "ip -d link show dev vx0",
                &["external", "gbp", "udp6zerocsumtx", "dstport 4789"],
            );
            let link = connection.link("vx0").unwrap().unwrap();
            assert_eq!(link.vxlan, Some(tunnel));
            let address = format!("10.244.{this}.1");
            connection
                .add(&Address::new(link.index, ip(&address)))
                .unwrap();
            let gateway = ip(&format!("10.244.{that}.1"));
            let mac = Mac([0x0e, 0, 0, 0, 0, that]);
            connection
                .add(&Neighbour::permanent(link.index, gateway, mac))
                .unwrap();
            let hop = Hop {
                tunnel: Some(Tunnel {
                    id: 5,
                    to: ip(ends[usize::from(that)]),
                }),
                ..Hop::on(link.index)
            };
            let route = Route::new(gateway, hop);
            connection.add(&route).unwrap();
            assert!(connection.list::<Route>().unwrap().contains(&route));
            let wanted = [&*format!(
                "encap ip id 5 src 0.0.0.0 dst {}",
                ends[usize::from(that)]
            )];
            shows(host, "ip route", &wanted);
            sockets.push(socket(host, &address));
        }
        assert!(passes(&sockets[0], &sockets[1], DEADLINE));
    });
}

#[test]
fn a_macvlan_is_beside_its_parent() {
    netns::run(|| {
        let [left, right] = cable(["10.0.0.1/24", "10.0.0.2/24"]);
        let inside = Namespace::create().unwrap();
        let mut connection = Connection::open_in(&left).unwrap();
        let kind = Kind::Macvlan {
            parent: connection.index("eth0").unwrap(),
            mode: MacvlanMode::Bridge,
        };
        let settings = Settings {
            namespace: Some(&inside),
            ..UP
        };
        connection.create("mv0", &kind, &settings).unwrap();
        shows(&inside, "ip -d link show dev mv0", &["macvlan mode bridge"]);
        let mut there = Connection::open_in(&inside).unwrap();
        let index = there.index("mv0").unwrap();
        there.add(&Address::new(index, net("10.0.0.3/24"))).unwrap();
        let (from, to) = (socket(&inside, "10.0.0.3"), socket(&right, "10.0.0.2"));
        assert!(passes(&from, &to, DEADLINE));
    });
}

#[test]
fn packets_pass_a_tun() {
    netns::run(|| {
        let here = Namespace::current().unwrap();
        let mut file = open_tun("tun0").unwrap();
        let mut connection = Connection::open().unwrap();
        connection.set("tun0", &UP).unwrap();
        let index = connection.index("tun0").unwrap();
        connection
            .add(&Address::new(index, net("10.9.0.1/24")))
            .unwrap();
        shows(&here, "ip -d link show dev tun0", &["tun type tun"]);
        let socket = socket(&here, "10.9.0.1");
        socket.send_to(b"out", "10.9.0.2:7").unwrap();
        let mut packet = [0; 1500];
        // The kernel's own packets of IPv6 come too.
        let length = loop {
            let length = file.read(&mut packet).unwrap();
            if packet[0] == 0x45 && packet[9] == 17 {
                break length;
            }
        };
        assert_eq!(&packet[length - 3..length], b"out");
        // Back with the ends exchanged: the checksums are the same.
        for (a, b) in [(12, 16), (13, 17), (14, 18), (15, 19)] {
            packet.swap(a, b);
        }
        file.write_all(&packet[..length]).unwrap();
        let mut buffer = [0; 8];
        let (length, source) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..length], source),
            (&b"out"[..], "10.9.0.2:7".parse().unwrap())
        );
        assert!(open_tun("tun0").is_err(), "it has a program");
        drop(file);
        assert_eq!(connection.link("tun0").unwrap(), None);
        let long = open_tun("a-name-of-sixteen").unwrap_err().to_string();
        assert!(
            long.starts_with("open tun interface a-name-of-sixteen: "),
            "{long}"
        );
    });
}

/// Kernels of test machines often lack these kinds.
#[test]
fn other_kinds_are_made_or_their_module_is_named() {
    netns::run(|| {
        let here = Namespace::current().unwrap();
        let mut connection = Connection::open().unwrap();
        let ipip = Kind::Ipip {
            local: Some([10, 0, 0, 1].into()),
            remote: Some([10, 0, 0, 2].into()),
        };
        let external = Kind::Ipip {
            local: None,
            remote: None,
        };
        for (name, kind, module, wanted) in [
            ("d0", Kind::Dummy, "dummy", "dummy"),
            ("i0", ipip, "ipip", "ipip remote 10.0.0.2 local 10.0.0.1"),
            ("i1", external, "ipip", "ipip external"),
            ("w0", Kind::Wireguard, "wireguard", "wireguard"),
        ] {
            match connection.create(name, &kind, &UP) {
                Ok(()) => shows(&here, &format!("ip -d link show dev {name}"), &[wanted]),
                Err(error) => assert_eq!(
                    error.to_string(),
                    format!(
                        "create {module} interface {name}: Operation not supported on transport endpoint (the kernel has no module {module})"
                    )
                ),
            }
        }
    });
}
