//! Forwarding over real sockets on loopback, to upstreams that are slow, lie, truncate and die.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod answers;
mod failing;
mod load;
mod looping;
mod server;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use sluice_corefile::{Forward, Policy, Upstream, UpstreamTransport};
use sluice_upstream::{Forwarder, Observer, Origin, Proto, Question};
use tokio::runtime::Handle;
use tokio::sync::watch;

use server::{DEADLINE, Server};

/// How long a forwarder waits for an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// What `forward . TO...` means, with the policy `sequential`.
fn config(to: &[&Server]) -> Forward {
    Forward {
        from: Name::root(),
        to: to.iter().map(|it| upstream(it.address)).collect(),
        expire: Duration::from_secs(10),
        max_fails: 2,
        policy: Policy::Sequential,
        ..Forward::default()
    }
}

fn upstream(address: SocketAddr) -> Upstream {
    Upstream {
        address,
        interface: None,
        transport: UpstreamTransport::Dns,
    }
}

fn forwarder(config: &Forward) -> Forwarder {
    Forwarder::new(config, Arc::new(Silent), Handle::current()).unwrap()
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn question(text: &str) -> Question {
    Question::new(name(text), RecordType::A)
}

/// The last bytes of the addresses in the answer section.
fn addresses(response: &Message) -> Vec<u8> {
    response
        .answers
        .iter()
        .filter_map(|record| match &record.data {
            RData::A(address) => Some(address.octets()[3]),
            _ => None,
        })
        .collect()
}

/// Lets all timers run that end within `duration`. The clock stands still for no longer than that:
/// a standing clock jumps whenever nothing runs, though packets may be on their way.
async fn skip(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}

/// Ignores every event.
struct Silent;

impl Observer for Silent {
    fn answered(&self, _to: &str, _code: ResponseCode, _took: Duration) {}
    fn connected(&self, _to: &str, _proto: Proto, _origin: Origin) {}
    fn health_check_failed(&self, _to: &str) {}
    fn all_down(&self, _from: &str, _all: &str) {}
    fn rejected(&self) {}
}

/// Writes down what a forwarder tells.
struct Recorder(watch::Sender<Vec<String>>);

impl Recorder {
    fn forwarder(config: &Forward) -> (Forwarder, Arc<Self>) {
        let recorder = Arc::new(Self(watch::Sender::new(Vec::new())));
        let observer: Arc<dyn Observer> = Arc::clone(&recorder) as _;
        let forwarder = Forwarder::new(config, observer, Handle::current()).unwrap();
        (forwarder, recorder)
    }

    fn note(&self, event: String) {
        self.0.send_modify(|events| events.push(event));
    }

    fn count(&self, event: &str) -> usize {
        self.0.borrow().iter().filter(|it| *it == event).count()
    }

    /// Waits until `event` was told `count` times.
    async fn wait_for(&self, event: &str, count: usize) {
        let mut events = self.0.subscribe();
        let waited = events.wait_for(|all| all.iter().filter(|it| *it == event).count() >= count);
        let in_time = tokio::time::timeout(DEADLINE, waited).await.is_ok();
        assert!(in_time, "{event} x {count}, not {:?}", self.0.borrow());
    }
}

impl Observer for Recorder {
    fn answered(&self, to: &str, code: ResponseCode, _took: Duration) {
        self.note(format!("{to} answered {code:?}"));
    }

    fn connected(&self, _to: &str, proto: Proto, origin: Origin) {
        self.note(format!("{} {origin:?}", proto.label()));
    }

    fn health_check_failed(&self, to: &str) {
        self.note(format!("{to} failed"));
    }

    fn all_down(&self, from: &str, all: &str) {
        self.note(format!("{from} -> {all} down"));
    }

    fn rejected(&self) {
        self.note("rejected".to_owned());
    }
}
