//! What has to be true before the agent can work, said in one line if it is not.

use std::fs;

use tracing::warn;

/// Bit number of the capability (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;

/// Why the agent cannot work here.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// Not permitted to write rules.
    #[error("missing capability CAP_NET_ADMIN: run as root or with \"setcap cap_net_admin+ep\"")]
    NotPermitted,
}

/// Whether this process may write rules.
///
/// # Errors
/// [`Unfit::NotPermitted`].
pub fn check_capability() -> Result<(), Unfit> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match has_net_admin(&status) {
        Some(false) => Err(Unfit::NotPermitted),
        // Without /proc, the kernel's own answer has to do.
        Some(true) | None => Ok(()),
    }
}

/// `None` when the text says nothing about it.
fn has_net_admin(status: &str) -> Option<bool> {
    let effective = status.lines().find_map(|it| it.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(effective.trim(), 16).ok()?;
    Some(bits & (1 << CAP_NET_ADMIN) != 0)
}

/// Warns when the kernel does not forward: clients on other machines and pods get no answers.
pub fn warn_if_not_forwarding() {
    let value = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap_or_default();
    if value.trim() == "0" {
        warn!(
            "sysctl net.ipv4.ip_forward is 0: only this node itself reaches endpoints on other \
             machines or in pods; set it to 1"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_counts() {
        let status = "CapPrm:\t0000000000001000\nCapEff:\t0000000000000000\n";
        assert_eq!(has_net_admin(status), Some(false));
        assert_eq!(has_net_admin("CapEff:\t0000000000001000\n"), Some(true));
        assert_eq!(has_net_admin("CapEff:\t000001ffffffffff\n"), Some(true));
        assert_eq!(has_net_admin("Name:\tsluice\n"), None);
    }
}
