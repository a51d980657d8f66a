//! Finds out whether another program changed rules since they were listed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::legacy_tables::{self, Family, Size};
use sluice_nft::{Connection, Kernel as _};

use crate::programs::{Programs, QUICK, RestoreError, Variant};
use crate::rule::Table;
use crate::script::Script;

/// How often the state is compared: kube-proxy looks for its canary as often.
const PERIOD: Duration = Duration::from_secs(30);
/// All rules are listed again after so many times the duration of a listing, at the earliest.
const PARTS: u32 = 50;

/// Shortest timeout of a write of no lines: 60 times what legacy tables of 5,000 Services take on a usual machine
/// (docs/benchmarks.md). A write that is killed although it would have ended costs a listing of all rules, which is minutes where
/// writes are slow, and while a program hangs nothing else is written: only the caller has the rules, so it waits.
const SHORTEST: Duration = Duration::from_secs(10);
/// Timeout of a write of no lines, in durations of the last one.
const TIMES: u32 = 20;

/// Why rules have to be listed again.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no nf_tables, or we may not use it.
    #[error("open a netlink socket")]
    Open(#[source] sluice_netlink::SocketError),
    /// The kernel could not be asked.
    #[error(transparent)]
    Ask(#[from] RequestError),
    /// Another program changed rules.
    #[error("somebody else changed rules")]
    Changed,
}

/// Compares the kernel's state with the state after our last listing or write. Our programs are run
/// by [`restore`](Self::restore), so that our own changes are known.
#[derive(Debug)]
pub struct Watch {
    kernel: Kernel,
    /// The state after our last listing or write; `None` after a change by another program.
    known: Option<State>,
    /// When the last listing began, and how long it took.
    listed: (Instant, Duration),
    /// How long the last write of each family took.
    written: BTreeMap<IpFamily, Duration>,
}

#[derive(Debug)]
enum Kernel {
    Nft(Connection),
    /// The families to compare: for others the kernel would look for modules each time.
    Legacy(Vec<IpFamily>),
}

/// A value that changes with nearly every change of rules.
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
            known: None,
            listed: (Instant::now(), Duration::ZERO),
            written: BTreeMap::new(),
        })
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

    /// Runs a script with the programs. Its timeout follows from the family's last write.
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
        // A state that cannot be read counts as changed.
        let before = self
            .state()
            .ok()
            .filter(|it| Some(it) == self.known.as_ref());
        let last = self.written.get(&family).copied();
        let began = Instant::now();
        let result = programs.within(timeout(last)).restore(family, script);
        if result.is_ok() {
            self.written.insert(family, began.elapsed());
        }
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

    /// Whether no change by another program is known since the last listing.
    pub fn is_unchanged(&mut self) -> bool {
        self.is_known().unwrap_or_default()
    }

    /// Whether it is certain that no other program changed rules since the last listing.
    pub fn is_undisturbed(&mut self) -> bool {
        matches!(self.kernel, Kernel::Nft(_)) && self.is_unchanged()
    }

    /// Compares. Returns how long to wait before the next comparison.
    ///
    /// # Errors
    ///
    /// Any [`WatchError`]: rules have to be listed again.
    pub fn upkeep(&mut self) -> Result<Duration, WatchError> {
        if self.is_known()? {
            return Ok(PERIOD);
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

/// Timeout of a write of no lines after one that took so long.
fn timeout(last: Option<Duration>) -> Duration {
    last.map_or(QUICK, |it| (it * TIMES).clamp(SHORTEST, QUICK))
}

/// The size of every table of these families.
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

    #[test]
    fn a_program_that_hangs_is_killed_by_what_the_last_write_took() {
        let after = |millis| timeout(Some(Duration::from_millis(millis))).as_secs();
        assert_eq!([after(40), after(600), after(43_000)], [10, 12, 60]);
        assert_eq!(timeout(None), QUICK);
    }

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
