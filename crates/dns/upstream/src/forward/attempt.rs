//! The order in which upstreams are asked.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Transport;
use super::failure::Failure;
use super::observer::Observer;
use super::outgoing::Trouble;
use super::policy::Policy;
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
    /// The zone that is forwarded, for metrics.
    from: String,
    /// All addresses, joined with `+`, for metrics.
    all: String,
    upstreams: Vec<Arc<Upstream>>,
    policy: Policy,
    limits: Limits,
    observer: Arc<dyn Observer>,
}

/// How long to go on.
pub(super) struct Limits {
    /// Failed attempts for one query. Zero: only time bounds them.
    pub(super) max_attempts: u32,
    /// While all upstreams are down none is asked.
    pub(super) fail_fast: bool,
    /// With these codes the next upstream is asked.
    pub(super) failover: Vec<ResponseCode>,
}

/// The results of the attempts so far.
#[derive(Default)]
struct Tried {
    failed: u32,
    failure: Option<Failure>,
    /// The last answer with a code of `failover`.
    answer: Option<Message>,
}

/// What to do after an attempt.
enum Step {
    Done(Result<Message, Failure>),
    Next,
}

impl Upstreams {
    pub(super) fn new(
        from: String,
        upstreams: Vec<Arc<Upstream>>,
        policy: Policy,
        limits: Limits,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let labels: Vec<&str> = upstreams.iter().map(|it| &*it.label).collect();
        Self {
            from,
            all: labels.join("+"),
            upstreams,
            policy,
            limits,
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
        let mut tried = Tried::default();
        let mut pause = FIRST_PAUSE;
        let order = self.policy.order(self.upstreams.len());
        while Instant::now() < deadline {
            if let Some(result) = self
                .ask_each(&order, question, transport, deadline, &mut tried)
                .await
            {
                return result;
            }
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause *= 2;
        }
        Err(tried.failure.unwrap_or(Failure::AllDown))
    }

    /// Asks each upstream once. `None`: none answered, and they may be asked again.
    async fn ask_each(
        &self,
        order: &[usize],
        question: &Question,
        transport: Transport,
        deadline: Instant,
        tried: &mut Tried,
    ) -> Option<Result<Message, Failure>> {
        let up = order.iter().map(|&at| &self.upstreams[at]);
        let mut asked = false;
        for upstream in up.filter(|it| !it.is_down()) {
            asked = true;
            let step = self.attempt(upstream, question, transport, deadline, tried);
            if let Step::Done(result) = step.await {
                return Some(result);
            }
        }
        // All upstreams that are up were asked.
        if let Some(answer) = tried.answer.take() {
            return Some(Ok(answer));
        }
        if asked {
            return None;
        }
        Some(self.ask_any(question, transport, deadline, tried).await)
    }

    /// Asks a random upstream while all are down: perhaps only their health checks fail.
    async fn ask_any(
        &self,
        question: &Question,
        transport: Transport,
        deadline: Instant,
        tried: &mut Tried,
    ) -> Result<Message, Failure> {
        self.observer.all_down(&self.from, &self.all);
        if self.limits.fail_fast {
            return Err(Failure::AllDown);
        }
        let any = *Policy::Random
            .order(self.upstreams.len())
            .first()
            .ok_or(Failure::AllDown)?;
        let upstream = &self.upstreams[any];
        match self
            .attempt(upstream, question, transport, deadline, tried)
            .await
        {
            Step::Done(result) => result,
            Step::Next => match (tried.answer.take(), tried.failure.take()) {
                (Some(answer), _) => Ok(answer),
                (None, failure) => Err(failure.unwrap_or(Failure::AllDown)),
            },
        }
    }

    async fn attempt(
        &self,
        upstream: &Arc<Upstream>,
        question: &Question,
        transport: Transport,
        deadline: Instant,
        tried: &mut Tried,
    ) -> Step {
        let asked = timeout_at(deadline, upstream.ask(question, transport)).await;
        let trouble = match asked {
            Ok(Ok(answer)) => return self.judge(upstream, question, answer, tried),
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::Timeout {
                operation: "ask upstream",
            },
        };
        upstream.check_health();
        tried.failed += 1;
        let failure = Failure::no_answer(&upstream.label, &trouble);
        if self.limits.max_attempts != 0 && tried.failed >= self.limits.max_attempts {
            return Step::Done(Err(failure));
        }
        tried.failure = Some(failure);
        Step::Next
    }

    fn judge(
        &self,
        upstream: &Upstream,
        question: &Question,
        mut answer: Message,
        tried: &mut Tried,
    ) -> Step {
        if let Err(reason) = check::keep_relevant(question, &mut answer) {
            return Step::Done(Err(Failure::Unusable {
                to: Arc::clone(&upstream.label),
                reason,
            }));
        }
        if self.limits.failover.contains(&answer.response_code) {
            tried.answer = Some(answer);
            return Step::Next;
        }
        Step::Done(Ok(answer))
    }
}
