//! Which families are served: one that cannot be does not hold up the other.

use std::fs;
use std::time::Instant;

use sluice_model::IpFamily;
use sluice_reconcile::Backoff;
use sluice_reconcile::{BackendError, Upkeep};
use sluice_xtables::parse::Ruleset;
use sluice_xtables::programs::{Programs, RestoreError, RunError, SaveError};
use sluice_xtables::rule::Table;
use tracing::warn;

use crate::apply;
use crate::held::Held;
use crate::kernel::{Kernel, failed};
use crate::object::{Key, Object};

/// Whether the operator switched IPv6 off.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// The other family waits while a lost one is tried: for one in so many parts of the time, at most.
const PARTS: u32 = 10;

/// A family that cannot be served.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) family: IpFamily,
    pub(crate) reason: String,
    /// What is tried again.
    pub(crate) undone: Undone,
}

/// What does not work.
#[derive(Debug)]
pub(crate) enum Undone {
    /// To read its rules.
    Read(SaveError),
    /// To write these sets and chains; none when the programs do not even run.
    Write(Vec<(Key, Object)>),
}

impl Loss {
    fn unread(family: IpFamily, error: SaveError) -> Self {
        Self {
            family,
            reason: error.to_string(),
            undone: Undone::Read(error),
        }
    }

    fn try_again(self, kernel: &mut Kernel, held: &mut Held) -> Result<(), Self> {
        let Self { family, undone, .. } = self;
        match undone {
            Undone::Read(error) => read_again(&kernel.programs, family, &error)
                .map_err(|error| Self::unread(family, error)),
            Undone::Write(missing) => {
                write_again(kernel, held, family, &missing).map_err(|reason| Self {
                    family,
                    reason,
                    undone: Undone::Write(missing),
                })
            }
        }
    }
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
                        undone: Undone::Write(Vec::new()),
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
                Err(error) if self.served().len() > 1 => self.lose(Loss::unread(family, error)),
                Err(error) => return Err(failed("read rules", error)),
            }
        }
        Ok(rulesets)
    }

    /// Tries again when it is time, and asks for a resync as soon as it works.
    pub(crate) fn wait_for_lost(&mut self, kernel: &mut Kernel, held: &mut Held) -> Upkeep {
        let Some(family) = self.lost().map(|it| it.family) else {
            return Upkeep::Nothing;
        };
        if self.backoff.due().is_none_or(|due| due <= Instant::now()) {
            let began = Instant::now();
            let tried = self.lost.take().map(|it| it.try_again(kernel, held));
            self.lost = tried.and_then(Result::err);
            if self.lost.is_none() {
                return Upkeep::Resync(format!("{family} can be served now"));
            }
            let now = Instant::now();
            self.backoff.fail(now);
            self.backoff.postpone(now + began.elapsed() * PARTS);
        }
        self.backoff.left(Instant::now()).into()
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

/// A table that only nft can show is asked for alone, which takes no time as long as it is so.
fn read_again(programs: &Programs, family: IpFamily, error: &SaveError) -> Result<(), SaveError> {
    match error {
        &SaveError::Incompatible { table, .. } => match programs.hides(family, table)? {
            true => Err(SaveError::Incompatible { family, table }),
            false => Ok(()),
        },
        SaveError::Failed { source, .. } => {
            let read = patient(programs, source).save(family, &Table::ALL);
            read.map(drop)
        }
    }
}

/// Very many rules take long to list, which is no reason not to serve them; a program that hung may
/// hang again.
fn patient(programs: &Programs, failed: &RunError) -> Programs {
    match failed {
        RunError::TimedOut { .. } => programs.hurried(),
        RunError::Start { .. } | RunError::Failed { .. } => programs.clone(),
    }
}

fn write_again(
    kernel: &mut Kernel,
    held: &mut Held,
    family: IpFamily,
    missing: &[(Key, Object)],
) -> Result<(), String> {
    probe(kernel, family).map_err(|error| error.to_string())?;
    let written = apply::try_foundation(kernel, held, family, missing);
    written.map_err(|error| error.to_string())
}

fn probe(kernel: &Kernel, family: IpFamily) -> Result<(), RestoreError> {
    kernel.programs.probe(family, &Table::ALL)
}

#[cfg(test)]
mod tests {
    use sluice_lab::write_program;
    use sluice_xtables::programs::Variant;

    use super::*;

    /// `nat` has few rules; all tables have so many that only nft can show them all.
    const PROGRAM: &str = "case \"$*\" in
    --version) echo 'iptables v1.8.9 (nf_tables)' ;;
    '-t nat') echo '*nat' ;;
    *) echo '# Table `filter'\\'' is incompatible, use '\\''nft'\\'' tool.' ;;
esac";

    fn programs() -> (tempfile::TempDir, Programs) {
        let folder = tempfile::tempdir().unwrap();
        for family in ["iptables", "ip6tables"] {
            for verb in ["restore", "save"] {
                let path = folder.path().join(format!("{family}-nft-{verb}"));
                write_program(&path, PROGRAM).unwrap();
            }
        }
        let programs = Programs::find_in(Variant::Nft, folder.path().as_os_str()).unwrap();
        (folder, programs)
    }

    #[test]
    fn a_table_in_the_way_is_asked_for_alone() {
        let (_folder, programs) = programs();
        let read = |table| {
            let family = IpFamily::V6;
            let error = SaveError::Incompatible { family, table };
            read_again(&programs, family, &error)
        };
        assert!(read(Table::Nat).is_ok());
        assert!(matches!(
            read(Table::Filter),
            Err(SaveError::Incompatible { .. })
        ));
    }

    #[test]
    fn only_a_program_that_hung_is_hurried() {
        let (_folder, programs) = programs();
        let program = "/sbin/ip6tables-nft-save";
        let failed = RunError::Failed {
            program: program.into(),
            problem: "signal: 11".into(),
        };
        assert_eq!(patient(&programs, &failed), programs);
        let hung = RunError::TimedOut {
            program: program.into(),
            arguments: String::new(),
            seconds: 1805,
        };
        assert_eq!(patient(&programs, &hung), programs.hurried());
        assert_ne!(programs, programs.hurried());
    }
}
