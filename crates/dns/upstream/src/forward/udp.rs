//! A query over UDP: a socket of its own, with a port that the kernel chooses at random.
//!
//! The socket is connected. The kernel then passes on only datagrams from the upstream's address,
//! and an upstream whose port is closed is known at once.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::Message;
use tokio::net::UdpSocket;

use super::outgoing::{MAX_FOREIGN, Outgoing, Trouble};

/// Servers that do not know EDNS0's limit may send more than was asked for.
const BUFFER: usize = 4096;

/// Sends `query` to `upstream` and waits for its answer, without a time limit.
pub(super) async fn ask(upstream: SocketAddr, query: &Outgoing) -> Result<Message, Trouble> {
    let any = match upstream {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)
        .await
        .map_err(Trouble::io("bind UDP"))?;
    socket
        .connect(upstream)
        .await
        .map_err(Trouble::io("connect UDP"))?;
    socket
        .send(query.bytes())
        .await
        .map_err(Trouble::io("send over UDP"))?;
    let mut buffer = vec![0; BUFFER];
    for _ in 0..MAX_FOREIGN {
        let length = socket
            .recv(&mut buffer)
            .await
            .map_err(Trouble::io("receive over UDP"))?;
        if let Some(answer) = query.answer_of_datagram(&buffer[..length]) {
            return Ok(answer);
        }
    }
    Err(Trouble::Foreign)
}
