//! Datagrams.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use sluice_bpf_abi::Counter;
use sluice_lab::{Cluster, Netns, Outcome, Probe, Protocol, Server, require_netns};

use crate::direct::world::{
    Agent, LONGEST, PATIENT, POD_PORT, agents, cluster, forbid_replies, headers, is_of_client,
    serve, targets,
};

/// How many datagrams are sent at once.
const DATAGRAMS: usize = 5;

/// A client that stays with its port.
pub(crate) struct Flow(UdpSocket);

impl Flow {
    pub(crate) fn open(netns: &Netns, target: SocketAddr) -> Self {
        let any = match target {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = netns.run(|| UdpSocket::bind(any)).unwrap();
        socket.connect(target).unwrap();
        socket.set_read_timeout(Some(PATIENT)).unwrap();
        Self(socket)
    }

    /// The client's port.
    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Any answer, which has to come from the frontend.
    pub(crate) fn ask(&mut self) -> Result<(), Errno> {
        self.0.send(b"who?").map_err(|it| errno(&it))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<(), Errno> {
        self.0
            .recv(&mut [0; 512])
            .map(drop)
            .map_err(|it| errno(&it))
    }

    /// Some datagrams of this length, in one call.
    fn send_at_once(&mut self, length: usize, byte: u8) {
        let each = length.try_into().unwrap();
        setsockopt(&self.0, sockopt::UdpGsoSegment, &each).unwrap();
        self.0.send(&vec![byte; DATAGRAMS * length]).unwrap();
    }

    /// Sends a datagram, which comes back.
    fn echo(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        self.0.send(datagram).map_err(|it| errno(&it))?;
        self.comes_back(datagram)
    }

    /// A datagram that was sent comes back.
    pub(crate) fn comes_back(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        let mut answer = vec![0; 65_536];
        let length = self.0.recv(&mut answer).map_err(|it| errno(&it))?;
        assert!(answer[..length] == *datagram, "{length} bytes came back");
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap())
}

/// Sends datagrams back until none has come for a while.
pub(crate) fn echo(netns: &Netns) {
    let any = (Ipv6Addr::UNSPECIFIED, POD_PORT);
    let socket = netns.run(|| UdpSocket::bind(any)).unwrap();
    socket.set_read_timeout(Some(2 * PATIENT)).unwrap();
    thread::spawn(move || {
        let mut datagram = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            socket.send_to(&datagram[..length], from).unwrap();
        }
    });
}

/// Both agents, with an endpoint on the node that clients do not dial.
fn served(cluster: &Cluster) -> [Agent<'_>; 2] {
    let mut agents = agents(cluster);
    serve(cluster, &mut agents, "", &[("there", "node-b")]);
    forbid_replies(cluster);
    agents
}

/// Bytes of which none is like its neighbours.
pub(crate) fn datagram(length: usize) -> Vec<u8> {
    (0..length).map(|it| (it % 251) as u8).collect()
}

#[test]
fn replies_do_not_pass_the_first_node() {
    require_netns!();
    let cluster = cluster();
    let there = cluster.pod("there").netns();
    let _there = Server::start(there, "there", POD_PORT, Protocol::Udp).unwrap();
    let mut agents = served(&cluster);
    for target in targets() {
        // The first datagram of a flow, and further ones.
        for _ in 0..3 {
            let probe = Probe::udp(target).source_port(4_711).timeout(PATIENT);
            let outcome = probe.from(cluster.client("cli").netns());
            assert_eq!(outcome.name(), Some("there"), "{target}: {outcome}");
            assert!(is_of_client(&cluster, outcome.source()), "{outcome}");
        }
    }
    assert_eq!(agents[0].counted(Counter::Tunnelled), [3, 3]);
}

/// The endpoint's node says so to the client itself, in the frontend's name.
#[test]
fn a_closed_port_is_reported() {
    require_netns!();
    let cluster = cluster();
    let _agents = served(&cluster);
    for target in targets() {
        let probe = Probe::udp(target).timeout(PATIENT);
        let outcome = probe.from(cluster.client("cli").netns());
        assert_eq!(outcome, Outcome::Refused, "{target}");
    }
}

/// The client sends large datagrams in fragments that fill the network, and so does the endpoint. Routers may cut
/// those of IPv4 in pieces, so none is lost; the client is told to send shorter ones of IPv6.
#[test]
fn fragments_reach_the_endpoint() {
    require_netns!();
    let cluster = cluster();
    echo(cluster.pod("there").netns());
    let mut agents = served(&cluster);
    let [mut four, mut six] = targets().map(|it| Flow::open(cluster.client("cli").netns(), it));
    assert_eq!(six.echo(&datagram(3_000)), Err(Errno::EMSGSIZE));
    for length in [1_480, 3_000, 9_001, 60_000] {
        let datagram = datagram(length);
        assert_eq!(four.echo(&datagram), Ok(()), "{length} bytes of IPv4");
        assert_eq!(six.echo(&datagram), Ok(()), "{length} bytes of IPv6");
    }
    let [four, six] = agents[0].counted(Counter::TooLongForTunnel);
    assert!(four == 0 && six > 0, "{four} of IPv4, {six} of IPv6");
}

/// A datagram that fits into one packet of the network, and not into the tunnel: the client is told, and the next one
/// arrives.
#[test]
fn a_client_learns_the_length_of_datagrams() {
    require_netns!();
    let cluster = cluster();
    echo(cluster.pod("there").netns());
    let mut agents = served(&cluster);
    for target in targets() {
        let mut flow = Flow::open(cluster.client("cli").netns(), target);
        let datagram = datagram(1_450);
        assert_eq!(flow.echo(&datagram), Err(Errno::EMSGSIZE), "{target}");
        assert_eq!(flow.echo(&datagram), Ok(()), "{target}");
        // What just fits: the client's packets are as long as the tunnel's.
        let fits = LONGEST - headers(target);
        assert_eq!(flow.echo(&datagram[..fits]), Ok(()), "{target}");
    }
    assert_eq!(agents[0].counted(Counter::TooLongForTunnel), [1, 1]);
}

/// Clients such as those of QUIC give the kernel many datagrams of one length at once. Each has to fit into the tunnel,
/// not all together, whatever they contain.
#[test]
fn datagrams_that_are_sent_at_once_arrive() {
    require_netns!();
    let cluster = cluster();
    let there = cluster.pod("there").netns();
    let _there = Server::start(there, "there", POD_PORT, Protocol::Udp).unwrap();
    let mut agents = served(&cluster);
    for target in targets() {
        let mut flow = Flow::open(cluster.client("cli").netns(), target);
        let fits = LONGEST - headers(target);
        for byte in [0, 0xff] {
            flow.send_at_once(fits, byte);
            for number in 0..DATAGRAMS {
                assert_eq!(flow.answer(), Ok(()), "{target}, {byte}, {number}");
            }
        }
        flow.send_at_once(fits + 1, 0);
        // Routers may cut those of IPv4 in pieces.
        let expected = match target {
            SocketAddr::V4(_) => Ok(()),
            SocketAddr::V6(_) => Err(Errno::EMSGSIZE),
        };
        assert_eq!(flow.answer(), expected, "{target}");
    }
    assert_eq!(agents[0].counted(Counter::TooLongForTunnel), [0, 1]);
}
