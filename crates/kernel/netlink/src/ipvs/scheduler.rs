//! Schedulers: which real server a new connection goes to.

/// The schedulers of Linux (`net/netfilter/ipvs/Kconfig`, 6.12). `mh` is there since 4.18, `twos`
/// since 5.12. A kernel has those that it was built with, as modules for the most part.
pub const SCHEDULERS: [&str; 14] = [
    "rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "twos",
];

/// The kernel module that has a scheduler.
#[must_use]
pub fn scheduler_module(scheduler: &str) -> String {
    format!("ip_vs_{scheduler}")
}
