//! A resolver of another library than the server's.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE, rdata::RData};
use sluice_lab::eventually;

use crate::common::WITHIN;

/// A resolver asks again after this; `options timeout:1`.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What a server said: the response code, and the records of the answer in order of their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: RCODE,
    pub(crate) records: Vec<String>,
}

/// Asks over UDP for the records of a type; `None` when nothing comes back in time.
pub(crate) fn ask(server: SocketAddr, name: &str, kind: TYPE) -> Option<Answer> {
    Some(read(&exchange(server, name, kind)?))
}

/// Asks until something comes back, as resolvers do.
#[track_caller]
pub(crate) fn ask_again(server: SocketAddr, name: &str, kind: TYPE) -> Answer {
    let answer = eventually(WITHIN, || ask(server, name, kind));
    answer.unwrap_or_else(|| panic!("{name} {kind:?} at {server}: no answer"))
}

/// Whether the addresses of a name have no room in an answer over UDP.
pub(crate) fn is_truncated(server: SocketAddr, name: &str) -> Option<bool> {
    let response = exchange(server, name, TYPE::A)?;
    let packet = Packet::parse(&response).unwrap();
    Some(packet.has_flags(PacketFlag::TRUNCATION))
}

fn exchange(server: SocketAddr, name: &str, kind: TYPE) -> Option<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => "0.0.0.0:0".parse().unwrap(),
        SocketAddr::V6(_) => "[::]:0".parse().unwrap(),
    };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.connect(server).unwrap();
    socket.send(&query(name, kind)).ok()?;
    let mut response = vec![0; 4096];
    let length = socket.recv(&mut response).ok()?;
    response.truncate(length);
    Some(response)
}

/// The same over TCP.
pub(crate) fn ask_over_tcp(server: SocketAddr, name: &str, kind: TYPE) -> Option<Answer> {
    let query = query(name, kind);
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &query].concat()).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut response = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut response).ok()?;
    Some(read(&response))
}

/// The addresses that a name has, of both families as a dual-stack client asks for them.
pub(crate) fn addresses(server: SocketAddr, name: &str) -> Option<Vec<String>> {
    let mut all = ask(server, name, TYPE::A)?.records;
    all.extend(ask(server, name, TYPE::AAAA)?.records);
    Some(all)
}

pub(crate) fn query(name: &str, kind: TYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(4711);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).unwrap().into_owned();
    packet
        .questions
        .push(Question::new(name, kind.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().unwrap()
}

fn read(response: &[u8]) -> Answer {
    let packet = Packet::parse(response).unwrap();
    assert_eq!(packet.id(), 4711);
    let mut records: Vec<String> = packet.answers.iter().map(|it| text(&it.rdata)).collect();
    records.sort();
    Answer {
        code: packet.rcode(),
        records,
    }
}

fn text(data: &RData<'_>) -> String {
    match data {
        RData::A(it) => std::net::Ipv4Addr::from(it.address).to_string(),
        RData::AAAA(it) => std::net::Ipv6Addr::from(it.address).to_string(),
        RData::SRV(it) => format!("{}:{}", it.target, it.port),
        RData::PTR(it) => it.0.to_string(),
        RData::CNAME(it) => it.0.to_string(),
        other => format!("{other:?}"),
    }
}
