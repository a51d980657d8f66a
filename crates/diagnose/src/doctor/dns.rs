//! Whether a DNS server knows a Service by its address.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use super::listed;
use super::report::Finding;
use crate::any_like;

/// How long the server has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Largest answer without EDNS (RFC 1035, 4.2.1).
const LARGEST: usize = 512;

/// Asks a DNS server for the name of a Service (`namespace/name`) in the domain of the cluster, and compares
/// the answer with its ClusterIP.
///
/// `mend`: what shows why this server gives a wrong answer.
pub(super) fn dns(
    server: IpAddr,
    domain: &str,
    service: &str,
    cluster_ip: IpAddr,
    mend: &str,
) -> Finding {
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let name = format!("{name}.{namespace}.svc.{}", domain.trim_end_matches('.'));
    let failed = |why: String| Finding::fail("dns", format!("{name}: {server} {why}")).mend(mend);
    match ask(server, &name, cluster_ip) {
        Ok(found) if found.contains(&cluster_ip) => {
            Finding::ok("dns", format!("{name} is {}, says {server}", listed(found)))
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
    let record_type = match like {
        IpAddr::V4(_) => RecordType::A,
        IpAddr::V6(_) => RecordType::AAAA,
    };
    let mut name = Name::from_ascii(name).map_err(io::Error::other)?;
    name.set_fqdn(true);
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name, record_type));
    let socket = UdpSocket::bind(any_like(server))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // The socket takes answers of this server alone.
    socket.connect(SocketAddr::new(server, 53))?;
    socket.send(&query.to_vec().map_err(io::Error::other)?)?;
    let mut buffer = [0; LARGEST];
    let length = socket.recv(&mut buffer)?;
    let answer = Message::from_vec(&buffer[..length]).map_err(io::Error::other)?;
    match answer.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        code => return Err(io::Error::other(code.to_str())),
    }
    let found = answer.answers.iter();
    Ok(found.filter_map(|it| it.data.ip_addr()).collect())
}
