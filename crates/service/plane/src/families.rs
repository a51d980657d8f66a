//! The IP families that a data plane serves. One that cannot be served does not stop the other.

use std::fmt::Display;
use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_reconcile::{Backoff, Upkeep, Waits};

use crate::Unserved;

/// Timeout of a listing before any has succeeded: `iptables-nft-save` 1.8.9 lists 10,000 Services with
/// 10 endpoints in four minutes of a fast processor.
const FIRST_LISTING: Duration = Duration::from_secs(30 * 60);
/// Shortest timeout of a listing.
const QUICK: Duration = Duration::from_secs(60);
/// Timeout of a listing, in durations of the longest one before: a program that hangs must not stop the
/// other family for long.
const TIMES: u32 = 10;

/// Wait after a try, in durations of the try: the other family waits during the try.
const PARTS: u32 = 50;
/// Longest wait before an unserved family is tried again. A family that can be listed and not be written
/// costs a failed sync each time, so its wait doubles beyond that of [`Backoff`].
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The families of a machine, of which one may be unserved for the moment.
#[derive(Debug)]
pub struct Families {
    /// The families that the machine has, IPv4 first.
    all: Vec<IpFamily>,
    unserved: Option<Unserved>,
    /// When the unserved family is tried again.
    backoff: Backoff,
    /// The waits after writes that fail in a row.
    unwritten: Waits,
    /// The family whose write failed last, until all are written.
    failed: Option<IpFamily>,
    /// The duration of the longest listing when families were listed last.
    listing: Option<Duration>,
}

impl Families {
    /// The families of a machine, IPv4 first, each of which `probe` tries.
    ///
    /// # Errors
    ///
    /// No family works: the error of the last one.
    pub fn open<E: Display>(
        all: Vec<IpFamily>,
        mut probe: impl FnMut(IpFamily) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut families = Self::of(all);
        for family in families.served() {
            probe(family).or_else(|error| families.leave(family, error, Duration::ZERO))?;
        }
        Ok(families)
    }

    /// The families of a machine, which are served until one cannot be listed.
    pub fn of(all: Vec<IpFamily>) -> Self {
        Self {
            all,
            unserved: None,
            backoff: Backoff::default(),
            unwritten: Waits::new(Backoff::FIRST, LONGEST),
            failed: None,
            listing: None,
        }
    }

    /// The families that the machine has, IPv4 first.
    pub fn all(&self) -> &[IpFamily] {
        &self.all
    }

    /// The families that are served, IPv4 first.
    pub fn served(&self) -> Vec<IpFamily> {
        let all = self.all.iter().copied();
        all.filter(|it| self.serves(*it)).collect()
    }

    /// Whether a family is served.
    pub fn serves(&self, family: IpFamily) -> bool {
        self.all.contains(&family) && self.unserved().is_none_or(|it| it.family != family)
    }

    /// The family that is not served, and why.
    pub fn unserved(&self) -> Option<&Unserved> {
        self.unserved.as_ref()
    }

    /// Lists the families that are served. `list` gets the timeout of a listing. Stops serving a family that
    /// cannot be listed.
    ///
    /// # Errors
    ///
    /// No family can be listed: the error of the last one. The next sync tries both.
    pub fn list<T, E: Display>(
        &mut self,
        mut list: impl FnMut(IpFamily, Duration) -> Result<T, E>,
    ) -> Result<Vec<(IpFamily, T)>, E> {
        let mut listings = Vec::new();
        let mut longest = Duration::ZERO;
        for family in self.served() {
            let began = Instant::now();
            let listed = list(family, self.listing_timeout());
            let duration = began.elapsed();
            match listed {
                Ok(listing) => {
                    longest = longest.max(duration);
                    self.listing = self.listing.max(Some(longest));
                    listings.push((family, listing));
                }
                Err(error) => self.leave(family, error, duration * PARTS)?,
            }
        }
        self.listing = Some(longest);
        Ok(listings)
    }

    /// max(60 s, 10 x the longest listing).
    fn listing_timeout(&self) -> Duration {
        let of_listing = |it: Duration| QUICK.max(it * TIMES);
        self.listing.map_or(FIRST_LISTING, of_listing)
    }

    /// Stops serving a family that could be listed, and not be written or probed.
    ///
    /// # Errors
    ///
    /// No other family is served. The next sync tries both.
    pub fn lose<E: Display>(&mut self, family: IpFamily, error: E) -> Result<(), E> {
        self.failed = Some(family);
        let rest = self.unwritten.take();
        let listing = self.listing.unwrap_or_default() * PARTS;
        self.leave(family, error, rest.max(listing))
    }

    /// Resets the backoff after a successful write of all families.
    pub fn written(&mut self) {
        if self.unserved.is_none() {
            self.backoff.succeed();
            self.unwritten.reset();
            self.failed = None;
        }
    }

    /// Whether the last write of this family failed: the other one is written first.
    pub fn has_failed(&self, family: IpFamily) -> bool {
        self.failed == Some(family)
    }

    /// Tries the unserved family again when that is due, and asks for a resync if it works. `probe` gets the
    /// timeout of a listing.
    pub fn upkeep<E: Display>(
        &mut self,
        probe: impl FnOnce(IpFamily, Duration) -> Result<(), E>,
    ) -> Upkeep {
        let timeout = self.listing_timeout();
        let Some(unserved) = &mut self.unserved else {
            return Upkeep::Nothing;
        };
        let began = Instant::now();
        if self.backoff.due().is_none_or(|due| due <= began) {
            match probe(unserved.family, timeout) {
                Ok(()) => {
                    let reason = format!("{} can be served now", unserved.family);
                    self.unserved = None;
                    return Upkeep::Resync(reason);
                }
                Err(error) => {
                    unserved.reason = error.to_string();
                    unserved.retries += 1;
                }
            }
            self.rest(began.elapsed() * PARTS);
        }
        self.backoff.left(Instant::now()).into()
    }

    /// Stops serving a family, and does not try it before this time has passed.
    fn leave<E: Display>(&mut self, family: IpFamily, error: E, wait: Duration) -> Result<(), E> {
        if self.served() == [family] {
            self.unserved = None;
            return Err(error);
        }
        let reason = error.to_string();
        self.unserved = Some(Unserved {
            family,
            reason,
            retries: 0,
        });
        self.rest(wait);
        Ok(())
    }

    fn rest(&mut self, wait: Duration) {
        let now = Instant::now();
        self.backoff.fail(now);
        self.backoff.postpone(now + wait.min(LONGEST));
    }
}

#[cfg(test)]
mod tests;
