//! Errors of programs, by what the caller does about them.

use std::path::PathBuf;

use sluice_model::IpFamily;

use super::{Lock, Variant, Version};
use crate::rule::Table;

/// A program failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started, or its pipes broke.
    #[error("run {}: {source}", program.display())]
    Start {
        /// Its path.
        program: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// It ran and failed.
    #[error("{} failed: {problem}", program.display())]
    Failed {
        /// Its path.
        program: PathBuf,
        /// The first line of its stderr, or its exit status.
        problem: String,
    },
    /// It did not end in its time: its changes may have been made or not.
    #[error("{} {arguments}: killed, it did not end within {seconds} s", program.display())]
    TimedOut {
        /// Its path.
        program: PathBuf,
        arguments: String,
        /// Its timeout.
        seconds: u64,
    },
}

/// No variant has usable programs.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No program of this name is of this variant.
    #[error(
        "no {program} for the {variant} variant of iptables in PATH: install it (Debian and \
         Alpine: package iptables{}, Fedora: iptables-{variant})",
        if *variant == Variant::Legacy { " or iptables-legacy" } else { "" }
    )]
    Missing {
        variant: Variant,
        /// The name under which it is usually installed.
        program: String,
    },
    /// No variant is installed completely.
    #[error("neither variant of iptables is installed: {nft}; {legacy}")]
    Neither {
        /// The error of the nft variant.
        nft: Box<FindError>,
        /// The error of the legacy variant.
        legacy: Box<FindError>,
    },
    /// The version is too old: `iptables-restore` does not wait for the lock.
    #[error("{} is version {version}, at least {} is needed", program.display(), Version::OLDEST)]
    TooOld {
        /// Its path.
        program: PathBuf,
        version: Version,
    },
    /// The program does not print its version.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The rules that tell the variants apart cannot be read.
    #[error("find out which variant of iptables is in use: {0}")]
    Save(#[from] SaveError),
}

/// The rules could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The program failed.
    #[error("read the {family} rules: {source}")]
    Failed {
        family: IpFamily,
        /// The error of the program.
        source: RunError,
    },
    /// A table of nf_tables that iptables uses has what iptables cannot express.
    #[error(
        "read the {family} rules: table {table} has rules that only nft can show; see `nft list table \
         {} {table}`, and move them to a table of their own",
        family.nft_name()
    )]
    Incompatible { family: IpFamily, table: Table },
}

impl SaveError {
    /// Whether the program was killed because it did not end.
    pub(super) fn is_timeout(&self) -> bool {
        let Self::Failed { source, .. } = self else {
            return false;
        };
        matches!(source, RunError::TimedOut { .. })
    }
}

/// A script failed, at once or after some of its steps.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// One line was refused, by the program or by the kernel. The legacy kernel interface takes
    /// whole tables: what it refuses is reported for the line `COMMIT`.
    #[error("{family} rules: line {line} `{text}` refused: {reason}")]
    Refused {
        family: IpFamily,
        /// Its number, counted from 1.
        line: usize,
        /// The line itself.
        text: String,
        /// The reason, in the program's words.
        reason: String,
    },
    /// Another program held the lock for the whole time.
    #[error(
        "the xtables lock {} was not free within {} s",
        .0.file.display(),
        .0.seconds
    )]
    Locked(Lock),
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] RunError),
}
