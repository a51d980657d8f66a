//! Whether the clock of the machine is kept right: certificates, tokens and leases depend on it.

use super::report::Finding;

/// Whether the kernel's clock is synchronised (`adjtimex(2)`).
pub(super) fn clock() -> Finding {
    // SAFETY: all fields of `timex` are integers, for which zero is a value.
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of adjtimex is among our libraries"
    )]
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a struct that lives until the call returns. With `modes` 0 it
    // changes nothing.
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of adjtimex is among our libraries"
    )]
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    if state < 0 {
        return Finding::skip("clock", "the kernel does not tell");
    }
    let error = clock.maxerror / 1_000_000;
    match clock.status & libc::STA_UNSYNC {
        0 => Finding::ok("clock", format!("synchronised, wrong by at most {error} s")),
        // Whether it is wrong cannot be seen from here: machines without NTP of their own often have a host's clock.
        _ => Finding::skip(
            "clock",
            "no NTP client keeps it right: whether it is right is not known",
        )
        .mend(
            "date -u; timedatectl, chronyc tracking: certificates and leases fail when it is wrong",
        ),
    }
}
