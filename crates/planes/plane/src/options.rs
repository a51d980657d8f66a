//! Input of a data plane, and the sysctls that it needs.

use sluice_config::Effective;
use sluice_plan::settings::Settings;

/// The configuration of a data plane.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The configuration, with the section of each mode.
    pub config: &'a Effective,
    /// The settings of plans.
    pub settings: &'a Settings,
    /// Whether to count connections, in data planes that can do both.
    pub counts_connections: bool,
}

/// A kernel setting that a data plane needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Its file.
    pub path: &'static str,
    /// The value that it needs.
    pub value: u64,
    /// What does not work without it and how to do without, in one line.
    pub without: &'static str,
}
