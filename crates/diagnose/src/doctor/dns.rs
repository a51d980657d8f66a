//! Whether the cluster's DNS knows a Service by its address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};

use super::listed;
use super::report::{Finding, State};

/// How long the server has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Identifier of the only query; the socket takes answers of this server alone.
const ID: u16 = 1;
/// Largest answer without EDNS (RFC 1035, 4.2.1).
const LARGEST: usize = 512;

/// Asks a DNS server for the name of a Service (`namespace/name`) in the domain of the cluster, and compares
/// the answer with its ClusterIP.
#[must_use]
pub fn dns(server: IpAddr, domain: &str, service: &str, cluster_ip: IpAddr) -> Finding {
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let name = format!("{name}.{namespace}.svc.{domain}");
    let failed = |why: String| {
        Finding::new("dns", State::Fail, format!("{name}: {server} {why}"))
            .mend("sluice doctor kube-system/kube-dns --probe; kubectl -n kube-system logs -l k8s-app=kube-dns")
    };
    match ask(server, &name, cluster_ip) {
        Ok(found) if found.contains(&cluster_ip) => {
            Finding::new("dns", State::Ok, format!("{name} is {}", listed(found)))
        }
        Ok(found) if found.is_empty() => failed("knows no address of this name".to_owned()),
        Ok(found) => failed(format!("says {} in place of {cluster_ip}", listed(found))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            failed("does not answer".to_owned())
        }
        Err(error) => failed(format!("gives no answer: {error}")),
    }
}

/// The addresses of a name in the family of `like`.
fn ask(server: IpAddr, name: &str, like: IpAddr) -> io::Result<Vec<IpAddr>> {
    let (any, kind): (IpAddr, _) = match (server, like) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (Ipv4Addr::UNSPECIFIED.into(), TYPE::A),
        (IpAddr::V4(_), IpAddr::V6(_)) => (Ipv4Addr::UNSPECIFIED.into(), TYPE::AAAA),
        (IpAddr::V6(_), IpAddr::V4(_)) => (Ipv6Addr::UNSPECIFIED.into(), TYPE::A),
        (IpAddr::V6(_), IpAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED.into(), TYPE::AAAA),
    };
    let mut query = Packet::new_query(ID);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(io::Error::other)?;
    let question = Question::new(name, kind.into(), CLASS::IN.into(), false);
    query.questions.push(question);
    let query = query.build_bytes_vec().map_err(io::Error::other)?;
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(SocketAddr::new(server, 53))?;
    socket.send(&query)?;
    let mut buffer = [0; LARGEST];
    let length = socket.recv(&mut buffer)?;
    let answer = Packet::parse(&buffer[..length]).map_err(io::Error::other)?;
    match answer.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        code => return Err(io::Error::other(format!("{code:?}"))),
    }
    let found = answer.answers.iter().filter_map(|it| match &it.rdata {
        RData::A(it) => Some(IpAddr::from(Ipv4Addr::from(it.address))),
        RData::AAAA(it) => Some(IpAddr::from(Ipv6Addr::from(it.address))),
        _ => None,
    });
    Ok(found.collect())
}
