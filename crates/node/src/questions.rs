//! Questions about the plan, which the agent's thread answers between two syncs.

use std::fmt;

use serde::Serialize;
use sluice_plan::Planner;
use tokio::sync::oneshot;

/// Something to be read from the planner.
pub struct Question(Box<dyn FnOnce(&Planner) + Send>);

impl Question {
    /// A question, and where its answer arrives: JSON, or one line that says what is wrong with the
    /// question.
    pub(crate) fn new<T, E>(
        ask: impl FnOnce(&Planner) -> Result<T, E> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<String, String>>)
    where
        T: Serialize,
        E: fmt::Display,
    {
        let (reply, answer) = oneshot::channel();
        let ask = move |planner: &Planner| {
            let answer = ask(planner).map_err(|it| it.to_string());
            let json =
                answer.and_then(|it| serde_json::to_string(&it).map_err(|it| it.to_string()));
            // The client may have gone away.
            let _ = reply.send(json);
        };
        (Self(Box::new(ask)), answer)
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
