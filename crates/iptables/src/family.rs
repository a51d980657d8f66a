//! Whether IPv6 can be served beside IPv4.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_core::backend::Upkeep;
use sluice_core::model::IpFamily;
use sluice_xtables::programs::{Programs, RestoreError};
use sluice_xtables::rule::Table;
use sluice_xtables::watch::PARTS;
use tracing::warn;

use crate::layout;

/// How often a program that did not work is tried again while nothing else happens, at most.
const PERIOD: Duration = Duration::from_secs(30);
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

/// The families that are served.
#[derive(Debug)]
pub(crate) struct Families {
    ipv6: Ipv6,
    /// When the program was tried.
    tried: Instant,
    /// How long nothing is tried then.
    pause: Duration,
}

impl Families {
    /// What the machine has. Without IPv4 there is nothing to do.
    pub(crate) fn ask(programs: &Programs) -> Result<Self, RestoreError> {
        probe(programs, IpFamily::V4)?;
        Ok(Self {
            ipv6: ask(programs),
            tried: Instant::now(),
            pause: PERIOD,
        })
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

    /// IPv6 is not served until what failed for this reason works.
    pub(crate) fn lose_ipv6(&mut self, reason: String) {
        self.ipv6 = Ipv6::Awaited(reason);
        self.tried = Instant::now();
    }

    /// Serves IPv6 from now on if that has become possible.
    pub(crate) fn ask_again(&mut self, programs: &Programs) {
        if !matches!(self.ipv6, Ipv6::Awaited(_)) {
            return;
        }
        self.ipv6 = ask(programs);
        self.tried = Instant::now();
        if let Ipv6::Impossible(reason) = &self.ipv6 {
            warn!(reason, "this kernel has no IPv6 any more");
        }
    }

    /// Tries again when it is time, and asks for a resync as soon as it works.
    pub(crate) fn upkeep(&mut self, programs: &Programs) -> Upkeep {
        if !matches!(self.ipv6, Ipv6::Awaited(_)) {
            return Upkeep::Nothing;
        }
        if self.tried.elapsed() >= self.pause {
            let began = Instant::now();
            let works = probe(programs, IpFamily::V6).is_ok()
                && programs.save(IpFamily::V6, layout::READ).is_ok();
            self.tried = Instant::now();
            // Many rules take long to list, and IPv4 waits meanwhile.
            self.pause = PERIOD.max(began.elapsed() * PARTS);
            if works {
                return Upkeep::Resync("IPv6 can be served now".into());
            }
        }
        Upkeep::After(self.pause.saturating_sub(self.tried.elapsed()))
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
