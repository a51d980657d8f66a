//! The streams of `kubectl exec`, `attach` and `port-forward`. What runs, and where, is the caller's.
//!
//! ```text
//! request ─▶ negotiate ─▶ 101 ─▶ serve_program ─▶ websocket ─┬─▶ session ─▶ Program
//!                           │                 └▶ spdy ───────┘
//!                           └──▶ serve_ports ─▶ spdy or websocket ─▶ forward ─▶ sockets
//! ```
//!
//! Facts: `k8s.io/streaming`, `k8s.io/client-go/tools/{remotecommand,portforward}`, draft-mbelshe-httpbis-spdy-00, RFC 6455.
//!
//! # Invariants
//!
//! - Buffers are bounded: a client that reads slowly stops the program's writes, a program that reads slowly the
//!   client's.
//! - A [`Program`] is dropped with its session, whoever ended it.

mod forward;
mod negotiate;
mod program;
mod session;
pub mod spdy;
mod websocket;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Interval, MissedTickBehavior, interval};

pub use forward::Dial;
pub use negotiate::{Purpose, Refusal, Transport, Upgrade, negotiate};
pub use program::{End, Output, Program, Size, Start, Wanted};

/// Interval of pings. A client that was killed is noticed by the second one.
const PING: Duration = Duration::from_secs(5);

/// How long a client may take to read the end of a session and to close the connection.
const LAST: Duration = Duration::from_secs(5);

/// Messages that wait in each direction of a session, of at most [`PIECE`] bytes.
const QUEUE: usize = 16;

/// Most bytes of one message to a client, and of one piece of a program's output.
pub const PIECE: usize = 32 * 1024;

/// When to send a ping: never two in a row after a write that took long.
fn pings() -> Interval {
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// A connection after its upgrade.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

/// Runs a program with the streams of a connection, until the program ends or the client goes away.
pub async fn serve_program(
    connection: impl Connection,
    transport: Transport,
    wanted: Wanted,
    start: Start,
) {
    match transport {
        Transport::WebSocket(protocol) => {
            websocket::serve(connection, protocol, start).await;
        }
        Transport::Spdy(protocol) => {
            spdy::remote::serve(connection, protocol, wanted, start).await;
        }
    }
}

/// Forwards connections to ports, until the client goes away. `ports`: those of the request, where it
/// [names them](Transport::asks_for_ports).
pub async fn serve_ports(
    connection: impl Connection,
    transport: Transport,
    ports: &[u16],
    dial: Dial,
) {
    match transport {
        Transport::WebSocket(negotiate::TUNNEL) => {
            forward::serve(websocket::tunnel(connection).await, dial).await;
        }
        Transport::WebSocket(protocol) => {
            websocket::serve_ports(connection, protocol, ports, dial).await;
        }
        Transport::Spdy(_) => forward::serve(connection, dial).await,
    }
}

#[cfg(test)]
mod tests;
