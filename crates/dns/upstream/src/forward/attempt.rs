//! The order in which upstreams are asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::Message;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use sluice_corefile::{Forward, Policy};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Transport;
use super::failure::Failure;
use super::observer::Observer;
use super::outgoing::Trouble;
use super::upstream::Upstream;
use crate::check;
use crate::question::Question;

/// How long a query may take with all its attempts, as in CoreDNS.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after all upstreams failed at once; doubled each time. CoreDNS has none, and asks a
/// closed port thousands of times.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The upstreams of a forwarder.
pub(super) struct Upstreams {
    config: Arc<Forward>,
    /// All addresses, joined with `+`, for metrics.
    all: String,
    upstreams: Vec<Arc<Upstream>>,
    /// Number of queries, for `round_robin`.
    queries: AtomicUsize,
    observer: Arc<dyn Observer>,
}

/// A query and the results of its attempts so far.
struct Asked<'a> {
    question: &'a Question,
    transport: Transport,
    deadline: Instant,
    failed: u32,
    failure: Option<Failure>,
    /// The last answer with a code of `failover`.
    answer: Option<Message>,
}

impl Upstreams {
    pub(super) fn new(
        config: Arc<Forward>,
        upstreams: Vec<Arc<Upstream>>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let labels: Vec<&str> = upstreams.iter().map(|it| &*it.label).collect();
        Self {
            config,
            all: labels.join("+"),
            upstreams,
            queries: AtomicUsize::new(0),
            observer,
        }
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.upstreams.iter().map(|it| &*it.label)
    }

    /// Asks one upstream after the other, again from the first one while time is left.
    pub(super) async fn ask(
        &self,
        question: &Question,
        transport: Transport,
    ) -> Result<Message, Failure> {
        let deadline = Instant::now() + QUERY_TIMEOUT;
        let mut asked = Asked {
            question,
            transport,
            deadline,
            failed: 0,
            failure: None,
            answer: None,
        };
        let mut pause = FIRST_PAUSE;
        let order = order(self.config.policy, &self.queries, self.upstreams.len());
        while Instant::now() < deadline {
            if let Some(result) = self.ask_each(&order, &mut asked).await {
                return result;
            }
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause *= 2;
        }
        Err(asked.failure.unwrap_or(Failure::AllDown))
    }

    /// Asks each upstream once. `None`: none answered, and they may be asked again.
    async fn ask_each(
        &self,
        order: &[usize],
        asked: &mut Asked<'_>,
    ) -> Option<Result<Message, Failure>> {
        let up = order.iter().map(|&at| &self.upstreams[at]);
        let mut any = false;
        for upstream in up.filter(|it| !it.is_down()) {
            any = true;
            let result = self.attempt(upstream, asked).await;
            if result.is_some() {
                return result;
            }
        }
        // All upstreams that are up were asked.
        if let Some(answer) = asked.answer.take() {
            return Some(Ok(answer));
        }
        if any {
            return None;
        }
        Some(self.ask_any(asked).await)
    }

    /// Asks a random upstream while all are down: perhaps only their health checks fail.
    async fn ask_any(&self, asked: &mut Asked<'_>) -> Result<Message, Failure> {
        let from = self.config.from.to_string();
        self.observer.all_down(&from, &self.all);
        let any = self.upstreams.choose(&mut rand::rng());
        let Some(upstream) = any.filter(|_| !self.config.failfast_all_unhealthy_upstreams) else {
            return Err(Failure::AllDown);
        };
        if let Some(result) = self.attempt(upstream, asked).await {
            return result;
        }
        match asked.answer.take() {
            Some(answer) => Ok(answer),
            None => Err(asked.failure.take().unwrap_or(Failure::AllDown)),
        }
    }

    /// Asks one upstream. `None`: the next one is to be asked.
    async fn attempt(
        &self,
        upstream: &Arc<Upstream>,
        asked: &mut Asked<'_>,
    ) -> Option<Result<Message, Failure>> {
        let answer = upstream.ask(asked.question, asked.transport);
        let trouble = match timeout_at(asked.deadline, answer).await {
            Ok(Ok(answer)) => return self.judge(upstream, answer, asked),
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::Timeout {
                operation: "ask upstream",
            },
        };
        upstream.check_health();
        asked.failed += 1;
        let failure = Failure::no_answer(&upstream.label, &trouble);
        // 0: only time bounds the attempts.
        let most = self.config.max_connect_attempts;
        if most != 0 && asked.failed >= most {
            return Some(Err(failure));
        }
        asked.failure = Some(failure);
        None
    }

    fn judge(
        &self,
        upstream: &Upstream,
        mut answer: Message,
        asked: &mut Asked<'_>,
    ) -> Option<Result<Message, Failure>> {
        if let Err(reason) = check::keep_relevant(asked.question, &mut answer) {
            return Some(Err(Failure::Unusable {
                to: Arc::clone(&upstream.label),
                reason,
            }));
        }
        if self.config.failover.contains(&answer.response_code) {
            asked.answer = Some(answer);
            return None;
        }
        Some(Ok(answer))
    }
}

/// The order in which `count` upstreams are asked: their indices.
fn order(policy: Policy, queries: &AtomicUsize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    match policy {
        Policy::Random => order.shuffle(&mut rand::rng()),
        // As CoreDNS: the next one first, the others in the order of the Corefile.
        Policy::RoundRobin if count > 0 => {
            let first = queries.fetch_add(1, Ordering::Relaxed) % count;
            order[..=first].rotate_right(1);
        }
        Policy::RoundRobin | Policy::Sequential => {}
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(policy: Policy, count: usize, queries: usize) -> Vec<Vec<usize>> {
        let before = AtomicUsize::new(0);
        let orders = (0..queries).map(|_| order(policy, &before, count));
        orders.collect()
    }

    #[test]
    fn sequential_is_the_corefiles_order() {
        assert_eq!(orders(Policy::Sequential, 3, 2), [[0, 1, 2], [0, 1, 2]]);
    }

    #[test]
    fn round_robin_begins_with_each_in_turn() {
        let expected = [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 1, 2]];
        assert_eq!(orders(Policy::RoundRobin, 3, 4), expected);
    }

    #[test]
    fn random_begins_with_each() {
        let mut seen = [false; 4];
        for mut order in orders(Policy::Random, 4, 1000) {
            seen[order[0]] = true;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        assert_eq!(seen, [true; 4]);
    }
}
