//! Which responses may be sent again, and how long.

/// Most responses of one query: an even choice among up to 16 addresses.
const VARIANTS: usize = 16;

/// The version of engine and objects that answers belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// Grows with the objects: `Objects::revision`.
    pub(crate) objects: u64,
    /// The engine: each Corefile has its own.
    pub(crate) engine: u64,
    /// Grows with each change of a file that plugins read.
    pub(crate) files: u64,
}

/// What an encoded response needs to be sent again.
#[derive(Debug)]
pub(crate) struct Reusable {
    /// The state that it was computed from.
    pub(crate) version: Version,
    /// Responses that are worth keeping: 1 when all are equal.
    pub(crate) variants: usize,
}

impl Reusable {
    /// The number of responses that gives each of `addresses` the same share of first places.
    pub(crate) fn variants(addresses: usize) -> usize {
        match addresses {
            0 | 1 => 1,
            2..=VARIANTS => VARIANTS - VARIANTS % addresses,
            _ => VARIANTS,
        }
    }
}
