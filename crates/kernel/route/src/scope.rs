//! How far an address or a route reaches.

/// `RT_SCOPE_*` (`linux/rtnetlink.h`): the smaller, the farther.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(pub u8);

impl Scope {
    /// The address or network is reached from anywhere.
    pub const GLOBAL: Self = Self(0);
    /// It is reached by the hosts of one link.
    pub const LINK: Self = Self(253);
    /// It is reached on this machine alone. An interface without an address of its own does not use such an address
    /// as the source of its packets (`inet_select_addr`, devinet.c).
    pub const HOST: Self = Self(254);
}
