//! Questions to the Service proxy, which the runtime's thread answers between two steps.

use std::sync::Arc;

use axum::response::Response;
use sluice_node::server::await_answer;
use sluice_plan::Planner;
use sluice_plan::inventory::Walk;
use tokio::sync::oneshot;

use crate::status::SyncStatus;

/// The facts that questions read.
pub(crate) trait Facts {
    /// The plan and its inputs.
    fn planner(&self) -> &Planner;
    /// The last syncs, the oldest first.
    fn syncs(&self) -> Vec<SyncStatus>;
}

type Question = Box<dyn FnOnce(&dyn Facts) + Send>;

/// Asks the Service proxy, whichever data plane it has.
#[derive(Clone)]
pub struct Plans(Arc<dyn Fn(Question) -> bool + Send + Sync>);

impl Plans {
    /// `ask` hands a question to the thread of the proxy; `false`: it has stopped.
    pub(crate) fn through(ask: impl Fn(Question) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks the proxy. No answer comes when the agent stops before.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Facts) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        (self.0)(Box::new(move |facts| {
            // The client may have gone away.
            let _ = reply.send(ask(facts));
        }));
        answer
    }

    /// Asks a question about all Services, whose steps let the proxy work in between. The answer has the revision of the
    /// plan at its first step. No answer comes when the agent stops before.
    ///
    /// # Errors
    ///
    /// As of [`await_answer`].
    pub(crate) async fn walk<W: Walk>(&self, mut walk: W) -> Result<(u64, W::Answer), Response> {
        let mut first = None;
        loop {
            let step = self.ask(move |facts| {
                let planner = facts.planner();
                let is_last = walk.step(planner);
                (planner.revision(), is_last, walk)
            });
            let (revision, is_last, rest) = await_answer(step).await?;
            let revision = *first.get_or_insert(revision);
            if is_last {
                return Ok((revision, rest.finish()));
            }
            walk = rest;
        }
    }

    /// Sends a question, which replies itself. `false`: the agent has stopped.
    pub(crate) fn tell(&self, question: impl FnOnce(&dyn Facts) + Send + 'static) -> bool {
        (self.0)(Box::new(question))
    }
}
