//! Checks of the machine before the agent starts.

use std::fs;

use caps::{CapSet, Capability};
use tracing::{info, warn};

/// The agent may not write rules.
#[derive(Debug, thiserror::Error)]
#[error(
    "missing capability CAP_NET_ADMIN: run as root, or as a service that is given it \
     (AmbientCapabilities of systemd)"
)]
pub struct NotPermitted;

/// Checks that this process may write rules. If the kernel does not say, its answer to the first rules tells.
///
/// # Errors
///
/// [`NotPermitted`].
pub fn check_capability() -> Result<(), NotPermitted> {
    match caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN) {
        Ok(false) => Err(NotPermitted),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Logs settings of this machine that keep Services from working.
pub fn report() {
    let read = |path: &str| fs::read_to_string(path).ok();
    for (is_warning, text) in findings(read) {
        if is_warning {
            warn!("{text}")
        } else {
            info!("{text}")
        }
    }
}

/// Texts, and whether they are warnings: a machine may not need IPv6. `read` returns the contents of
/// a file, `None` for a missing one.
fn findings(read: impl Fn(&str) -> Option<String>) -> Vec<(bool, &'static str)> {
    let is = |path: &str, value: &str| read(path).is_some_and(|it| it.trim() == value);
    let mut found = Vec::new();
    if is("/proc/sys/net/ipv4/ip_forward", "0") {
        let text = "sysctl net.ipv4.ip_forward is 0: only this node itself reaches endpoints on \
                    other machines or in pods; set it to 1";
        found.push((true, text));
    }
    if read("/proc/thread-self/net/if_inet6").is_none() {
        let text = "the kernel runs without IPv6: rules for IPv6 Services are written and never \
                    used";
        found.push((false, text));
    } else if is("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") {
        let text = "sysctl net.ipv6.conf.all.disable_ipv6 is 1: rules for IPv6 Services are \
                    written and never used";
        found.push((false, text));
    } else if is("/proc/sys/net/ipv6/conf/all/forwarding", "0") {
        let text = "sysctl net.ipv6.conf.all.forwarding is 0: only this node itself reaches IPv6 \
                    endpoints on other machines or in pods";
        found.push((false, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_looked_at_one_by_one() {
        let ipv4 = "/proc/sys/net/ipv4/ip_forward";
        let inet6 = "/proc/thread-self/net/if_inet6";
        let disabled = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        let ipv6 = "/proc/sys/net/ipv6/conf/all/forwarding";
        // ip_forward, if_inet6, disable_ipv6, IPv6 forwarding (`-` is no file); the findings.
        let cases = [
            (["1\n", "x", "0\n", "1\n"], [].as_slice()),
            (
                ["0\n", "x", "0", "0"],
                &["ipv4.ip_forward", "ipv6.conf.all.forwarding"],
            ),
            (["1", "x", "1\n", "0"], &["disable_ipv6"]),
            (["1", "-", "-", "-"], &["without IPv6"]),
        ];
        for (values, expected) in cases {
            let files = [ipv4, inet6, disabled, ipv6].into_iter().zip(values);
            let read = |path: &str| {
                let mut files = files.clone().filter(|it| it.1 != "-");
                files.find(|it| it.0 == path).map(|it| it.1.to_owned())
            };
            let found = findings(read);
            let texts: Vec<_> = found.iter().map(|(_, text)| *text).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, part) in texts.iter().zip(expected) {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
