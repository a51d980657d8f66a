//! Whether IPv6 can be served beside IPv4.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_reconcile::Backoff;
use sluice_reconcile::Upkeep;
use sluice_xtables::programs::{Listing, Programs, RestoreError, SaveError};
use sluice_xtables::rule::Table;
use sluice_xtables::watch::PARTS;
use tracing::warn;

use crate::layout;

/// How long a listing of IPv6 may take at least; in proportion, more than that of IPv4: one that
/// hangs must not hold that up for long.
const QUICK: Duration = Duration::from_secs(60);
const TIMES: u32 = 10;
/// How long IPv6 that could not be written is left alone; twice as long each time.
const REST: Duration = Duration::from_secs(30);
/// The longest that IPv6 waits before it is tried again.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// There as long as the kernel has IPv6.
const ADDRESSES: &str = "/proc/thread-self/net/if_inet6";

/// What is known of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// Its rules are written as those of IPv4.
    Served,
    /// This kernel has none.
    Impossible(String),
    /// The program failed for this reason, which may pass: it is tried again.
    Awaited(String),
}

/// The families that are served. What takes IPv6 away costs one sync, at most: those that follow serve
/// IPv4 alone, until [`upkeep`](Self::upkeep) finds that IPv6 works.
#[derive(Debug)]
pub(crate) struct Families {
    ipv6: Ipv6,
    /// When it is tried again.
    backoff: Backoff,
    /// How often in a row it could be read and not be written.
    unwritten: u32,
    /// How long it took to list the rules of IPv4.
    look: Duration,
}

impl Families {
    /// What the machine has. Without IPv4 there is nothing to do.
    pub(crate) fn ask(programs: &Programs) -> Result<Self, RestoreError> {
        probe(programs, IpFamily::V4)?;
        let mut families = Self {
            ipv6: ask(programs),
            backoff: Backoff::default(),
            unwritten: 0,
            look: Duration::ZERO,
        };
        if matches!(families.ipv6, Ipv6::Awaited(_)) {
            families.backoff.fail(Instant::now());
        }
        Ok(families)
    }

    pub(crate) fn ipv6(&self) -> &Ipv6 {
        &self.ipv6
    }

    /// Those that are served, IPv4 first.
    pub(crate) fn served(&self) -> &'static [IpFamily] {
        match self.ipv6 {
            Ipv6::Served => &IpFamily::ALL,
            Ipv6::Impossible(_) | Ipv6::Awaited(_) => &[IpFamily::V4],
        }
    }

    /// The rules of those that are served. IPv6 that cannot be read is not served any more.
    ///
    /// # Errors
    ///
    /// The rules of IPv4 cannot be read.
    pub(crate) fn list(
        &mut self,
        programs: &Programs,
    ) -> Result<Vec<(IpFamily, Listing)>, SaveError> {
        let began = Instant::now();
        let listing = programs.save(IpFamily::V4, layout::READ)?;
        self.look = began.elapsed();
        let mut listings = vec![(IpFamily::V4, listing)];
        if self.ipv6 == Ipv6::Served {
            let began = Instant::now();
            match self.list_ipv6(programs) {
                Ok(listing) => listings.push((IpFamily::V6, listing)),
                Err(error) => self.await_ipv6(error.to_string(), began.elapsed() * PARTS),
            }
        }
        Ok(listings)
    }

    fn list_ipv6(&self, programs: &Programs) -> Result<Listing, SaveError> {
        let patience = QUICK.max(self.look * TIMES);
        let programs = programs.clone().with_patience(patience);
        programs.save(IpFamily::V6, layout::READ)
    }

    /// IPv6 could not be written, for this reason.
    pub(crate) fn lose_ipv6(&mut self, reason: String) {
        let rest = REST * (1 << self.unwritten.min(7));
        self.unwritten = self.unwritten.saturating_add(1);
        self.await_ipv6(reason, rest.max(self.look * PARTS));
    }

    /// All of those that are served was written.
    pub(crate) fn written(&mut self) {
        if self.ipv6 == Ipv6::Served {
            self.backoff.succeed();
            self.unwritten = 0;
        }
    }

    fn await_ipv6(&mut self, reason: String, rest: Duration) {
        self.ipv6 = Ipv6::Awaited(reason);
        self.backoff.fail(Instant::now());
        self.backoff.postpone(Instant::now() + rest.min(LONGEST));
    }

    /// Tries IPv6 again when it is time, and asks for a resync as soon as it works.
    pub(crate) fn upkeep(&mut self, programs: &Programs) -> Upkeep {
        if !matches!(self.ipv6, Ipv6::Awaited(_)) {
            return Upkeep::Nothing;
        }
        let left = self.backoff.left(Instant::now());
        if let Some(left) = left.filter(|it| !it.is_zero()) {
            return Upkeep::After(left);
        }
        let began = Instant::now();
        let found = match ask(programs) {
            Ipv6::Served => {
                let listed = self.list_ipv6(programs);
                listed.map_or_else(|it| Ipv6::Awaited(it.to_string()), |_| Ipv6::Served)
            }
            other => other,
        };
        match found {
            Ipv6::Served => {
                self.ipv6 = Ipv6::Served;
                self.backoff.begin();
                Upkeep::Resync("IPv6 can be served now".into())
            }
            Ipv6::Awaited(reason) => {
                self.await_ipv6(reason, began.elapsed() * PARTS);
                self.backoff.left(Instant::now()).into()
            }
            Ipv6::Impossible(reason) => {
                warn!(reason, "this kernel has no IPv6 any more");
                self.ipv6 = Ipv6::Impossible(reason);
                Upkeep::Nothing
            }
        }
    }
}

/// What the kernel lacks beside IPv6 itself may be a module that somebody loads later.
fn ask(programs: &Programs) -> Ipv6 {
    match probe(programs, IpFamily::V6) {
        Ok(()) => Ipv6::Served,
        Err(error) if Path::new(ADDRESSES).exists() => Ipv6::Awaited(error.to_string()),
        Err(error) => Ipv6::Impossible(error.to_string()),
    }
}

fn probe(programs: &Programs, family: IpFamily) -> Result<(), RestoreError> {
    programs.probe(family, &[Table::Filter, Table::Nat])
}

#[cfg(test)]
mod tests {
    use sluice_lab::{Netns, require_netns};
    use sluice_xtables::programs::Variant;

    use super::*;

    fn waits(families: &mut Families, programs: &Programs) -> Duration {
        match families.upkeep(programs) {
            Upkeep::After(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    /// What can be read and tried, and not be written, costs ever fewer syncs.
    #[test]
    fn ipv6_that_cannot_be_written_is_left_alone_ever_longer() {
        require_netns!();
        Netns::new("families").unwrap().run(|| {
            let programs = Programs::find(Variant::Nft).unwrap();
            let mut families = Families::ask(&programs).unwrap();
            assert_eq!(families.served(), IpFamily::ALL);
            let mut last = Duration::from_secs(20);
            for _ in 0..5 {
                families.lose_ipv6("no room".into());
                families.written();
                assert_eq!(families.served(), [IpFamily::V4]);
                let wait = waits(&mut families, &programs);
                assert!(wait > last, "{wait:?} after {last:?}");
                last = wait;
                families.backoff.hasten(Instant::now());
                assert!(matches!(families.upkeep(&programs), Upkeep::Resync(_)));
                assert_eq!(families.served(), IpFamily::ALL);
            }
            families.written();
            families.lose_ipv6("no room".into());
            assert!(waits(&mut families, &programs) < last);
        });
    }
}
