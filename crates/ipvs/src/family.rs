//! Which families are served: one that cannot be does not hold up the other.

use std::fs;
use std::time::Instant;

use sluice_core::backend::{BackendError, Upkeep};
use sluice_core::backoff::Backoff;
use sluice_core::model::IpFamily;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::programs::RestoreError;
use sluice_xtables::rule::Table;
use tracing::warn;

use crate::apply;
use crate::held::Held;
use crate::kernel::{Kernel, failed};
use crate::object::{Key, Object};

/// Whether the operator switched IPv6 off.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// A family that cannot be served.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) family: IpFamily,
    pub(crate) reason: String,
    /// The sets and chains that are to be written; empty when the programs do not even run, or its
    /// rules cannot be read.
    pub(crate) missing: Vec<(Key, Object)>,
}

/// The families that are served.
#[derive(Debug)]
pub(crate) struct Families {
    /// Those that the machine has.
    all: Vec<IpFamily>,
    lost: Option<Loss>,
    /// When the lost one is tried again.
    backoff: Backoff,
}

impl Families {
    /// Those of `wanted` that the machine has. Without IPv4 there is nothing to do.
    pub(crate) fn ask(kernel: &Kernel, wanted: &[IpFamily]) -> Result<Self, BackendError> {
        let mut families = Self {
            all: Vec::new(),
            lost: None,
            backoff: Backoff::default(),
        };
        for family in wanted {
            if *family == IpFamily::V6
                && let Some(reason) = no_ipv6()
            {
                warn!(
                    reason,
                    "IPv6 is not available: only IPv4 Services are served"
                );
                continue;
            }
            families.all.push(*family);
            match (probe(kernel, *family), family) {
                (Ok(()), _) => {}
                (Err(error), IpFamily::V6) if !matches!(error, RestoreError::Locked { .. }) => {
                    families.lose(Loss {
                        family: *family,
                        reason: error.to_string(),
                        missing: Vec::new(),
                    });
                }
                (Err(error), _) => return Err(failed("ask for iptables", error)),
            }
        }
        Ok(families)
    }

    /// Those that the machine has, whether or not they are served now.
    pub(crate) fn all(&self) -> &[IpFamily] {
        &self.all
    }

    /// Those that are served now, IPv4 first.
    pub(crate) fn served(&self) -> Vec<IpFamily> {
        let all = self.all.iter().copied();
        all.filter(|it| self.serves(*it)).collect()
    }

    pub(crate) fn serves(&self, family: IpFamily) -> bool {
        self.all.contains(&family) && self.lost().is_none_or(|it| it.family != family)
    }

    /// The one that is not served; `None` when all are.
    pub(crate) fn lost(&self) -> Option<&Loss> {
        self.lost.as_ref()
    }

    /// A family is not served from now on.
    pub(crate) fn lose(&mut self, loss: Loss) {
        self.lost = Some(loss);
        self.backoff.fail(Instant::now());
    }

    /// What all need was written.
    pub(crate) fn written(&mut self) {
        if self.lost.is_none() {
            self.backoff.succeed();
        }
    }

    /// The rules of those that are served. One whose rules cannot be read is not served any more,
    /// unless there is no other.
    pub(crate) fn list(
        &mut self,
        kernel: &Kernel,
    ) -> Result<Vec<(IpFamily, Ruleset)>, BackendError> {
        let mut rulesets = Vec::new();
        for family in self.served() {
            match kernel.programs.save(family, &Table::ALL) {
                Ok(listing) => rulesets.push((family, listing.rules)),
                Err(error) if self.served().len() > 1 => self.lose(Loss {
                    family,
                    reason: error.to_string(),
                    missing: Vec::new(),
                }),
                Err(error) => return Err(failed("read rules", error)),
            }
        }
        Ok(rulesets)
    }

    /// Serves the lost family from now on if that has become possible.
    pub(crate) fn ask_again(&mut self, kernel: &mut Kernel, held: &mut Held) {
        let Some(loss) = &mut self.lost else { return };
        let tried = match loss.missing.is_empty() {
            true => try_programs(kernel, loss.family),
            false => {
                let tried = apply::try_foundation(kernel, held, loss);
                tried.map_err(|error| error.to_string())
            }
        };
        match tried {
            Ok(()) => self.lost = None,
            Err(reason) => {
                loss.reason = reason;
                self.backoff.fail(Instant::now());
            }
        }
    }

    /// Tries again when it is time, and asks for a resync as soon as it works.
    pub(crate) fn wait_for_lost(&mut self, kernel: &mut Kernel, held: &mut Held) -> Upkeep {
        let Some(family) = self.lost().map(|it| it.family) else {
            return Upkeep::Nothing;
        };
        if self.backoff.due().is_none_or(|due| due <= Instant::now()) {
            self.ask_again(kernel, held);
        }
        if self.lost().is_none() {
            return Upkeep::Resync(format!("{family} can be served now"));
        }
        let left = |due: Instant| due.saturating_duration_since(Instant::now());
        self.backoff.due().map(left).into()
    }
}

/// Why there is no IPv6; `None` when there is.
fn no_ipv6() -> Option<String> {
    match fs::read_to_string(NO_IPV6) {
        Ok(text) if text.trim() == "0" => None,
        Ok(_) => Some(format!("{NO_IPV6} is set")),
        Err(error) => Some(format!("{NO_IPV6}: {error}")),
    }
}

/// Whether rules can be written and read. A program that hangs must not hold up the other family.
fn try_programs(kernel: &Kernel, family: IpFamily) -> Result<(), String> {
    probe(kernel, family).map_err(|error| error.to_string())?;
    let read = kernel.programs.hurried().save(family, &Table::ALL);
    read.map(drop).map_err(|error| error.to_string())
}

fn probe(kernel: &Kernel, family: IpFamily) -> Result<(), RestoreError> {
    kernel.programs.probe(family, &Table::ALL)
}
