//! Direct server return: what arrives through the tunnel without being a node's, and what is for the tunnel.

use std::net::{IpAddr, SocketAddr};

use sluice_bpf::Prefix;
use sluice_bpf_abi::{
    Endpoint, EndpointKey, SOURCE_PREFIX, SourceKey, TUNNEL_PEERS, interface_flags, node_flags,
};

use crate::test_run::harness::{Bench, DROP, Family, GO_ON, families, run};
use crate::test_run::packets::{
    ETHERNET, Kind, datagram, fragment, of_protocol, packet, with_extensions,
};

const PORT: u16 = 8476;
/// What the tunnel's packets begin with: a network identifier, and the mark in its high byte.
const MARKED: [u8; 8] = [8, 0, 0, 0, 0x51, 0, 80, 0];

/// A node of the cluster in each family, and its address in the list of nodes.
fn open_tunnel(bench: &mut Bench) -> [IpAddr; 2] {
    let nodes = ["192.0.2.3", "2001:db8::3"].map(|it| it.parse::<IpAddr>().expect("an address"));
    for ip in nodes {
        let key = SourceKey {
            list: TUNNEL_PEERS,
            addr: ip.into(),
        };
        let written = bench
            .maps_mut()
            .sources
            .insert(&Prefix::new(SOURCE_PREFIX + 128, key), &1);
        written.expect("the map takes the node");
    }
    bench.change_node(|it| it.flags |= u32::from(PORT) << node_flags::TUNNEL_PORT);
    nodes
}

fn at(family: &Family, port: u16) -> SocketAddr {
    SocketAddr::new(family.endpoint.ip(), port)
}

/// Packets that the programs do not read, or do not look for among the frontends.
fn odd(family: &Family) -> Vec<Vec<u8>> {
    let to = at(family, 7777);
    let datagram = packet(Kind::Datagram, family.client, to);
    let mut odd = vec![packet(Kind::Syn, family.client, to), datagram.clone()];
    if family.client.is_ipv4() {
        // ICMP, IP in IP, GRE, ESP, UDP-Lite.
        odd.extend([1, 4, 47, 50, 136].map(|it| of_protocol(datagram.clone(), it)));
        odd.push(fragment(family.client, to, false));
    } else {
        odd.extend([58, 41, 47, 51, 136].map(|it| of_protocol(datagram.clone(), it)));
        odd.extend([1, 6, 7, 8].map(|it| with_extensions(&datagram, it)));
    }
    odd
}

/// The kernel of this test knows no sender of a packet that comes through the tunnel, as of a packet of no node.
#[test]
fn nothing_but_a_nodes_packet_leaves_the_tunnel() {
    run("tunnel", |bench| {
        for it in families() {
            for sent in odd(&it) {
                assert_eq!(bench.arrive(&sent).action, GO_ON, "{sent:02x?}");
            }
        }
        open_tunnel(bench);
        let ifindex = bench.ifindex();
        bench.change_node(|it| it.tunnel_ifindex = ifindex);
        for it in families() {
            for sent in odd(&it) {
                assert_eq!(bench.arrive(&sent).action, DROP, "{sent:02x?}");
            }
            for kind in [Kind::Syn, Kind::Data, Kind::Datagram] {
                let sent = packet(kind, it.client, it.open);
                assert_eq!(bench.arrive(&sent).action, DROP, "{kind:?}");
            }
        }
    });
}

/// Only a node's datagram may go to the tunnel's port if it says what the tunnel's do.
#[test]
fn only_nodes_send_to_the_tunnel() {
    run("tunnel-port", |bench| {
        let nodes = open_tunnel(bench);
        for (it, node) in families().iter().zip(nodes) {
            let from = |ip| SocketAddr::new(ip, 50_000);
            let pod = it.endpoint.ip();
            // To a node that is known, to one of its other addresses, and to somebody else.
            for to in [node, it.node, it.client.ip()] {
                let action = |from, port, payload: &[u8]| {
                    let sent = datagram(from, SocketAddr::new(to, port), payload);
                    bench.arrive(&sent).action
                };
                let mut other_mark = MARKED;
                other_mark[4] = 0x52;
                let mut no_identifier = MARKED;
                no_identifier[0] = 0;
                assert_eq!(action(from(pod), PORT, &MARKED), DROP, "{to}");
                assert_eq!(action(from(pod), PORT, &MARKED[..7]), DROP, "{to}");
                assert_eq!(action(from(node), PORT, &MARKED), GO_ON, "{to}");
                assert_eq!(action(from(pod), PORT + 1, &MARKED), GO_ON, "{to}");
                assert_eq!(action(from(pod), PORT, &other_mark), GO_ON, "{to}");
                assert_eq!(action(from(pod), PORT, &no_identifier), GO_ON, "{to}");
            }
        }
    });
}

/// Datagrams whose headers the programs do not read whole: the kernel of the other node would.
#[test]
fn nobody_hides_the_port() {
    run("tunnel-hidden", |bench| {
        let [four, six] = families();
        let to = |it: &Family| SocketAddr::new(it.node, PORT);
        let whole = datagram(six.endpoint, to(&six), &MARKED);
        let many = [1, 6, 7, 8].map(|it| with_extensions(&whole, it));
        assert!(many.iter().all(|it| bench.arrive(it).action == GO_ON));
        let _nodes = open_tunnel(bench);
        for sent in many {
            assert_eq!(bench.arrive(&sent).action, DROP, "{sent:02x?}");
        }
        // A first fragment that ends before the contents begin, and what follows.
        let mut first = fragment(four.endpoint, to(&four), true);
        first.truncate(ETHERNET + 20 + 8);
        let later = fragment(four.endpoint, to(&four), false);
        for sent in [first, later] {
            assert_eq!(bench.arrive(&sent).action, DROP, "{sent:02x?}");
        }
    });
}

/// A pod may write a node's address into its packets. They come through the pod's interface.
#[test]
fn a_pod_with_a_nodes_address_is_none() {
    run("tunnel-pod", |bench| {
        let nodes = open_tunnel(bench);
        let ifindex = bench.ifindex();
        let interfaces = &mut bench.maps_mut().interfaces;
        let interface = interfaces.get(&ifindex).expect("the map is read");
        let mut interface = interface.expect("the agent entered it");
        interface.flags |= interface_flags::POD;
        interfaces
            .insert(&ifindex, &interface)
            .expect("the map takes it");
        for (it, node) in families().iter().zip(nodes) {
            let sent = datagram((node, 50_000).into(), (it.node, PORT).into(), &MARKED);
            assert_eq!(bench.arrive(&sent).action, DROP);
        }
    });
}

/// Who may write EndpointSlices makes no node of a client.
#[test]
fn no_service_leads_to_the_tunnel() {
    run("tunnel-service", |bench| {
        let nodes = open_tunnel(bench);
        for (number, (it, node)) in (0..).zip(families().iter().zip(nodes)) {
            let mut point = |port| {
                let endpoint = Endpoint {
                    addr: node.into(),
                    port,
                    ..Endpoint::default()
                };
                let key = EndpointKey {
                    service: number * 100 + 1,
                    slot: 0,
                };
                let written = bench.maps_mut().endpoints.insert(&key, &endpoint);
                written.expect("the map takes the endpoint");
                bench.arrive(&datagram(it.client, it.open, &MARKED)).action
            };
            assert_eq!(point(PORT), DROP);
            assert_eq!(point(PORT + 1), GO_ON);
        }
    });
}
