//! Runs the programs that read and write the kernel's rules.
//!
//! Rules in the kernel are blobs of private structures of each extension. The host's own programs translate
//! them, so that the operator's `iptables` reads what we write.

mod detect;
mod error;
mod find;
mod pipe;
mod refusal;
mod run;
mod running;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

use sluice_model::IpFamily;

use crate::parse::{self, Ruleset};
use crate::rule::Table;
use crate::script::Script;
use pipe::Pipe;
use run::Run;

pub use detect::Marks;
pub use error::{FindError, RestoreError, RunError, SaveError};
pub use find::{Version, search_path};
pub use running::{end_all, running};

/// The part of the kernel that has the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// In nf_tables, as tables `ip nat` and so on.
    Nft,
    /// In the tables of `ip_tables` and `ip6_tables`.
    Legacy,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    /// How many chains one step may declare before several steps are cheaper.
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

/// Default timeout of a run: `iptables-nft-save` 1.8.9 lists 10,000 Services with 10
/// endpoints in four minutes of a fast processor.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Timeout of a run whose duration does not depend on the rules of the kernel, and longest timeout of a script of no lines.
pub(crate) const QUICK: Duration = Duration::from_secs(60);

/// Timeout of a program that says its version, which takes milliseconds.
const ANSWER: Duration = Duration::from_secs(5);

/// Timeout of a try without rules, to which the seconds of the lock are added: at the start nothing else is done meanwhile.
const TRY: Duration = Duration::from_secs(10);

/// What is added to a timeout for a line of a script: `iptables-nft-restore` 1.8.9 writes several hundred rules in this time.
const LINE: Duration = Duration::from_millis(20);

/// The lock that programs of the legacy variant take while they write. The nft variant has transactions of
/// the kernel instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub file: PathBuf,
    /// How many seconds a program waits until the lock is free.
    pub seconds: u32,
}

impl Default for Lock {
    /// The file of `XTABLES_LOCKFILE`, else the default of the programs; 5 s, as kube-proxy.
    fn default() -> Self {
        let named = find::variable("XTABLES_LOCKFILE").filter(|it| !it.is_empty());
        Self {
            file: named.map_or_else(|| "/run/xtables.lock".into(), PathBuf::from),
            seconds: 5,
        }
    }
}

/// Runs a program in PATH to its end, without input. Its output is dropped.
///
/// # Errors
///
/// The program could not be started, failed, or did not end in time: [`RunError`].
pub fn run(program: &str, arguments: &[&str], timeout: Duration) -> Result<(), RunError> {
    let run = Run {
        program: Path::new(program),
        arguments,
        lock: &Lock::default(),
        timeout,
    };
    run.output(|mut it| io::copy(&mut it, &mut io::sink()))
        .map(drop)
}

/// Runs a program in PATH to its end, without input, and returns its output.
///
/// # Errors
///
/// As [`run`]; output that is not UTF-8 is an error as well.
pub fn output(program: &str, arguments: &[&str], timeout: Duration) -> Result<String, RunError> {
    let run = Run {
        program: Path::new(program),
        arguments,
        lock: &Lock {
            seconds: 0,
            ..Lock::default()
        },
        timeout,
    };
    run.output(io::read_to_string)
}

/// One variant's programs for both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    variant: Variant,
    version: Version,
    ipv4: Pair,
    ipv6: Pair,
    lock: Lock,
    timeout: Duration,
}

/// The rules of one family.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The keys are a table and a chain.
    pub rules: Ruleset,
    /// Tables with rules that only `nft` can show, which are not listed.
    pub hidden: Vec<Table>,
}

/// The programs that write and read one family's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    restore: PathBuf,
    save: PathBuf,
    /// Whether both said their version when they were found.
    answered: bool,
}

impl Programs {
    /// The programs of the variant that this host uses.
    ///
    /// The rules of kubernetes-sigs/iptables-wrappers: the variant in which a hint is,
    /// nft before legacy; else the one with more rules; nft when that is equal.
    ///
    /// # Errors
    ///
    /// No variant is installed completely, one that is does not run for either family, or the rules cannot be read.
    pub fn detect(marks: Marks) -> Result<Self, FindError> {
        detect::detect(&find::search_path(), marks)
    }

    /// The programs of this variant.
    ///
    /// # Errors
    ///
    /// One is missing or too old, or those of neither family run: [`FindError`].
    pub fn find(variant: Variant) -> Result<Self, FindError> {
        Self::find_in(variant, &find::search_path())
    }

    /// The same programs with this lock.
    #[must_use]
    pub fn with_lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// The same programs with this timeout of a run, to which the seconds of the lock are added, and 20 ms for
    /// each line that is written. It is meant for programs that hang: a slow machine may list a large ruleset for minutes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same programs with a timeout of a minute at most, for runs whose duration does not depend
    /// on the rules of the kernel.
    #[must_use]
    pub fn quick(&self) -> Self {
        self.within(QUICK)
    }

    /// The same programs with this timeout at most.
    pub(crate) fn within(&self, timeout: Duration) -> Self {
        self.clone().with_timeout(self.timeout.min(timeout))
    }

    /// The part of the kernel where these programs keep rules.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The version of iptables, at least [`Version::OLDEST`].
    pub fn version(&self) -> Version {
        self.version
    }

    /// The rules of every [`Table`] that exists. Takes no lock.
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

    /// Calls `line` with each line about one table, without counters, as the program prints it: a listing may
    /// be large. Takes no lock, and creates a missing table.
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
        self.read_lines(family, &["-t", table.as_str()], line)
    }

    fn read_lines(
        &self,
        family: IpFamily,
        arguments: &[&str],
        mut line: impl FnMut(&str),
    ) -> Result<(), SaveError> {
        self.list(family, arguments, |stdout| {
            // Comments of others may be any bytes.
            let mut lines = BufReader::new(stdout).split(b'\n');
            lines.try_for_each(|it| {
                line(&String::from_utf8_lossy(&it?));
                Ok(())
            })
        })
    }

    /// Calls `line` with each line about one table, with counters, otherwise as
    /// [`read_table`](Self::read_table).
    ///
    /// # Errors
    ///
    /// The program failed: [`SaveError::Failed`].
    pub fn read_counted(
        &self,
        family: IpFamily,
        table: Table,
        line: impl FnMut(&str),
    ) -> Result<(), SaveError> {
        self.read_lines(family, &["-c", "-t", table.as_str()], line)
    }

    /// The listing as text, and the tables that are not in it.
    fn text(
        &self,
        family: IpFamily,
        arguments: &[&str],
    ) -> Result<(String, Vec<Table>), SaveError> {
        let bytes = self.list(family, arguments, |mut stdout| {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        })?;
        // A listing may be large, so valid text is not copied.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let hidden = refusal::incompatible(&text);
        Ok((text, hidden))
    }

    fn list<T>(
        &self,
        family: IpFamily,
        arguments: &[&str],
        read: impl FnOnce(Pipe<ChildStdout>) -> io::Result<T>,
    ) -> Result<T, SaveError> {
        let output = self.run(&self.pair(family).save, arguments).output(read);
        output.map_err(|source| SaveError::Failed { family, source })
    }

    /// Runs `script`, with its counters. Chains that it does not name stay as they are. Each table is one
    /// transaction, unless [`Lines::may_cut`](crate::script::Lines::may_cut)
    /// has made several steps of it.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]: tables and steps before the refused one are written.
    pub fn restore(&self, family: IpFamily, script: &Script<'_>) -> Result<(), RestoreError> {
        let seconds = self.lock.seconds.to_string();
        let arguments = ["--noflush", "--counters", "-w", &seconds];
        let mut run = self.run(&self.pair(family).restore, &arguments);
        run.timeout = TIMEOUT.min(run.timeout.min(QUICK) + LINE * script.count());
        let finished = run.with_input(script)?;
        if finished.status.success() {
            return Ok(());
        }
        if refusal::is_locked(&finished.stderr) {
            return Err(RestoreError::Locked(self.lock.clone()));
        }
        match refusal::refused(&finished.stderr) {
            Some(refusal::Refused { line, reason }) => Err(RestoreError::Refused {
                family,
                line,
                text: script.line(line).unwrap_or_default(),
                reason,
            }),
            None => Err(RestoreError::Failed(run.failure(&finished))),
        }
    }

    /// Tries whether a family's programs run and the kernel has these tables, without changing them. A program that
    /// hangs is noticed within seconds. For programs that were found just now: [`probe_again`](Self::probe_again) later.
    ///
    /// # Errors
    ///
    /// A program does not run, the kernel has no such table, or does not let us use it: [`RestoreError`].
    pub fn probe(&self, family: IpFamily, tables: &[Table]) -> Result<(), RestoreError> {
        self.found(family)?;
        self.try_tables(family, tables)
    }

    /// As [`probe`](Self::probe), and asks the programs for their version once more.
    ///
    /// # Errors
    ///
    /// As [`probe`](Self::probe).
    pub fn probe_again(&self, family: IpFamily, tables: &[Table]) -> Result<(), RestoreError> {
        self.answer(family)?;
        self.try_tables(family, tables)
    }

    fn try_tables(&self, family: IpFamily, tables: &[Table]) -> Result<(), RestoreError> {
        let script = Script::new(|lines| tables.iter().for_each(|it| lines.table(*it)));
        self.within(TRY).restore(family, &script)
    }

    fn run<'a>(&'a self, program: &'a Path, arguments: &'a [&'a str]) -> Run<'a> {
        Run {
            program,
            arguments,
            lock: &self.lock,
            timeout: self.timeout,
        }
    }

    fn pair(&self, family: IpFamily) -> &Pair {
        match family {
            IpFamily::V4 => &self.ipv4,
            IpFamily::V6 => &self.ipv6,
        }
    }
}
