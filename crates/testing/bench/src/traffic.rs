//! Traffic between a client and a server, and what it costs.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use sluice_lab::Netns;

use super::measure::{Cost, Samples, measure_packets};
use super::synthetic::ENDPOINT_PORT;

/// One after the other.
const CONNECTIONS: u32 = 2000;
/// With [`CLIENTS`] at once.
const CONCURRENT: u32 = 6000;
const CLIENTS: u32 = 4;
const ROUND_TRIPS: u32 = 10_000;
/// Of the stream.
const GIBIBYTES: u32 = 2;
const CHUNK: usize = 128 << 10;
const DATAGRAMS: u32 = 200_000;
/// So many are in the server's queue at most.
const BATCH: u32 = 50;
const DATAGRAM: [u8; 64] = [7; 64];
const PATIENCE: Duration = Duration::from_secs(5);

/// What is measured.
pub(super) const WHAT: &str = "2,000 connections with a byte there and back, one after the other, p50 of connect(); \
    6,000, four at once; round trip of a byte, p50 of 10,000; a stream of 2 GiB; 200,000 datagrams of 64 bytes, one \
    way, one thread at both ends. CPU: of both ends and the way between";

/// Headings of the cells that [`measure`] gives.
pub(super) const COLUMNS: &str = "connect, us | CPU of a connection, us | connections a second | round trip, us | \
    CPU, us | stream, Gbit/s | CPU ms per GiB | datagrams a second | CPU, us";

/// A server of TCP and UDP.
pub(super) struct Server(UdpSocket);

impl Server {
    /// Serves in a pod until this process ends.
    pub(super) fn start(pod: &Netns) -> anyhow::Result<Self> {
        let any = ("0.0.0.0", ENDPOINT_PORT);
        let (listener, socket) =
            pod.run(|| anyhow::Ok((TcpListener::bind(any)?, UdpSocket::bind(any)?)))?;
        for _ in 0..CLIENTS {
            let listener = listener.try_clone()?;
            thread::spawn(move || serve(&listener));
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(socket))
    }
}

/// Answers a byte with a byte, until a client sends more: then it reads on.
fn serve(listener: &TcpListener) {
    let mut buffer = vec![0; CHUNK];
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        stream.set_nodelay(true).ok();
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if count == 1 && stream.write_all(&buffer[..1]).is_err() {
                break;
            }
        }
    }
}

/// What one of everything takes, in us. Displays as the cells of [`COLUMNS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs([f64; 9]);

impl Costs {
    /// The smaller of each. Whatever else the machine does makes it larger.
    pub(super) fn best(self, other: Self) -> Self {
        let mut all = self.0;
        for (it, other) in all.iter_mut().zip(other.0) {
            *it = it.min(other);
        }
        Self(all)
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [
            connect,
            connect_cpu,
            connection,
            trip,
            trip_cpu,
            gibibyte,
            gibibyte_cpu,
            datagram,
            datagram_cpu,
        ] = self.0;
        let gigabits = (1_u64 << 30) as f64 * 8.0 / 1e3 / gibibyte;
        write!(
            f,
            "{connect:.1} | {connect_cpu:.1} | {:.0} | {trip:.1} | {trip_cpu:.1} | {gigabits:.1} | {:.0} | \
             {:.0} | {datagram_cpu:.2}",
            1e6 / connection,
            gibibyte_cpu / 1e3,
            1e6 / datagram
        )
    }
}

/// Measures everything from the calling thread's network namespace.
pub(super) fn measure(target: SocketAddr, server: &Server) -> anyhow::Result<Costs> {
    let micros = |it: Duration, pieces: u32| it.as_secs_f64() * 1e6 / f64::from(pieces);
    let (samples, connecting) = measure_packets(|| connect(target, CONNECTIONS));
    let concurrent = concurrent(target)?;
    let mut stream = open(target)?;
    let (trips, tripping) = measure_packets(|| trips(&mut stream));
    let streaming = stream_of(&mut stream)?;
    let flow = datagrams(target, server)?;
    Ok(Costs([
        micros(samples?.percentile(50), 1),
        micros(connecting.cpu, CONNECTIONS),
        micros(concurrent.wall, CONCURRENT),
        micros(trips?.percentile(50), 1),
        micros(tripping.cpu, ROUND_TRIPS),
        micros(streaming.wall, GIBIBYTES),
        micros(streaming.cpu, GIBIBYTES),
        micros(flow.wall, DATAGRAMS),
        micros(flow.cpu, DATAGRAMS),
    ]))
}

fn open(target: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&target, PATIENCE);
    let stream = stream.with_context(|| format!("connect to {target}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Times of connect(). Each connection is used, or the server's queue would overflow.
fn connect(target: SocketAddr, count: u32) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        let started = Instant::now();
        let mut stream = open(target)?;
        samples.push(started.elapsed());
        exchange(&mut stream)?;
    }
    Ok(samples)
}

/// A byte there and back.
fn exchange(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(&[1])?;
    Ok(stream.read_exact(&mut [0])?)
}

fn concurrent(target: SocketAddr) -> anyhow::Result<Cost> {
    let (result, cost) = measure_packets(|| {
        thread::scope(|scope| {
            let client = || connect(target, CONCURRENT / CLIENTS);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().try_for_each(|it| {
                let result = it.join().map_err(|_| anyhow!("a client panicked"))?;
                result.map(drop)
            })
        })
    });
    result?;
    Ok(cost)
}

fn trips(stream: &mut TcpStream) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..ROUND_TRIPS {
        let started = Instant::now();
        exchange(stream)?;
        samples.push(started.elapsed());
    }
    Ok(samples)
}

fn stream_of(stream: &mut TcpStream) -> anyhow::Result<Cost> {
    let chunk = vec![7; CHUNK];
    let chunks = GIBIBYTES as usize * ((1 << 30) / CHUNK);
    let (result, cost) = measure_packets(|| (0..chunks).try_for_each(|_| stream.write_all(&chunk)));
    result?;
    Ok(cost)
}

/// One flow, which the server has answered once. One thread is both ends: nobody is woken for a datagram, which
/// would cost more than its way.
fn datagrams(target: SocketAddr, Server(server): &Server) -> anyhow::Result<Cost> {
    let client = UdpSocket::bind("0.0.0.0:0")?;
    client.connect(target)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let receive = |socket: &UdpSocket| {
        let received = socket.recv_from(&mut DATAGRAM.clone());
        received.with_context(|| format!("receive a datagram to {target}"))
    };
    client.send(&DATAGRAM)?;
    let (_, source) = receive(server)?;
    server.send_to(&DATAGRAM, source)?;
    receive(&client)?;
    let (result, cost) = measure_packets(|| {
        for _ in 0..DATAGRAMS / BATCH {
            for _ in 0..BATCH {
                client.send(&DATAGRAM)?;
            }
            for _ in 0..BATCH {
                receive(server)?;
            }
        }
        anyhow::Ok(())
    });
    result?;
    Ok(cost)
}
