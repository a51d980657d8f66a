//! Says when the machine stops to forward packets while the agent runs. The kernel tells: the watch on
//! addresses receives its notice.

use sluice_model::IpFamily;
use tracing::{info, warn};

use crate::network::{forwarding_sysctl, forwards};

/// The families whose packets the machine did not forward when it was looked at last.
#[derive(Debug)]
pub(crate) struct Forwarding {
    off: Vec<IpFamily>,
}

impl Forwarding {
    /// As the machine is now: what is off at the start, [`preflight`](crate::preflight) reports.
    pub(crate) fn now() -> Self {
        Self { off: off() }
    }

    /// Logs what changed since the last look.
    pub(crate) fn look(&mut self) {
        let now = off();
        for family in IpFamily::ALL {
            let sysctl = forwarding_sysctl(family);
            match (self.off.contains(&family), now.contains(&family)) {
                (false, true) => warn!(
                    "sysctl {sysctl} was set to 0: only this node itself still reaches endpoints \
                     on other machines or in pods; set it to 1"
                ),
                (true, false) => info!("sysctl {sysctl} is 1 again"),
                _ => {}
            }
        }
        self.off = now;
    }
}

/// The families that the machine has and does not forward.
pub(crate) fn off() -> Vec<IpFamily> {
    let mut all = IpFamily::ALL.to_vec();
    all.retain(|it| forwards(*it) == Some(false));
    all
}
