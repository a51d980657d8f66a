//! Whether IPv6 can be served beside IPv4.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use sluice_core::model::IpFamily;
use sluice_netlink::legacy_tables::{self, Family, Size};
use sluice_xtables::programs::{Programs, RestoreError, Variant};
use sluice_xtables::rule::Table;
use tracing::{debug, info};

/// How often a program that did not work is tried again while nothing else happens.
const PERIOD: Duration = Duration::from_secs(30);
/// There as long as the kernel has IPv6.
const ADDRESSES: &str = "/proc/thread-self/net/if_inet6";

/// What is known of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// Its rules are written as those of IPv4.
    Served,
    /// This kernel has none, or no tables for it.
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
}

impl Families {
    /// What the machine has. Without IPv4 there is nothing to do.
    pub(crate) fn ask(programs: &Programs) -> Result<Self, RestoreError> {
        probe(programs, IpFamily::V4)?;
        Ok(Self {
            ipv6: ask(programs),
            tried: Instant::now(),
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

    /// Serves IPv6 from now on if that has become possible.
    pub(crate) fn ask_again(&mut self, programs: &Programs) {
        if !matches!(self.ipv6, Ipv6::Awaited(_)) {
            return;
        }
        self.tried = Instant::now();
        self.ipv6 = ask(programs);
        match &self.ipv6 {
            Ipv6::Served => info!("ip6tables works now: IPv6 is served as well"),
            Ipv6::Awaited(reason) | Ipv6::Impossible(reason) => {
                debug!(reason, "still no ip6tables");
            }
        }
    }

    /// When to try again; `None` when there is nothing to wait for, an error as soon as it works.
    pub(crate) fn due(&mut self, programs: &Programs) -> Result<Option<Duration>, &'static str> {
        if !matches!(self.ipv6, Ipv6::Awaited(_)) {
            return Ok(None);
        }
        if self.tried.elapsed() >= PERIOD {
            self.tried = Instant::now();
            if probe(programs, IpFamily::V6).is_ok() {
                return Err("ip6tables works now");
            }
        }
        Ok(Some(PERIOD.saturating_sub(self.tried.elapsed())))
    }
}

fn ask(programs: &Programs) -> Ipv6 {
    match probe(programs, IpFamily::V6) {
        Ok(()) => Ipv6::Served,
        Err(error) => {
            let table = (programs.variant() == Variant::Legacy)
                .then(|| legacy_tables::size(Family::Ipv6, Table::Filter.as_str()));
            failed(error.to_string(), Path::new(ADDRESSES).exists(), table)
        }
    }
}

/// What a failure means in a kernel that has IPv6 or not, and has the table or not.
fn failed(reason: String, has_ipv6: bool, table: Option<io::Result<Size>>) -> Ipv6 {
    let lacking = [
        // The table, its protocol's tables, its protocol.
        Errno::ENOENT,
        Errno::ENOPROTOOPT,
        Errno::EAFNOSUPPORT,
    ];
    let number = match table {
        Some(Err(error)) => error.raw_os_error(),
        Some(Ok(_)) | None => None,
    };
    let lacks_table = number.is_some_and(|it| lacking.contains(&Errno::from_raw(it)));
    match !has_ipv6 || lacks_table {
        true => Ipv6::Impossible(reason),
        false => Ipv6::Awaited(reason),
    }
}

fn probe(programs: &Programs, family: IpFamily) -> Result<(), RestoreError> {
    programs.probe(family, &[Table::Filter, Table::Nat])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_lacks_is_given_up() {
        let error = |number: Errno| Some(Err(io::Error::from(number)));
        let size = || {
            Some(Ok(Size {
                entries: 4,
                bytes: 640,
            }))
        };
        let is_awaited = |has_ipv6: bool, table: Option<io::Result<Size>>| {
            matches!(failed("no".into(), has_ipv6, table), Ipv6::Awaited(_))
        };
        for (has_ipv6, table, expected) in [
            (true, None, true),
            (false, None, false),
            (true, size(), true),
            (false, size(), false),
            (true, error(Errno::ENOENT), false),
            (true, error(Errno::ENOPROTOOPT), false),
            (true, error(Errno::EAFNOSUPPORT), false),
            (true, error(Errno::EPERM), true),
            (true, error(Errno::ENOMEM), true),
        ] {
            let said = format!("{has_ipv6} {table:?}");
            assert_eq!(is_awaited(has_ipv6, table), expected, "{said}");
        }
    }
}
