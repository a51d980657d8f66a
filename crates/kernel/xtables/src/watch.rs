//! Whether somebody else changed rules since they were listed.

use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::legacy_tables::{self, Family, Size};
use sluice_netlink::nftables::Connection;

use crate::programs::{Programs, RestoreError, Variant};
use crate::rule::Table;
use crate::script::Script;

/// How often rules are compared, if nothing else is said: kube-proxy looks for its canary as often.
const PERIOD: Duration = Duration::from_secs(30);
/// Listing all rules may take one part in so many of the time.
const PARTS: u32 = 50;

/// Why it is not known that nobody else changed rules.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no nf_tables, or we may not use it.
    #[error("open a netlink socket")]
    Open(#[source] sluice_netlink::SocketError),
    /// The kernel could not be asked.
    #[error(transparent)]
    Ask(#[from] RequestError),
    /// Rules are to be listed again.
    #[error("somebody else changed rules")]
    Changed,
}

/// Compares the kernel's state with the state after our last listing or write. Our programs are run
/// by [`restore`](Self::restore), so that our own changes are known.
#[derive(Debug)]
pub struct Watch {
    kernel: Kernel,
    period: Duration,
    /// The state in which nobody but us has changed anything since the last listing; `None` after
    /// somebody has.
    known: Option<State>,
    /// When the last listing began, and how long it took.
    listed: (Instant, Duration),
}

#[derive(Debug)]
enum Kernel {
    Nft(Connection),
    /// These families only: the kernel would look for the modules of others each time.
    Legacy(Vec<IpFamily>),
}

/// What changes with nearly every change of rules.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The generation of nf_tables' ruleset, which grows by one with each transaction.
    Generation(u32),
    /// The sizes of the legacy tables. A rule may be replaced by another one of its size.
    Sizes(Vec<Option<Size>>),
}

impl Watch {
    /// Watches the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`WatchError::Open`].
    pub fn open(variant: Variant) -> Result<Self, WatchError> {
        let kernel = match variant {
            Variant::Nft => Kernel::Nft(Connection::open().map_err(WatchError::Open)?),
            Variant::Legacy => Kernel::Legacy(Vec::new()),
        };
        Ok(Self {
            kernel,
            period: PERIOD,
            known: None,
            listed: (Instant::now(), Duration::ZERO),
        })
    }

    /// Compares once in this time, in place of 30 s.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// The rules of these families are about to be listed: changes from now on are noticed.
    ///
    /// # Errors
    ///
    /// [`WatchError::Ask`].
    pub fn begin(&mut self, families: &[IpFamily]) -> Result<(), WatchError> {
        if let Kernel::Legacy(watched) = &mut self.kernel {
            *watched = families.to_vec();
        }
        self.listed.0 = Instant::now();
        self.known = Some(self.state()?);
        Ok(())
    }

    /// The rules were listed.
    pub fn listed(&mut self) {
        self.listed.1 = self.listed.0.elapsed();
    }

    /// Has the programs carry out a script.
    ///
    /// # Errors
    ///
    /// As [`Programs::restore`].
    pub fn restore(
        &mut self,
        programs: &Programs,
        family: IpFamily,
        script: &Script<'_>,
    ) -> Result<(), RestoreError> {
        // A state that cannot be asked for is as good as one that somebody changed.
        let before = self
            .state()
            .ok()
            .filter(|it| Some(it) == self.known.as_ref());
        let result = programs.restore(family, script);
        let after = self.state().ok();
        self.known = match (before, &after) {
            (Some(State::Generation(before)), Some(State::Generation(now))) => {
                let is_ours = now.wrapping_sub(before) <= script.commits();
                after.filter(|_| is_ours)
            }
            (Some(State::Sizes(_)), _) => after,
            _ => None,
        };
        result
    }

    /// Whether nobody else is known to have changed anything since the last listing.
    pub fn is_unchanged(&mut self) -> bool {
        self.is_known().unwrap_or_default()
    }

    /// Whether it is certain that nobody else has changed anything since the last listing.
    pub fn is_undisturbed(&mut self) -> bool {
        matches!(self.kernel, Kernel::Nft(_)) && self.is_unchanged()
    }

    /// Compares. Returns how long to wait before the next comparison.
    ///
    /// # Errors
    ///
    /// Rules are to be listed again: any [`WatchError`].
    pub fn upkeep(&mut self) -> Result<Duration, WatchError> {
        if self.is_known()? {
            return Ok(self.period);
        }
        let (began, duration) = self.listed;
        match (duration * PARTS).checked_sub(began.elapsed()) {
            Some(wait) => Ok(wait),
            None => Err(WatchError::Changed),
        }
    }

    fn is_known(&mut self) -> Result<bool, WatchError> {
        let now = self.state()?;
        Ok(self.known == Some(now))
    }

    fn state(&mut self) -> Result<State, WatchError> {
        Ok(match &mut self.kernel {
            Kernel::Nft(connection) => State::Generation(connection.generation()?.id),
            Kernel::Legacy(families) => State::Sizes(sizes(families)),
        })
    }
}

/// The size of every table of these families in which we have something.
fn sizes(families: &[IpFamily]) -> Vec<Option<Size>> {
    let sizes = families.iter().flat_map(|family| {
        let family = match family {
            IpFamily::V4 => Family::Ipv4,
            IpFamily::V6 => Family::Ipv6,
        };
        Table::ALL.map(|table| legacy_tables::size(family, table.as_str()).ok())
    });
    sizes.collect()
}

#[cfg(test)]
mod tests {
    use sluice_lab::{Netns, require_netns};

    use super::*;

    /// A machine without IPv6 has no such tables, and none are made by asking for them.
    #[test]
    fn legacy_tables_of_a_family_that_is_not_served_are_left_alone() {
        require_netns!();
        Netns::new("watch").unwrap().run(|| {
            let made = || {
                ["ip", "ip6"].map(|it| {
                    let path = format!("/proc/thread-self/net/{it}_tables_names");
                    std::fs::read_to_string(path).unwrap_or_default()
                })
            };
            let mut watch = Watch::open(Variant::Legacy).unwrap();
            watch.begin(&[IpFamily::V4]).unwrap();
            watch.upkeep().unwrap();
            let [v4, v6] = made();
            assert!(v4.contains("filter"), "{v4}");
            assert_eq!(v6, "");
        });
    }
}
