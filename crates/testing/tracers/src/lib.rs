//! What rendered rules do with a packet, without a kernel: the counterpart of `Plan::lookup`, against
//! which property tests hold the rules of each data plane.

pub mod chance;
pub mod nftables;
pub mod xtables;
