//! Warns when the machine stops forwarding packets while the agent runs. The watch on addresses receives the kernel's
//! notice.

use std::fs;

use sluice_model::IpFamily;
use tracing::{info, warn};

/// The families that were not forwarded at the last check.
#[derive(Debug)]
pub(crate) struct Forwarding {
    off: Vec<IpFamily>,
}

impl Forwarding {
    /// The present state of the machine. [`preflight`](crate::preflight) reports the families that are off at the
    /// start.
    pub(crate) fn now() -> Self {
        Self { off: off() }
    }

    /// Logs the changes since the last check.
    pub(crate) fn look(&mut self) {
        let now = off();
        for family in IpFamily::ALL {
            let sysctl = sysctl(family);
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
#[must_use]
pub fn off() -> Vec<IpFamily> {
    let mut all = IpFamily::ALL.to_vec();
    all.retain(|it| forwards(*it) == Some(false));
    all
}

/// The sysctl that forwards packets of a family. Without it only this node itself reaches endpoints on other nodes.
pub fn sysctl(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "net.ipv4.ip_forward",
        IpFamily::V6 => "net.ipv6.conf.all.forwarding",
    }
}

/// Whether the kernel forwards packets, in the network namespace of the calling thread; `None` where it
/// lacks the family.
pub fn forwards(family: IpFamily) -> Option<bool> {
    let path = format!("/proc/sys/{}", sysctl(family).replace('.', "/"));
    let value = fs::read_to_string(path).ok()?;
    Some(value.trim() != "0")
}
