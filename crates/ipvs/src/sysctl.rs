//! Kernel settings that IPVS needs, in the network namespace of the caller.

use std::fs;

use sluice_core::backend::BackendError;

/// Where the kernel says which it is.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Whether the node answers for an address on every interface (`strictARP` of kube-proxy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arp {
    /// As the kernel does it: on every interface.
    #[default]
    Loose,
    /// Only on the interface that has the address, so that the virtual IPs of kube-ipvs0 are not
    /// answered for on the network: load balancers like MetalLB in layer 2 mode do that.
    Strict,
}

/// Sets what IPVS needs. Wants a writable `/proc/sys/net` and CAP_NET_ADMIN.
///
/// # Errors
///
/// A setting is missing or cannot be written.
pub fn prepare(arp: Arp) -> Result<(), BackendError> {
    let release = read(RELEASE)?;
    for (name, value) in settings(&release, arp) {
        set(name, value)?;
    }
    Ok(())
}

/// Settings and their values, for a kernel of this release.
fn settings(release: &str, arp: Arp) -> Vec<(&'static str, &'static str)> {
    let mut settings = vec![
        // Masquerading needs conntrack.
        ("net/ipv4/vs/conntrack", "1"),
        // A connection to a real server that is gone ends instead of hanging.
        ("net/ipv4/vs/expire_nodest_conn", "1"),
        // A client with affinity leaves a real server that takes no more connections.
        ("net/ipv4/vs/expire_quiescent_template", "1"),
        ("net/ipv4/ip_forward", "1"),
    ];
    // With conntrack, a client's port that is used again cost a second until 5.9
    // (f0a5e4d7a594 "ipvs: allow connection reuse for unconfirmed conntrack").
    if matches!(version(release), Some(it) if ((4, 1)..(5, 9)).contains(&it)) {
        settings.push(("net/ipv4/vs/conn_reuse_mode", "0"));
    }
    if arp == Arp::Strict {
        settings.push(("net/ipv4/conf/all/arp_ignore", "1"));
        settings.push(("net/ipv4/conf/all/arp_announce", "2"));
    }
    settings
}

/// Major and minor number.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Writes one setting unless it is so already: what is right may be on a read-only file system.
fn set(name: &str, value: &str) -> Result<(), BackendError> {
    let path = format!("/proc/sys/{name}");
    if read(&path)?.trim() == value {
        return Ok(());
    }
    fs::write(&path, value).map_err(|error| BackendError {
        operation: format!("set {name} = {value}"),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

fn read(path: &str) -> Result<String, BackendError> {
    fs::read_to_string(path).map_err(|error| BackendError {
        operation: format!("read {path}"),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuse_of_ports_is_left_alone_where_it_works() {
        let has = |release| {
            let settings = settings(release, Arp::Loose);
            settings.iter().any(|(name, _)| name.contains("reuse"))
        };
        for (release, expected) in [
            ("3.10.0-1160.el7.x86_64", false),
            ("4.1.0", true),
            ("5.8.18-generic", true),
            ("5.9.0", false),
            ("6.1.0-50-amd64\n", false),
            ("strange", false),
        ] {
            assert_eq!(has(release), expected, "{release}");
        }
    }

    #[test]
    fn strict_arp_is_asked_for() {
        let names = |arp| settings("6.1.0", arp).len();
        assert_eq!(names(Arp::Strict), names(Arp::Loose) + 2);
    }
}
