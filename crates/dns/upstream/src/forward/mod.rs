//! The plugin `forward`: asks upstreams.

mod attempt;
mod failure;
mod flights;
mod observer;
mod outgoing;
mod policy;
mod setup;
mod stream;
mod tls;
mod udp;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Name;
use sluice_corefile::ForwardProtocol;
use tokio::runtime::Handle;

pub use failure::Failure;
pub use observer::{Observer, Origin, Proto};
pub use setup::SetupError;
pub use tls::TlsError;

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

/// One `forward` of a server block.
pub struct Forwarder {
    scope: Scope,
    next: Next,
    protocol: ForwardProtocol,
    max_queries: usize,
    queries: Arc<AtomicUsize>,
    upstreams: Arc<Upstreams>,
    flights: Arc<Flights>,
    observer: Arc<dyn Observer>,
    runtime: Handle,
}

/// The names that are forwarded.
struct Scope {
    from: Name,
    except: Vec<Name>,
}

/// Answers after which the next `forward` of the block is asked.
struct Next {
    codes: Vec<ResponseCode>,
    on_nodata: bool,
}

impl Forwarder {
    /// Whether queries for `name` are forwarded: below `from`, not below `except`.
    pub fn covers(&self, name: &Name) -> bool {
        let Scope { from, except } = &self.scope;
        from.zone_of(name) && (from == name || !except.iter().any(|zone| zone.zone_of(name)))
    }

    /// Whether the next `forward` of the block, if there is one, is to be asked after `answer`.
    pub fn passes_on(&self, answer: &Message) -> bool {
        let is_nodata = answer.response_code == ResponseCode::NoError && answer.answers.is_empty();
        self.next.codes.contains(&answer.response_code) || (self.next.on_nodata && is_nodata)
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
        let transport = match self.protocol {
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
        let counted = Counted(Arc::clone(&self.queries));
        if self.queries.fetch_add(1, Ordering::Relaxed) < self.max_queries {
            return Ok(counted);
        }
        drop(counted);
        self.observer.rejected();
        Err(Failure::TooMany {
            max: self.max_queries,
        })
    }
}

/// A query under way.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
