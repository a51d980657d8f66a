//! Requests to identity servers: which server answers, how fast, and what fails.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::exchange::exchange;
use crate::timed::Timed;

/// The requests of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub target: SocketAddr,
    /// Send a UDP datagram in place of an HTTP request on a connection of its own.
    pub udp: bool,
    /// Number of requests, sent one after the other.
    pub count: u32,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Pause between two requests.
    pub pause: Duration,
    /// The source port of every UDP datagram; `None`: one that the kernel chooses.
    pub source_port: Option<u16>,
}

impl Request {
    /// The arguments of the command that sends the requests: `sluice lab ask`.
    #[must_use]
    pub fn words(&self) -> [String; 3] {
        let request = serde_json::to_string(self).expect("addresses and numbers become JSON");
        ["lab".to_owned(), "ask".to_owned(), request]
    }
}

/// The results of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Number of answers by the name of the server.
    pub answered: BTreeMap<String, u64>,
    /// Number of answers by the client address that the server saw.
    pub seen_from: BTreeMap<String, u64>,
    /// Number of failed requests by error.
    pub failed: BTreeMap<String, u64>,
    /// Time from the first packet to the connection in microseconds, sorted. Empty for UDP.
    pub connect_us: Vec<u64>,
    /// Time from the first packet to the whole answer in microseconds, sorted.
    pub answer_us: Vec<u64>,
}

/// Sends the requests from the network namespace of this thread.
#[must_use]
pub fn ask(request: &Request) -> Answers {
    let mut answers = Answers::default();
    for number in 0..request.count {
        if number > 0 {
            #[expect(clippy::disallowed_methods, reason = "the client asked for it")]
            std::thread::sleep(request.pause);
        }
        let started = Instant::now();
        let answer = if request.udp {
            ask_datagram(request).map(|it| (it, None))
        } else {
            ask_http(request).map(|(it, connected)| (it, Some(connected)))
        };
        match answer {
            Ok((line, connected)) => {
                answers.answer_us.push(micros(started.elapsed()));
                answers.connect_us.extend(connected.map(micros));
                let mut words = line.split_whitespace();
                let mut count = |map: &mut BTreeMap<String, u64>| {
                    let word = words.next().unwrap_or("?").to_owned();
                    *map.entry(word).or_default() += 1;
                };
                count(&mut answers.answered);
                count(&mut answers.seen_from);
            }
            Err(error) => *answers.failed.entry(kind(&error)).or_default() += 1,
        }
    }
    answers.connect_us.sort_unstable();
    answers.answer_us.sort_unstable();
    answers
}

impl Answers {
    /// The value that `percent` per cent of `sorted` do not exceed; `None` of no values.
    #[must_use]
    pub fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(sorted.len() * percent / 100).min(last)])
    }

    /// Number of failed requests.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

fn ask_http(request: &Request) -> io::Result<(String, Duration)> {
    let started = Instant::now();
    let stream = Timed::connect(request.target, request.timeout)?;
    let connected = started.elapsed();
    let host = ("Host".to_owned(), request.target.to_string());
    let answer = exchange(stream, "/", &[host])?;
    if let Some(error) = answer.broken {
        return Err(error);
    }
    if answer.status != "200" {
        return Err(io::Error::other(format!("HTTP status {}", answer.status)));
    }
    let line = answer.body.lines().next().unwrap_or_default().to_owned();
    Ok((line, connected))
}

fn ask_datagram(request: &Request) -> io::Result<String> {
    let port = request.source_port.unwrap_or(0);
    let any: SocketAddr = match request.target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(request.target)?;
    socket.set_read_timeout(Some(request.timeout))?;
    socket.send(b"who?\n")?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

fn kind(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "timed out".to_owned(),
        io::ErrorKind::ConnectionReset => "reset".to_owned(),
        _ => error.to_string(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        assert_eq!(Answers::percentile(&[], 50), None);
        assert_eq!(Answers::percentile(&[7], 99), Some(7));
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(Answers::percentile(&sorted, 50), Some(51));
        assert_eq!(Answers::percentile(&sorted, 99), Some(100));
    }

    #[test]
    fn a_port_without_server_refuses() {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = free.local_addr().unwrap();
        drop(free);
        let request = Request {
            target,
            udp: false,
            count: 2,
            timeout: Duration::from_secs(5),
            pause: Duration::ZERO,
            source_port: None,
        };
        let answers = ask(&request);
        assert_eq!(answers.failed, BTreeMap::from([("refused".to_owned(), 2)]));
        assert_eq!(answers.failures(), 2);
    }
}
