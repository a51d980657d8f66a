//! UDP: one thread for each socket, which receives, answers and sends in batches.
//!
//! ```text
//! recvmmsg ─▶ up to 32 queries ─wire cache─▶ response ────────────────▶ sendmmsg
//!                              └─miss─▶ Engine, polled once ─ready─▶ response, kept
//!                                                          └─waiting─▶ task of the runtime ─▶ sendmsg
//! ```

mod batch;
mod cache;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::SockaddrStorage;
use sluice_upstream::Transport;

use crate::engine::{Engine, Response, Waiting};
use crate::metrics::Shard;
use crate::request::Client;
use crate::slot::Slot;
use batch::Batch;
use cache::{Cached, WireCache};
use socket::To;
pub(crate) use socket::{Sharing, Socket, to_std};

/// Bytes of a query's id.
const ID: usize = 2;
/// Pause after an error of recvmmsg(2), which is one of the machine: no memory.
const PAUSE: Duration = Duration::from_millis(100);

/// A thread that answers on one socket.
pub(crate) struct Loop {
    pub(crate) socket: Arc<Socket>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) shard: Shard,
    /// Where tasks count that answer later.
    pub(crate) task_shard: Shard,
}

impl Loop {
    /// Answers until `stop` is set and the socket woken.
    pub(crate) fn run(self) {
        let engine = self.slot.engine();
        let _runtime = engine.common.runtime.enter();
        let options = &engine.common.options;
        let mut cache = WireCache::new(options.limits.wire_cache / options.threads.max(1));
        let mut batch = Batch::new(&self.socket);
        drop(engine);
        while !self.stop.load(Ordering::Acquire) {
            match batch.receive(&self.socket) {
                Ok(count) => self.answer(&mut batch, count, &mut cache),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(address = %self.socket.local(), %error, "receive queries");
                    #[expect(clippy::disallowed_methods, reason = "back-off")]
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn answer(&self, batch: &mut Batch, count: usize, cache: &mut WireCache) {
        let received = Instant::now();
        let engine = self.slot.engine();
        // All queries of the batch came before: an answer of this version is one of their time.
        cache.renew(engine.version());
        let mut hits = 0;
        for index in 0..count {
            let (query, answer) = batch.exchange(index);
            let Some((id, rest)) = query.split_first_chunk::<ID>() else {
                continue;
            };
            match cache.get(rest) {
                Cached::Response(bytes, sample) => {
                    answer.extend_from_slice(bytes);
                    answer[..ID].copy_from_slice(id);
                    sample.count(self.shard, received.elapsed());
                    hits += 1;
                }
                Cached::Turn(turn) => self.ask(&engine, batch, index, turn, received, cache),
            }
        }
        batch.send(&self.socket);
        engine.common.metrics.ours.wire_cache_hits.inc_by(hits);
    }

    /// Answers what the cache does not have.
    fn ask(
        &self,
        engine: &Arc<Engine>,
        batch: &mut Batch,
        index: usize,
        turn: usize,
        received: Instant,
        cache: &mut WireCache,
    ) {
        let (Some(reply_to), from) = batch.addresses(index) else {
            return;
        };
        let Some(address) = to_std(&reply_to) else {
            return;
        };
        let client = Client {
            address,
            local: SocketAddr::new(from.ip(&self.socket), self.socket.local().port()),
            transport: Transport::Udp,
        };
        let (query, answer) = batch.exchange(index);
        let Some(mut waiting) = engine.ask(query, client, received, turn) else {
            return;
        };
        let mut once = Context::from_waker(Waker::noop());
        let Poll::Ready(response) = waiting.as_mut().poll(&mut once) else {
            return self.send_later(engine, waiting, reply_to, from, received);
        };
        let Some(response) = response else { return };
        response.sample.count(self.shard, received.elapsed());
        answer.extend_from_slice(&response.bytes);
        if let Some(reusable) = &response.reusable {
            cache.insert(
                &query[ID..],
                turn,
                &response.bytes,
                reusable,
                &response.sample,
            );
        }
    }

    /// Sends the answer when it is ready. [`crate::limits`] limits the waiting queries.
    fn send_later(
        &self,
        engine: &Engine,
        waiting: Waiting,
        reply_to: SockaddrStorage,
        from: To,
        received: Instant,
    ) {
        let (socket, shard) = (self.socket.clone(), self.task_shard);
        engine.common.runtime.spawn(async move {
            let Some(Response { bytes, sample, .. }) = waiting.await else {
                return;
            };
            sample.count(shard, received.elapsed());
            socket.send(&bytes, &reply_to, from);
        });
    }
}
