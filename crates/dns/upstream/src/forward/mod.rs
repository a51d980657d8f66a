//! The plugin `forward`: asks upstreams.

mod attempt;
mod failure;
mod flights;
mod observer;
mod outgoing;
mod setup;
mod stream;
mod tls;
mod udp;
mod upstream;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Name;
use sluice_corefile::{Forward, ForwardProtocol};
use tokio::runtime::Handle;

pub use failure::{Failure, SetupError};
pub use observer::{Observer, Origin, Proto};

use attempt::Upstreams;
use flights::Flights;

use crate::question::Question;

/// Queries under way at once when the Corefile does not bound them. Each may need a socket.
const MAX_QUERIES: usize = 4096;

/// How a query comes to us, and goes to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Udp,
    /// TCP, or anything else on connections.
    Tcp,
}

impl Transport {
    /// Names in logs and metrics, in the order of declaration.
    pub const NAMES: [&str; 2] = ["udp", "tcp"];

    /// The name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One `forward` of a server block.
pub struct Forwarder {
    config: Arc<Forward>,
    queries: Arc<AtomicUsize>,
    upstreams: Arc<Upstreams>,
    flights: Arc<Flights>,
    observer: Arc<dyn Observer>,
    runtime: Handle,
}

impl Forwarder {
    /// Whether queries for `name` are forwarded: below `from`, not below `except`.
    pub fn covers(&self, name: &Name) -> bool {
        let Forward { from, except, .. } = &*self.config;
        from.zone_of(name) && (from == name || !except.iter().any(|zone| zone.zone_of(name)))
    }

    /// Whether the next `forward` of the block, if there is one, is to be asked after `answer`.
    pub fn passes_on(&self, answer: &Message) -> bool {
        let is_nodata = answer.response_code == ResponseCode::NoError && answer.answers.is_empty();
        self.config.next.contains(&answer.response_code)
            || (self.config.next_on_nodata && is_nodata)
    }

    /// Asks for `question`, which came over `client`. The response has id 0 and no OPT; its records
    /// all belong to the question.
    ///
    /// May be polled outside of the runtime. A query that its caller gives up goes on for those
    /// that wait for the same answer.
    pub async fn exchange(
        &self,
        question: &Question,
        client: Transport,
    ) -> Result<Message, Failure> {
        let counted = self.admit()?;
        let transport = match self.config.protocol {
            ForwardProtocol::AsAsked => client,
            ForwardProtocol::Tcp => Transport::Tcp,
            ForwardProtocol::PreferUdp => Transport::Udp,
        };
        let (mut waiting, flight) = self.flights.join(question.flight_key(), transport);
        let _joined = match flight {
            None => Some(counted),
            // The flight goes on when its first caller does not, and counts until it lands.
            Some(flight) => {
                let upstreams = Arc::clone(&self.upstreams);
                let question = question.clone();
                self.runtime.spawn(async move {
                    let outcome = upstreams.ask(&question, transport).await;
                    drop(counted);
                    flight.land(outcome.map(Arc::new));
                });
                None
            }
        };
        let outcome = waiting
            .wait_for(Option::is_some)
            .await
            .map_err(|_| Failure::Stopped)?
            .clone()
            .unwrap_or(Err(Failure::Stopped));
        Ok(question.response(Message::clone(&*outcome?)))
    }

    /// Addresses and ports of the upstreams, in the order of the Corefile.
    pub fn upstreams(&self) -> impl Iterator<Item = &str> {
        self.upstreams.labels()
    }

    /// Counts one query until the result is dropped.
    fn admit(&self) -> Result<Counted, Failure> {
        let max = self.config.max_concurrent;
        let max = max.map_or(MAX_QUERIES, NonZeroUsize::get);
        let counted = Counted(Arc::clone(&self.queries));
        if self.queries.fetch_add(1, Ordering::Relaxed) < max {
            return Ok(counted);
        }
        drop(counted);
        self.observer.rejected();
        Err(Failure::TooMany { max })
    }
}

/// A query under way.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
