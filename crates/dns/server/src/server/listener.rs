//! One address: its sockets and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tokio::task::AbortHandle;

use super::{StartError, machine};
use crate::engine::Engine;
use crate::listen::{self, Sockets};
use crate::metrics::Shard;
use crate::slot::Slot;
use crate::tcp;
use crate::udp::{Loop, Sharing, Socket};

/// An address that queries are answered on, until it is dropped.
pub(super) struct Listener {
    address: SocketAddr,
    slot: Arc<Slot>,
    stop: Arc<AtomicBool>,
    sockets: Vec<Arc<Socket>>,
    threads: Vec<JoinHandle<()>>,
    tcp: AbortHandle,
}

impl Listener {
    /// Binds and answers, in the context of the runtime. `ours` are the other addresses of the server.
    pub(super) fn start<'a>(
        address: SocketAddr,
        engine: &Arc<Engine>,
        threads: usize,
        ours: impl Iterator<Item = &'a Self>,
    ) -> Result<Self, StartError> {
        let sharing = if ours.map(|it| it.address).any(|it| overlap(it, address)) {
            Sharing::Joined
        } else {
            Sharing::Exclusive
        };
        let Sockets { udp, tcp } = listen::bind(address, threads, sharing)?;
        let slot = Slot::new(engine.clone());
        let sockets: Vec<_> = udp.into_iter().map(Arc::new).collect();
        let tasks = Shard(threads);
        let runtime = &engine.common.runtime;
        let mut listener = Self {
            address: sockets.first().map_or(address, |it| it.local()),
            tcp: runtime
                .spawn(tcp::serve(tcp, slot.clone(), tasks))
                .abort_handle(),
            stop: Arc::default(),
            threads: Vec::new(),
            sockets,
            slot,
        };
        for (number, socket) in listener.sockets.iter().enumerate() {
            let answers = Loop {
                socket: socket.clone(),
                slot: listener.slot.clone(),
                stop: listener.stop.clone(),
                shard: Shard(number),
                task_shard: tasks,
            };
            let thread = thread::Builder::new().name(format!("dns-udp-{number}"));
            let thread = thread.spawn(move || answers.run());
            listener
                .threads
                .push(thread.map_err(machine("thread of UDP"))?);
        }
        Ok(listener)
    }

    /// Address and port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from another engine from now on.
    pub(super) fn replace(&self, engine: Arc<Engine>) {
        self.slot.replace(engine);
    }

    /// Answers no more. Queries that wait for upstreams are still answered over UDP.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.sockets.iter().for_each(|it| it.wake());
        self.tcp.abort();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the kernel takes one address for a part of the other.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && (one.ip().is_unspecified() || other.ip().is_unspecified())
}
