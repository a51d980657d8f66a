//! Answers without sockets.

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sluice_corefile::Corefile;
use sluice_upstream::Transport;
use sluice_zone::Objects;
use tokio::runtime::{Builder, Runtime};

use super::plan::Plan;
use super::{StartError, machine};
use crate::engine::{Common, Engine};
use crate::options::Options;
use crate::request::Client;

/// The engine of a Corefile's first address, for tools and tests: bytes in, bytes out.
pub struct Responder {
    engine: Arc<Engine>,
    local: SocketAddr,
    /// Nothing runs on it: no upstream is ever asked.
    _runtime: Runtime,
}

impl Responder {
    /// An engine without sockets.
    ///
    /// # Errors
    /// A server block cannot be served.
    pub fn new(
        corefile: &Corefile,
        objects: Arc<RwLock<Objects>>,
        options: Options,
    ) -> Result<Self, StartError> {
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(machine("runtime"))?;
        let common = Common::new(objects, options, 1, runtime.handle().clone());
        let engines = Plan::of(corefile, &common)?.engines;
        let (local, engine) = engines.into_iter().next().expect("a Corefile has a block");
        Ok(Self {
            engine,
            local,
            _runtime: runtime,
        })
    }

    /// The response to a query that came from `client`, if there is one without an upstream.
    pub fn respond(
        &self,
        query: &[u8],
        client: SocketAddr,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let _context = self.engine.common.runtime.enter();
        let client = Client {
            address: client,
            local: self.local,
            transport,
        };
        let mut waiting = self.engine.ask(query, client, Instant::now(), 0)?;
        let mut once = Context::from_waker(Waker::noop());
        match waiting.as_mut().poll(&mut once) {
            Poll::Ready(response) => response.map(|it| it.bytes),
            Poll::Pending => None,
        }
    }
}
