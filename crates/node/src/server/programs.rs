//! The programs that the loop waits for: they are named, and do not outlive a process that is asked to stop.

use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

/// From this time on a program that runs is named, as often as it passes.
const LONG: Duration = Duration::from_secs(15);

/// The programs of other packages that run for this process.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// The program that runs for the longest time, and how long.
    pub running: fn() -> Option<(String, Duration)>,
    /// Kills all of them.
    pub end_all: fn(),
}

impl Programs {
    /// No programs are run.
    #[must_use]
    pub fn none() -> Self {
        Self {
            running: || None,
            end_all: || {},
        }
    }

    /// What the loop does that gives no answer.
    pub(super) fn busy(self) -> String {
        match (self.running)() {
            Some((what, time)) => format!("waits for {what}, {} s", time.as_secs()),
            None => "with a sync".to_owned(),
        }
    }

    /// Logs what takes long.
    pub(super) async fn watch(self) {
        loop {
            sleep(LONG).await;
            if let Some((program, time)) = (self.running)()
                && time >= LONG
            {
                warn!(
                    program,
                    seconds = time.as_secs(),
                    "a program has not ended yet: waiting"
                );
            }
        }
    }
}
