//! The watches that are open, and what a test does to them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use sluice_api::watch::{self, Orders};

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

impl Membership {
    fn translate(&self, (revision, order): (u64, Order)) -> (u64, watch::Order) {
        let order = match order {
            Order::Send(bytes) => watch::Order::Send(bytes),
            Order::Stall => watch::Order::Stall,
            Order::Resume => watch::Order::Resume,
            Order::End(cut) => {
                self.line.order(cut);
                watch::Order::End
            }
        };
        (revision, order)
    }
}

impl Orders for Membership {
    fn given(&mut self) -> Option<(u64, watch::Order)> {
        let order = self.orders.try_recv().ok()?;
        Some(self.translate(order))
    }

    async fn next(&mut self) -> Option<(u64, watch::Order)> {
        let order = self.orders.recv().await?;
        Some(self.translate(order))
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
