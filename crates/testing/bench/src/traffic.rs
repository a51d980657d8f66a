//! Traffic between a client and a server, and what it costs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use sluice_lab::Netns;

use super::measure::{Cost, Samples, measure_packets, micros};
use super::synthetic::ENDPOINT_PORT;

/// One after the other.
const CONNECTIONS: u32 = 3000;
/// With [`CLIENTS`] at once.
const CONCURRENT: u32 = 12_000;
const CLIENTS: u32 = 4;
const ROUND_TRIPS: u32 = 20_000;
/// Bytes of the stream.
const STREAM: usize = 4 << 30;
const CHUNK: usize = 128 << 10;
const DATAGRAMS: u32 = 400_000;
/// So many are in the server's queue at most.
const BATCH: u32 = 50;
const DATAGRAM: [u8; 64] = [7; 64];
const PATIENCE: Duration = Duration::from_secs(5);

/// What is measured.
pub(super) const WHAT: &str = "3,000 connections with a byte there and back, one after the other, p50 of connect(); \
    12,000, four at once; round trip of a byte, p50 of 20,000; a stream of 4 GiB; 400,000 datagrams of 64 bytes, one \
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

/// Measures everything from the calling thread's network namespace.
pub(super) fn measure(target: SocketAddr, server: &Server) -> anyhow::Result<String> {
    let (samples, connecting) = measure_packets(|| connect(target, CONNECTIONS));
    let concurrent = concurrent(target)?;
    let mut stream = open(target)?;
    let (trips, tripping) = measure_packets(|| trips(&mut stream));
    let streaming = stream_of(&mut stream)?;
    let gigabits = STREAM as f64 * 8.0 / 1e9 / streaming.wall.as_secs_f64();
    let per_gibibyte = streaming.cpu.as_secs_f64() * 1e3 / (STREAM >> 30) as f64;
    let flow = datagrams(target, server)?;
    let cells = [
        micros(samples?.percentile(50)),
        micros(connecting.cpu / CONNECTIONS),
        rate(CONCURRENT, concurrent),
        micros(trips?.percentile(50)),
        micros(tripping.cpu / ROUND_TRIPS),
        format!("{gigabits:.1}"),
        format!("{per_gibibyte:.0}"),
        rate(DATAGRAMS, flow),
        format!("{:.2}", flow.cpu.as_secs_f64() * 1e6 / f64::from(DATAGRAMS)),
    ];
    Ok(cells.join(" | "))
}

/// Pieces of work in a second.
fn rate(pieces: u32, cost: Cost) -> String {
    format!("{:.0}", f64::from(pieces) / cost.wall.as_secs_f64())
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
    let (result, cost) =
        measure_packets(|| (0..STREAM / CHUNK).try_for_each(|_| stream.write_all(&chunk)));
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
