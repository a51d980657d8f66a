//! The plugin `loop`: does a query that we forward come back to us?
//!
//! The usual cause is a resolv.conf that names a resolver on the node (127.0.0.53), which asks the
//! cluster's DNS, which asks the resolver. Each query would then circle until everything is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hickory_proto::op::Query;
use hickory_proto::rr::{Name, RecordType};
use tokio::time::{Instant, sleep};

use crate::forward::{Forwarder, Transport};
use crate::question::Question;

/// Upstreams that do not answer are asked again for so long, as in CoreDNS.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two attempts, and for a query to come back after its answer, as in CoreDNS.
const PAUSE: Duration = Duration::from_secs(2);

/// One test for a loop, begun when the server starts.
#[derive(Debug)]
pub struct LoopProbe {
    name: Name,
    /// Nobody else knows the name, but a packet may come late: after the test it means nothing.
    is_armed: AtomicBool,
}

impl LoopProbe {
    /// A probe with a random name in `zone`, the first zone of the server block.
    pub fn new(zone: &Name) -> Self {
        let name = [rand::random::<u64>(), rand::random::<u64>()]
            .into_iter()
            .try_fold(zone.clone(), |name, label| {
                name.prepend_label(label.to_string())
            })
            // A zone that leaves no room for 42 bytes is not one that anybody loops with.
            .unwrap_or_else(|_| zone.clone());
        Self {
            name,
            is_armed: AtomicBool::new(true),
        }
    }

    /// Whether `query`, which a client sent, is the probe: then the server must stop, since it
    /// asks itself.
    pub fn recognises(&self, query: &Query) -> bool {
        query.query_type == RecordType::HINFO
            && query.name == self.name
            && self.is_armed.load(Ordering::Relaxed)
    }

    /// Why the server must end, in one line: the probe's query came back.
    pub fn found(&self, forwarder: &Forwarder) -> String {
        let upstreams = forwarder.upstreams().collect::<Vec<_>>().join(", ");
        format!(
            "loop: the query HINFO {}, which was sent to {upstreams}, came back: an upstream asks \
             this server; give forward an upstream that does not, in place of a resolv.conf that \
             names a resolver of this machine",
            self.name
        )
    }

    /// Sends the probe until it is answered, for 30 s at most. After that nothing is recognised.
    pub async fn run(&self, forwarder: &Forwarder) {
        let question = Question::new(self.name.clone(), RecordType::HINFO);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let asked = forwarder.exchange(&question, Transport::Udp).await;
            sleep(PAUSE).await;
            if asked.is_ok() {
                break;
            }
        }
        self.is_armed.store(false, Ordering::Relaxed);
    }
}
