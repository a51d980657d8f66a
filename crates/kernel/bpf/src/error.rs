//! Errors of loading and attaching programs, and of maps.

use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use sluice_reconcile::chain;

/// An error of programs, pins or maps.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The programs cannot run here: one line for each reason, such as a feature that the kernel lacks.
    #[error("{0}")]
    Unable(String),
    /// The file system for pins could not be mounted.
    #[error("mount a bpf file system at {path}")]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The error of the system.
        source: nix::Error,
    },
    /// A file or folder of the pins.
    #[error("{operation} {path}")]
    Pin {
        /// The operation that failed.
        operation: &'static str,
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process reads the ring buffers.
    #[error("somebody traces packets already: one at a time")]
    Busy,
    /// The object's maps could not be created.
    #[error("create maps: {}", chain(source))]
    Load {
        /// The loader's error.
        source: EbpfError,
    },
    /// The kernel refused a program.
    #[error("load program {program}: {reason}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The end of the verifier's log, or the error of the system.
        reason: String,
    },
    /// A program could not be attached.
    #[error("attach {program} to {target}: {}", chain(&**source))]
    Attach {
        /// Its name.
        program: &'static str,
        /// The interface, or the cgroup.
        target: String,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A map could not be read or written.
    #[error("{operation} of map {map}: {}", chain(source))]
    Map {
        /// The operation that failed.
        operation: &'static str,
        /// Name of the map.
        map: &'static str,
        /// The error.
        source: MapError,
    },
    /// Another operation failed, such as listing the interfaces or locking the maps.
    #[error("{operation}: {}", chain(&**source))]
    Machine {
        /// The operation that failed.
        operation: &'static str,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl BpfError {
    /// The error of a refused program. The verifier's log may have thousands of lines; the last three name the
    /// reason.
    pub(crate) fn program(program: &'static str, error: &ProgramError) -> Self {
        let reason = match error {
            ProgramError::LoadError {
                io_error,
                verifier_log,
            } => {
                let log = verifier_log.to_string();
                let telling = |it: &&str| {
                    let noise = [
                        "processed ",
                        "verification time",
                        "stack depth",
                        "mark_precise",
                    ];
                    !it.trim().is_empty() && !noise.iter().any(|start| it.starts_with(start))
                };
                let lines: Vec<&str> = log.lines().filter(telling).collect();
                let last = lines[lines.len().saturating_sub(3)..].join("; ");
                if last.is_empty() {
                    io_error.to_string()
                } else {
                    format!("{io_error}: {last}")
                }
            }
            other => chain(other),
        };
        Self::Program { program, reason }
    }
}
