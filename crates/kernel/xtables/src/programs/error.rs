//! What can go wrong with programs, by what the caller does about it.

use std::path::PathBuf;

use sluice_model::IpFamily;

use super::{Lock, Variant, Version};
use crate::rule::Table;

/// A program did not do what it is for.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started, or its pipes broke.
    #[error("run {}: {source}", program.display())]
    Start {
        /// Its path.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ran and failed.
    #[error("{} failed: {problem}", program.display())]
    Failed {
        /// Its path.
        program: PathBuf,
        /// Its first words, or how it ended.
        problem: String,
    },
    /// It did not end in its time: what it was to do may have been done or not.
    #[error("{} {arguments}: killed, it did not end within {seconds} s", program.display())]
    TimedOut {
        /// Its path.
        program: PathBuf,
        /// Its arguments.
        arguments: String,
        /// How long it had.
        seconds: u64,
    },
}

/// No programs to work with.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Nothing of this name stores rules in this way.
    #[error(
        "no {program} for the {variant} variant of iptables in PATH: install it (Debian and \
         Alpine: package iptables{}, Fedora: iptables-{variant})",
        if *variant == Variant::Legacy { " or iptables-legacy" } else { "" }
    )]
    Missing {
        /// Which variant it must be of.
        variant: Variant,
        /// The name under which it is usually installed.
        program: String,
    },
    /// No variant has all its programs.
    #[error("neither variant of iptables is installed: {nft}; {legacy}")]
    Neither {
        /// What the nft variant lacks.
        nft: Box<FindError>,
        /// What the legacy variant lacks.
        legacy: Box<FindError>,
    },
    /// Restoring does not wait for the lock.
    #[error("{} is version {version}, at least {} is needed", program.display(), Version::OLDEST)]
    TooOld {
        /// Its path.
        program: PathBuf,
        /// Its version.
        version: Version,
    },
    /// It does not say which version it is.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The rules that tell the variants apart cannot be read.
    #[error("find out which variant of iptables is in use: {0}")]
    Save(#[from] SaveError),
}

/// The rules are not known.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The program failed.
    #[error("read the {family} rules: {source}")]
    Failed {
        /// Whose rules.
        family: IpFamily,
        /// How.
        source: RunError,
    },
    /// A table of nf_tables that iptables uses has what iptables cannot express.
    #[error(
        "read the {family} rules: table {table} has rules that only nft can show; see `nft list table \
         {} {table}`, and move them to a table of their own",
        family.nft_name()
    )]
    Incompatible {
        /// Whose rules.
        family: IpFamily,
        /// Which.
        table: Table,
    },
}

/// A script was not carried out, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// One line was refused, by the program or by the kernel. The legacy kernel interface takes
    /// whole tables: what it refuses is reported for the line `COMMIT`.
    #[error("{family} rules: line {line} `{text}` refused: {reason}")]
    Refused {
        /// Whose rules.
        family: IpFamily,
        /// Its number, counted from 1.
        line: usize,
        /// The line itself.
        text: String,
        /// What was said about it.
        reason: String,
    },
    /// Another program held the lock all the time.
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
