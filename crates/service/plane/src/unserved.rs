//! Families that a machine has and a data plane cannot serve yet.

use std::fmt;

use sluice_model::IpFamily;

/// A family that the machine has and that cannot be written now. Rules of it that were written before go on serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    pub family: IpFamily,
    /// The reason, for a person.
    pub reason: String,
    /// How often it was tried again in vain.
    pub retries: u64,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, reason, .. } = self;
        write!(
            f,
            "{family} is not written until this works, what is there stays: {reason}"
        )
    }
}
