//! Questions about the plan, which the agent's thread answers between two syncs.

use std::fmt;

use serde::Serialize;
use sluice_plan::Planner;
use tokio::sync::oneshot;

/// Something to be read from the planner.
pub struct Question(Box<dyn FnOnce(&Planner) + Send>);

impl Question {
    /// A question, and where its answer arrives.
    pub(crate) fn about<T: Send + 'static>(
        ask: impl FnOnce(&Planner) -> T + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let (reply, answer) = oneshot::channel();
        let ask = move |planner: &Planner| {
            // The client may have gone away.
            let _ = reply.send(ask(planner));
        };
        (Self(Box::new(ask)), answer)
    }

    /// A question, and where its answer arrives: JSON, or one line that says what is wrong with the
    /// question.
    pub(crate) fn new<T, E>(
        ask: impl FnOnce(&Planner) -> Result<T, E> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<String, String>>)
    where
        T: Serialize,
        E: fmt::Display,
    {
        Self::about(move |planner| {
            let answer = ask(planner).map_err(|it| it.to_string());
            answer.and_then(|it| serde_json::to_string(&it).map_err(|it| it.to_string()))
        })
    }

    /// Answers it.
    pub(crate) fn answer(self, planner: &Planner) {
        (self.0)(planner);
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}
