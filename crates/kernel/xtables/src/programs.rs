//! The programs that read and write the kernel's rules.
//!
//! Their own netlink and socket formats are private to them (blobs of each extension's structures),
//! and both ways of storing rules need translating as the host's programs translate, so that
//! operators' `iptables` reads what we wrote.

mod by_line;
mod detect;
mod error;
mod find;
mod lock;
mod refusal;
mod run;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_model::IpFamily;

use crate::parse::{self, Ruleset};
use crate::rule::Table;
use crate::script::Script;
use by_line::ByLine;
use run::Run;

pub use error::{FindError, RestoreError, RunError, SaveError};
pub use find::{Version, search_path};
pub use lock::{Holder, Lock};

/// Where the kernel keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// In nf_tables, as tables `ip nat` and so on.
    Nft,
    /// In the tables of `ip_tables` and `ip6_tables`.
    Legacy,
}

impl Variant {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    /// How many chains one step may declare before more steps are cheaper.
    ///
    /// `iptables-nft-restore` keeps the chains of a step in a list that it searches for every line
    /// (`nft-cache.c`), so the cost grows with the square. The legacy kernel takes whole tables:
    /// each step costs as much as all rules together.
    pub const fn largest_step(self) -> usize {
        match self {
            Self::Nft => 500,
            Self::Legacy => usize::MAX,
        }
    }

    /// As in `iptables-nft`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How long one run may take, if nothing else is said: `iptables-nft-save` 1.8.9 lists 10,000
/// Services with 10 endpoints in four minutes of a fast processor.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How long an answer may take that does not depend on the rules there are.
const QUICK: Duration = Duration::from_secs(60);

/// One variant's programs for both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    variant: Variant,
    version: Version,
    ipv4: Pair,
    ipv6: Pair,
    lock: Lock,
    patience: Duration,
}

/// The rules of one family.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By table and chain.
    pub rules: Ruleset,
    /// Tables with rules that only `nft` can show: nothing is known of them.
    pub hidden: Vec<Table>,
}

/// What writes and what reads one family's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    restore: PathBuf,
    save: PathBuf,
}

impl Programs {
    /// Those of the variant that this host uses.
    ///
    /// The rules of kubernetes-sigs/iptables-wrappers: the variant in which kubelet left its hint,
    /// nft before legacy; else the one with more rules; nft when that is equal.
    ///
    /// # Errors
    ///
    /// No variant is installed completely, one that is does not run, or the rules cannot be read.
    pub fn detect() -> Result<Self, FindError> {
        detect::detect(&find::search_path())
    }

    /// Those of this variant.
    ///
    /// # Errors
    ///
    /// One is missing, does not run or is too old: [`FindError`].
    pub fn find(variant: Variant) -> Result<Self, FindError> {
        Self::find_in(variant, &find::search_path())
    }

    /// Those of this variant in these folders, which are listed as in PATH. The programs may use
    /// more stack than is usual: the limit of this process is raised, which they inherit.
    ///
    /// # Errors
    ///
    /// As [`Programs::find`].
    pub fn find_in(variant: Variant, path: &OsStr) -> Result<Self, FindError> {
        find::find(variant, path)
    }

    /// The same, waiting for this lock.
    #[must_use]
    pub fn with_lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// The same, with so much time for one run. It is meant for what hangs: a slow machine may list
    /// or write a large ruleset for minutes. Waiting for the lock, and a large input, may take more.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where these keep rules.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Of iptables, at least [`Version::OLDEST`].
    pub fn version(&self) -> Version {
        self.version
    }

    /// The rules of every table that exists, of which those that are no [`Table`]
    /// are left out. Takes no lock.
    ///
    /// # Errors
    ///
    /// The program failed, or a table that is needed has rules that only `nft` can show:
    /// [`SaveError`].
    pub fn save(&self, family: IpFamily, needed: &[Table]) -> Result<Listing, SaveError> {
        let (text, hidden) = self.text(family, &[])?;
        match hidden.iter().find(|it| needed.contains(it)) {
            Some(&table) => Err(SaveError::Incompatible { family, table }),
            None => Ok(Listing {
                rules: parse::parse(&text),
                hidden,
            }),
        }
    }

    /// Whether a table has rules that only `nft` can show. Takes no lock. Lists no other table, and of
    /// one that does not exist one is made.
    ///
    /// # Errors
    ///
    /// The program failed: [`SaveError::Failed`].
    pub fn hides(&self, family: IpFamily, table: Table) -> Result<bool, SaveError> {
        let (_, hidden) = self.text(family, &["-t", table.as_str()])?;
        Ok(hidden.contains(&table))
    }

    /// Shows each line about one table, without counters, as it comes: nobody keeps a listing, which
    /// may be large. Takes no lock. Of a table that does not exist one is made.
    ///
    /// # Errors
    ///
    /// The program failed: [`SaveError::Failed`].
    pub fn read_table(
        &self,
        family: IpFamily,
        table: Table,
        line: impl FnMut(&str),
    ) -> Result<(), SaveError> {
        let arguments = ["-t", table.as_str()];
        self.list(family, &arguments, &mut ByLine::new(line))
    }

    /// The listing as text, and the tables that it leaves out.
    fn text(
        &self,
        family: IpFamily,
        arguments: &[&str],
    ) -> Result<(String, Vec<Table>), SaveError> {
        let mut said = Vec::new();
        self.list(family, arguments, &mut said)?;
        // Comments of others may be anything. A listing is large: not copied without need.
        let text = String::from_utf8(said)
            .unwrap_or_else(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let hidden = refusal::incompatible(&text);
        Ok((text, hidden))
    }

    fn list(
        &self,
        family: IpFamily,
        arguments: &[&str],
        to: &mut dyn Write,
    ) -> Result<(), SaveError> {
        let program = &self.pair(family).save;
        let failed = |source| SaveError::Failed { family, source };
        let finished = self.run(program, arguments).with(&Script::empty(), to);
        let finished = finished.map_err(failed)?;
        match finished.status.success() {
            true => Ok(()),
            false => Err(failed(finished.failure(program))),
        }
    }

    /// Carries out `script`, without touching chains that it does not name, and the counters of
    /// `[packets:bytes]` where it has them. Each table changes at once or not at all, if
    /// [`Lines::may_cut`](crate::script::Lines::may_cut) has made no steps of it.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]: tables and steps before the one that was refused are written.
    pub fn restore(&self, family: IpFamily, script: &Script<'_>) -> Result<(), RestoreError> {
        let program = &self.pair(family).restore;
        let seconds = self.lock.seconds.to_string();
        let arguments = ["--noflush", "--counters", "-w", &seconds];
        let run = self.run(program, &arguments);
        let finished = run.with(script, &mut io::sink())?;
        if finished.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&finished.stderr);
        if refusal::is_locked(&said) {
            return Err(RestoreError::Locked {
                file: self.lock.file.clone(),
                seconds: self.lock.seconds,
                holder: self.lock.holder(),
            });
        }
        match refusal::refused(&said) {
            Some(refused) => {
                let (owner, text) = script.line(refused.line).unwrap_or_default();
                Err(RestoreError::Refused {
                    family,
                    line: refused.line,
                    owner,
                    text,
                    reason: refused.reason,
                })
            }
            None => Err(RestoreError::Failed(finished.failure(program))),
        }
    }

    /// Asks for tables of a family, without changing them and however many rules they have.
    ///
    /// # Errors
    ///
    /// The kernel has no such table, or does not let us use it: [`RestoreError`].
    pub fn probe(&self, family: IpFamily, tables: &[Table]) -> Result<(), RestoreError> {
        let script = Script::new(|lines| tables.iter().for_each(|it| lines.table(*it)));
        self.hurried().restore(family, &script)
    }

    /// The same, for what takes no time however many rules there are.
    #[must_use]
    pub fn hurried(&self) -> Self {
        self.clone().with_patience(self.patience.min(QUICK))
    }

    fn run<'a>(&'a self, program: &'a Path, arguments: &'a [&'a str]) -> Run<'a> {
        Run {
            program,
            arguments,
            lock: &self.lock,
            patience: self.patience,
        }
    }

    fn pair(&self, family: IpFamily) -> &Pair {
        match family {
            IpFamily::V4 => &self.ipv4,
            IpFamily::V6 => &self.ipv6,
        }
    }
}
