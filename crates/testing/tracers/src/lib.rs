//! Follows packets through rendered rules without a kernel. Property tests compare the result with
//! `Plan::lookup`, for each data plane.

pub mod chance;
pub mod nftables;
pub mod xtables;
