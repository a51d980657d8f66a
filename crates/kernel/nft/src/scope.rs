//! The address family and the table of an object.

pub use sluice_netlink::Family;

/// A table by family and name. Every other object is in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope<'a> {
    /// Family of the table.
    pub family: Family,
    /// Name of the table; at most 255 bytes.
    pub table: &'a str,
}
