//! The watches that are open, and what a test does to them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use futures::stream::{self, StreamExt};
use sluice_api::answer::Pieces;
use sluice_api::watch::Watching;

use crate::body::Cut;
use crate::wire::Line;

/// Something a test does to a running watch.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Send(Bytes),
    Stall,
    Resume,
    End(Cut),
}

/// All open watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: Mutex<Vec<Open>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Open {
    number: u64,
    path: String,
    orders: UnboundedSender<(u64, Order)>,
}

/// Membership of one watch; ends when dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    number: u64,
    watches: Arc<Watches>,
    /// Orders, each with the version of the store when it was given.
    orders: UnboundedReceiver<(u64, Order)>,
    /// The connection, which learns how the watch ends.
    line: Arc<Line>,
}

/// A watch that a test may disturb.
pub(crate) struct Disturbed {
    watching: Box<Watching>,
    membership: Membership,
    stalled: bool,
    /// The next order with its version: changes up to that version are sent first.
    order: Option<(u64, Order)>,
}

impl Disturbed {
    pub(crate) fn pieces(watching: Box<Watching>, membership: Membership) -> Pieces {
        let disturbed = Self {
            watching,
            membership,
            stalled: false,
            order: None,
        };
        let pieces = stream::unfold(disturbed, |mut it| async {
            let piece = it.next().await?;
            Some((piece, it))
        });
        pieces.boxed()
    }

    /// The next events; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.order.is_none() {
                self.order = self.membership.orders.try_recv().ok();
            }
            let until = self.order.as_ref().map_or(u64::MAX, |(given, _)| *given);
            if !self.stalled
                && let Some(lines) = self.watching.ready(until).ok()?
            {
                return Some(lines);
            }
            match self.order.take() {
                None => {}
                Some((_, Order::Send(bytes))) => return Some(bytes),
                Some((_, Order::End(cut))) => {
                    self.membership.line.order(cut);
                    return None;
                }
                Some((_, order)) => {
                    self.stalled = matches!(order, Order::Stall);
                    continue;
                }
            }
            tokio::select! {
                biased;
                order = self.membership.orders.recv() => self.order = Some(order?),
                waited = self.watching.wait(), if !self.stalled => {
                    if let Some(bookmark) = waited? {
                        return Some(bookmark);
                    }
                }
            }
        }
    }
}

impl Watches {
    /// Adds a watch of `path`.
    pub(crate) fn enter(self: &Arc<Self>, path: &str, line: Arc<Line>) -> Membership {
        let (orders, receiver) = unbounded_channel();
        let mut open = self.lock();
        let number = open.iter().map(|it| it.number).max().unwrap_or_default() + 1;
        open.push(Open {
            number,
            path: path.to_owned(),
            orders,
        });
        self.changed.notify_all();
        Membership {
            number,
            watches: self.clone(),
            orders: receiver,
            line,
        }
    }

    /// Gives `order` to every watch whose path contains `path`; says how many there are. They carry
    /// it out after the changes up to `revision` and before any later one.
    pub(crate) fn order(&self, path: &str, revision: u64, order: &Order) -> usize {
        let open = self.lock();
        let concerned = open.iter().filter(|it| it.path.contains(path));
        // A watch that is just closing needs no order.
        concerned
            .filter(|it| it.orders.send((revision, order.clone())).is_ok())
            .count()
    }

    /// Open watches whose path contains `path`.
    pub(crate) fn count(&self, path: &str) -> usize {
        let open = self.lock();
        open.iter().filter(|it| it.path.contains(path)).count()
    }

    /// Waits until `wanted` says yes to the number of watches whose path contains `path`.
    pub(crate) fn wait(
        &self,
        path: &str,
        within: Duration,
        wanted: impl Fn(usize) -> bool,
    ) -> bool {
        let short =
            |open: &mut Vec<Open>| !wanted(open.iter().filter(|it| it.path.contains(path)).count());
        let open = self.lock();
        let waited = self.changed.wait_timeout_while(open, within, short);
        !waited.expect("nobody panics with the list").1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().expect("nobody panics with the list")
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.watches.lock().retain(|it| it.number != self.number);
        self.watches.changed.notify_all();
    }
}
