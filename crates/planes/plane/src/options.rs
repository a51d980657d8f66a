//! What the operator decided, and what a data plane wants of the machine.

use sluice_config::Effective;
use sluice_plan::settings::Settings;

/// What a data plane is opened and rendered with.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The configuration, with the section of each mode.
    pub config: &'a Effective,
    /// What plans are made with.
    pub settings: &'a Settings,
    /// Connections are to be counted, where that is a choice.
    pub counts_connections: bool,
}

/// A kernel setting that a data plane needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The file that holds it.
    pub path: &'static str,
    /// What it has to hold.
    pub value: u64,
}
