//! An upstream that does what a test says, on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

/// A query that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) query: Message,
    pub(crate) over: Over,
    pub(crate) from: SocketAddr,
}

/// What the server does with a query. Several are done in turn.
pub(crate) enum Act {
    Send(Vec<u8>),
    /// From another port: only over UDP.
    SendFromElsewhere(Vec<u8>),
    /// Ends the connection: only over TCP.
    Close,
}

pub(crate) type Behaviour = Arc<dyn Fn(&Seen) -> Vec<Act> + Send + Sync>;

/// Which sockets the server has.
#[derive(Clone)]
pub(crate) enum Ports {
    Both,
    UdpOnly,
    TcpOnly,
    Tls(TlsAcceptor),
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: watch::Receiver<Vec<Seen>>,
    tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start<F>(ports: Ports, behaviour: F) -> Self
    where
        F: Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::start_at(any, ports, behaviour).await
    }

    /// At a port that must be free, or at any for port 0.
    pub(crate) async fn start_at<F>(address: SocketAddr, ports: Ports, behaviour: F) -> Self
    where
        F: Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    {
        let (sender, seen) = watch::channel(Vec::new());
        let (udp, tcp) = bind(address).await;
        let address = udp.local_addr().unwrap();
        let serving = Serving {
            behaviour: Arc::new(behaviour),
            seen: Arc::new(sender),
        };
        let mut tasks = JoinSet::new();
        if matches!(ports, Ports::Both | Ports::UdpOnly) {
            tasks.spawn(serving.clone().udp(udp));
        }
        match ports {
            Ports::Both | Ports::TcpOnly => {
                tasks.spawn(serving.tcp(tcp, None));
            }
            Ports::Tls(acceptor) => {
                tasks.spawn(serving.tcp(tcp, Some(acceptor)));
            }
            Ports::UdpOnly => {}
        }
        Self {
            address,
            seen,
            tasks,
        }
    }

    /// Closes all sockets.
    pub(crate) async fn stop(mut self) -> SocketAddr {
        self.tasks.shutdown().await;
        self.address
    }

    /// Closes all sockets and begins anew at the same port.
    pub(crate) async fn restart<F>(self, ports: Ports, behaviour: F) -> Self
    where
        F: Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    {
        let address = self.stop().await;
        Self::start_at(address, ports, behaviour).await
    }

    /// All queries so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Waits for `count` queries in all.
    pub(crate) async fn wait_for(&self, count: usize) {
        let mut seen = self.seen.clone();
        tokio::time::timeout(DEADLINE, seen.wait_for(|it| it.len() >= count))
            .await
            .unwrap_or_else(|_| panic!("{count} queries must come to {}", self.address))
            .unwrap();
    }
}

/// A UDP and a TCP socket with the same port.
async fn bind(address: SocketAddr) -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind(address).await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
    panic!("no port of {address} is free for UDP and TCP");
}

#[derive(Clone)]
struct Serving {
    behaviour: Behaviour,
    seen: Arc<watch::Sender<Vec<Seen>>>,
}

impl Serving {
    fn acts(&self, bytes: &[u8], over: Over, from: SocketAddr) -> Vec<Act> {
        let seen = Seen {
            query: Message::from_vec(bytes).unwrap(),
            over,
            from,
        };
        let acts = (self.behaviour)(&seen);
        self.seen.send_modify(|all| all.push(seen));
        acts
    }

    async fn udp(self, socket: UdpSocket) {
        let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut buffer = [0; 4096];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            for act in self.acts(&buffer[..length], Over::Udp, from) {
                let (socket, bytes) = match &act {
                    Act::Send(bytes) => (&socket, bytes),
                    Act::SendFromElsewhere(bytes) => (&elsewhere, bytes),
                    Act::Close => continue,
                };
                // The client may have gone already.
                socket.send_to(bytes, from).await.ok();
            }
        }
    }

    async fn tcp(self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            let (serving, tls) = (self.clone(), tls.clone());
            connections.spawn(async move {
                match tls {
                    None => serving.stream(stream, from).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serving.stream(stream, from).await;
                        }
                    }
                }
            });
        }
    }

    async fn stream(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, from: SocketAddr) {
        while let Ok(length) = stream.read_u16().await {
            let mut bytes = vec![0; usize::from(length)];
            stream.read_exact(&mut bytes).await.unwrap();
            for act in self.acts(&bytes, Over::Tcp, from) {
                let bytes = match act {
                    Act::Send(bytes) => bytes,
                    Act::SendFromElsewhere(_) => continue,
                    Act::Close => return,
                };
                let length = u16::try_from(bytes.len()).unwrap();
                let framed = [&length.to_be_bytes()[..], &bytes].concat();
                stream.write_all(&framed).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    }
}

/// A response without records.
pub(crate) fn response(query: &Message, code: ResponseCode) -> Message {
    let mut response = Message::response(query.id, OpCode::Query);
    response.metadata.response_code = code;
    response.metadata.recursion_desired = query.recursion_desired;
    response.metadata.recursion_available = true;
    response.add_queries(query.queries.iter().cloned());
    response.edns = query.edns.clone();
    response
}

/// The response with one address, `192.0.2.last`.
pub(crate) fn address(query: &Message, last: u8) -> Message {
    let mut response = response(query, ResponseCode::NoError);
    response.add_answer(record(&query.queries[0].name, last));
    response
}

pub(crate) fn record(name: &Name, last: u8) -> Record {
    let data = RData::A(A(Ipv4Addr::new(192, 0, 2, last)));
    Record::from_rdata(name.clone(), 60, data)
}

pub(crate) fn send(message: &Message) -> Act {
    Act::Send(message.to_vec().unwrap())
}

/// Answers everything with `192.0.2.last`.
pub(crate) fn honest(last: u8) -> impl Fn(&Seen) -> Vec<Act> + Send + Sync {
    move |seen| vec![send(&address(&seen.query, last))]
}

/// Answers everything with `code`.
pub(crate) fn saying(code: ResponseCode) -> impl Fn(&Seen) -> Vec<Act> + Send + Sync {
    move |seen| vec![send(&response(&seen.query, code))]
}

/// Answers nothing.
pub(crate) fn silent(_seen: &Seen) -> Vec<Act> {
    Vec::new()
}

/// A question that is not the one of `query`.
pub(crate) fn asking(query: &Message, other: Query) -> Message {
    let mut answer = address(query, 66);
    answer.queries = vec![other];
    answer
}
