//! What clients did, and what is done to their watches.

use std::time::Duration;

use bytes::Bytes;

use crate::body::Cut;
use crate::journal::Request;
use crate::mini::MiniApi;
use crate::watches::Order;

impl MiniApi {
    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.journal.all()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.journal.clear();
    }

    /// Waits until `wanted` says yes to all requests so far; false when time ran out.
    pub fn await_requests(&self, within: Duration, wanted: impl Fn(&[Request]) -> bool) -> bool {
        self.shared.journal.wait(within, wanted)
    }

    /// Bytes written to all sockets so far, TLS included.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes_sent()
    }

    /// Watches open now whose path contains `path`; `""` for all.
    pub fn open_watches(&self, path: &str) -> usize {
        self.shared.watches.count(path)
    }

    /// Waits until exactly `count` watches are open; false when time ran out.
    pub fn await_watches(&self, count: usize, within: Duration) -> bool {
        self.shared.watches.wait("", within, |it| it == count)
    }

    /// Ends the open watches whose path contains `path`, with their connections unless
    /// [`Cut::End`]. Returns how many.
    pub fn cut_watches(&self, path: &str, how: Cut) -> usize {
        self.order_watches(path, &Order::End(how))
    }

    /// Makes the open watches whose path contains `path` silent: no event, no bookmark, no end.
    /// Returns how many. New watches are not concerned.
    pub fn stall_watches(&self, path: &str) -> usize {
        self.order_watches(path, &Order::Stall)
    }

    /// Lets stalled watches go on where they stopped. Returns how many.
    pub fn resume_watches(&self, path: &str) -> usize {
        self.order_watches(path, &Order::Resume)
    }

    /// Sends bytes as they are into the open watches whose path contains `path`, stalled or not:
    /// garbage, half lines, events nobody caused. Returns how many.
    pub fn send_to_watches(&self, path: &str, bytes: impl Into<Bytes>) -> usize {
        self.order_watches(path, &Order::Send(bytes.into()))
    }

    pub(super) fn order_watches(&self, path: &str, order: &Order) -> usize {
        let revision = self.resource_version();
        self.shared.watches.order(path, revision, order)
    }

    /// Tells the open watches whose path contains `path` that their version is too old, in an
    /// ERROR event, and ends them. Returns how many.
    pub fn expire_watches(&self, path: &str) -> usize {
        let event = sluice_api::Status::expired("too old resource version, as asked").event();
        // A client may leave as soon as it has read the event: those who got it are counted.
        let told = self.send_to_watches(path, event);
        self.cut_watches(path, Cut::End);
        told
    }
}
