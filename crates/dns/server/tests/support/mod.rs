//! A server on loopback, and clients.
#![expect(unreachable_pub, reason = "the fuzz target has a part of it")]

pub mod cluster;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use sluice_corefile::Corefile;
use sluice_dns::{Options, Running, Server};
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects};

/// Longest time that any test waits for something.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Reads a Corefile; keys without a port get any free port.
#[track_caller]
pub fn corefile(text: &str) -> Corefile {
    cluster::corefile(text, 0)
}

/// kubeadm's plugins for the cluster's zone, on loopback.
pub const CLUSTER: &str = ". {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa {
        pods insecure
        fallthrough in-addr.arpa
        ttl 30
    }
    loadbalance
}";

/// `one` with ClusterIP 10.96.0.1, `many` headless with 10 endpoints, `big` headless with 200.
pub fn events() -> Vec<Event> {
    let pods = |count: u8| -> Vec<IpAddr> { (1..=count).map(|it| [10, 1, 0, it].into()).collect() };
    vec![
        cluster::namespace("default"),
        cluster::service("default", "one", &[[10, 96, 0, 1].into()]),
        cluster::service("default", "many", &[]),
        cluster::endpoints("default", "many", &pods(10)),
        cluster::service("default", "big", &[]),
        cluster::endpoints("default", "big", &pods(200)),
    ]
}

pub fn objects(events: &[Event]) -> Arc<RwLock<Objects>> {
    let mut objects = Objects::new(NamespaceRule::Declared);
    for event in events.iter().chain([&Event::SYNCED]) {
        objects.absorb(event, 1);
    }
    Arc::new(RwLock::new(objects))
}

/// A server and its objects.
pub struct Served {
    pub running: Running,
    pub objects: Arc<RwLock<Objects>>,
}

impl Served {
    pub fn new(text: &str) -> Self {
        Self::with(text, Options::default())
    }

    pub fn with(text: &str, options: Options) -> Self {
        let objects = objects(&events());
        let start = |options| Server::start(&corefile(text), objects.clone(), options);
        // Any free port of UDP may be taken for TCP.
        let running = start(options.clone()).or_else(|_| start(options));
        Self {
            running: running.unwrap_or_else(|it| panic!("{it}")),
            objects,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.running.addresses()[0]
    }

    pub fn absorb(&self, event: &Event) {
        self.objects.write().unwrap().absorb(event, 2);
    }

    pub fn ask(&self, name: &str, record_type: RecordType) -> Message {
        Client::new(self.address()).ask(&query(name, record_type))
    }

    /// The value of a metric, by the beginning of its line.
    pub fn metric(&self, line: &str) -> Option<f64> {
        let families = self.running.registry().gather();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&families)
            .unwrap();
        let found = text.lines().find_map(|it| it.strip_prefix(line));
        found.map(|it| it.trim().parse().unwrap())
    }
}

pub fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// A query with RD and without EDNS0.
pub fn query(text: &str, record_type: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(text), record_type));
    message
}

/// The query with this payload size.
pub fn with_edns(mut query: Message, payload: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload);
    query.set_edns(edns);
    query
}

/// The IPv4 addresses of the answer, in its order.
pub fn addresses(message: &Message) -> Vec<[u8; 4]> {
    let address = |it: &hickory_proto::rr::Record| match &it.data {
        RData::A(it) => Some(it.0.octets()),
        _ => None,
    };
    message.answers.iter().filter_map(address).collect()
}

/// A UDP client.
pub struct Client {
    socket: UdpSocket,
}

impl Client {
    pub fn new(server: SocketAddr) -> Self {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => "[::]:0".parse().unwrap(),
        };
        let socket = UdpSocket::bind(any).unwrap();
        // Connected: an answer from another address than the asked one is not received.
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    pub fn send(&self, bytes: &[u8]) {
        self.socket.send(bytes).unwrap();
    }

    pub fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 65535];
        let length = self.socket.recv(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    pub fn ask(&self, query: &Message) -> Message {
        self.send(&query.to_vec().unwrap());
        let answer = Message::from_vec(&self.receive()).unwrap();
        assert_eq!(answer.id, query.id);
        answer
    }
}

/// A TCP client.
pub struct TcpClient {
    pub stream: TcpStream,
}

impl TcpClient {
    pub fn new(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub fn send(&mut self, query: &Message) {
        let bytes = query.to_vec().unwrap();
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        self.stream
            .write_all(&[&length[..], &bytes].concat())
            .unwrap();
    }

    /// The next message; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Message> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; u16::from_be_bytes(length).into()];
        self.stream.read_exact(&mut bytes).unwrap();
        Some(Message::from_vec(&bytes).unwrap())
    }

    pub fn ask(&mut self, query: &Message) -> Message {
        self.send(query);
        self.receive().expect("an answer")
    }
}

/// Waits until it is true.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = sluice_lab::eventually(PATIENCE, || is_so().then_some(()));
    so.expect(what);
}

/// GET over HTTP: status and body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, body.to_owned())
}
