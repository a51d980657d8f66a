//! A client that asks without pause as a resolver does: after a refusal or a timeout once more, from the same
//! socket (`RES_DFLRETRY`, resolv.conf(5): `attempts`). Tests of the agent have this file, too.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use sluice_lab::{Netns, eventually};

/// glibc waits 5 s by default; operators often set `options timeout:1`.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Longest wait for more answers.
const SOON: Duration = Duration::from_secs(30);

/// Number of ports of a client with a socket for each question.
pub(crate) const PORTS: u16 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A socket for each question, as libc does, from [`PORTS`] ports of its own, the first of which is given. They
    /// are used again and again, whichever server answers. Without a limit conntrack would run out of ports for the
    /// replies of one endpoint to one pod.
    Fresh(u16),
    /// One socket for all questions, as a forwarder may have.
    OneSocket,
    /// A connection for each question.
    Tcp,
}

/// A question, and the functions that read its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) over_udp: &'static [u8],
    /// Empty for a server that speaks first.
    pub(crate) over_tcp: &'static [u8],
    /// Whether the bytes of an answer over TCP are complete.
    pub(crate) is_whole: fn(&[u8]) -> bool,
    /// The server that sent the answer; `None` when it is from neither.
    pub(crate) from: fn(&[u8]) -> Option<From>,
}

/// The server that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The node's own server.
    Local,
    Cluster,
}

/// The results of the questions.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) asked: AtomicU64,
    /// Questions that the node's own server answered.
    pub(crate) local: AtomicU64,
    /// Questions that the cluster's DNS answered.
    pub(crate) cluster: AtomicU64,
    /// Questions that were refused at first, and answered at the second attempt.
    pub(crate) refused_once: AtomicU64,
    /// Questions that were answered at the second attempt only, after a timeout.
    pub(crate) late_once: AtomicU64,
    /// Questions without an answer at the second attempt.
    pub(crate) lost: AtomicU64,
}

pub(crate) struct Resolver {
    pub(crate) counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    pub(crate) fn start(netns: &Netns, server: SocketAddr, kind: Kind, question: Question) -> Self {
        let (counts, stop) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let (theirs, ends) = (counts.clone(), stop.clone());
        // A thread stays in the namespace in which it was started.
        let thread =
            netns.run(|| thread::spawn(move || ask(server, kind, question, &theirs, &ends)));
        Self {
            counts,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn stop(mut self) -> Arc<Counts> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.counts.clone()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Waits until every client got `count` further answers of a kind.
#[track_caller]
pub(crate) fn more(clients: &[Resolver], of: fn(&Counts) -> &AtomicU64, count: u64) {
    let now = |it: &Resolver| of(&it.counts).load(Ordering::Relaxed);
    let wanted: Vec<u64> = clients.iter().map(|it| now(it) + count).collect();
    let reached = || {
        let mut all = clients.iter().zip(&wanted);
        all.all(|(it, wanted)| now(it) >= *wanted).then_some(())
    };
    let what: Vec<_> = clients.iter().map(|it| &it.counts).collect();
    eventually(SOON, reached).unwrap_or_else(|| panic!("no more answers: {what:?}"));
}

/// No question was lost. A change of who answers cost each client, which has one question at a time, one retry at
/// most: of the query that was in the socket of a killed process, or came while it died.
#[track_caller]
pub(crate) fn account(clients: Vec<Resolver>, changes: u64) {
    let all: Vec<_> = clients.into_iter().map(Resolver::stop).collect();
    let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
        all.iter().map(|it| of(it).load(Ordering::Relaxed)).sum()
    };
    let (refused, late) = (sum(|it| &it.refused_once), sum(|it| &it.late_once));
    let asked = sum(|it| &it.asked);
    eprintln!("{asked} questions, {changes} changes: {refused} refused once, {late} late once");
    assert_eq!(sum(|it| &it.lost), 0, "{all:#?}");
    let most = changes * u64::try_from(all.len()).unwrap();
    assert!(refused + late <= most, "{all:#?}");
}

fn ask(server: SocketAddr, kind: Kind, question: Question, counts: &Counts, stop: &AtomicBool) {
    let add = |it: &AtomicU64| it.fetch_add(1, Ordering::Relaxed);
    let mut socket = connected(server, 0).unwrap();
    let mut ports = (0..PORTS).cycle();
    while !stop.load(Ordering::Relaxed) {
        if let Kind::Fresh(first) = kind {
            // A process that is being started has a copy of every socket until it runs, so also of the last ones.
            let mut some = ports.by_ref().take(PORTS.into());
            let free = some.find_map(|it| connected(server, first + it).ok());
            socket = free.expect("a free port");
        }
        let attempt = || match kind {
            Kind::Tcp => over_tcp(server, question),
            _ => over_udp(&socket, question),
        };
        let first = attempt();
        let before = format!("{first:?}");
        let (answer, troubled) = match first {
            Ok(answer) => (Ok(answer), None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                (attempt(), Some(&counts.late_once))
            }
            Err(_) => (attempt(), Some(&counts.refused_once)),
        };
        match &answer {
            Ok(From::Local) => add(&counts.local),
            Ok(From::Cluster) => add(&counts.cluster),
            Err(error) => {
                if add(&counts.lost) < 3 {
                    eprintln!("{kind:?} {server} lost: {before}, then {error}");
                }
                0
            }
        };
        if let Some(troubled) = troubled.filter(|_| answer.is_ok()) {
            add(troubled);
        }
        add(&counts.asked);
    }
}

/// `port` is the client's; 0 for any.
fn connected(server: SocketAddr, port: u16) -> io::Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, port))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    Ok(socket)
}

fn over_udp(socket: &UdpSocket, question: Question) -> io::Result<From> {
    socket.send(question.over_udp)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    read(question, &answer[..length])
}

fn read(question: Question, answer: &[u8]) -> io::Result<From> {
    let unknown = || io::Error::other(format!("answer {}", answer.escape_ascii()));
    (question.from)(answer).ok_or_else(unknown)
}

fn over_tcp(server: SocketAddr, question: Question) -> io::Result<From> {
    let mut stream =
        TcpStream::connect_timeout(&server, TIMEOUT).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => io::ErrorKind::WouldBlock.into(),
            _ => error,
        })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // Closing leaves the port in TIME_WAIT for a minute, and there are 14,000 of them: reset instead.
    let reset = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &reset)?;
    stream.write_all(question.over_tcp)?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !(question.is_whole)(&answer) {
        match stream.read(&mut byte)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => answer.push(byte[0]),
        }
    }
    read(question, &answer)
}
