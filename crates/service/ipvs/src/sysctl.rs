//! Kernel settings that IPVS needs, in the network namespace of the caller.

use std::fs;

use sluice_plane::Sysctl;
use sluice_reconcile::BackendError;

use crate::kernel;

/// The release of the kernel.
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

/// The sysctls that IPVS needs. Opens IPVS first, so that the kernel loads its module, which has some of
/// them.
///
/// # Errors
///
/// The kernel has no IPVS.
pub fn sysctls(arp: Arp) -> Result<Vec<Sysctl>, BackendError> {
    kernel::open_ipvs()?;
    let release = fs::read_to_string(RELEASE);
    let release = release.map_err(|error| BackendError::new("read the kernel's release", error))?;
    Ok(on(&release, arp))
}

/// The sysctls that IPVS needs on a kernel of this release.
fn on(release: &str, arp: Arp) -> Vec<Sysctl> {
    let mut settings = vec![
        // Masquerading needs conntrack.
        ("/proc/sys/net/ipv4/vs/conntrack", 1),
        // A connection to a deleted real server ends instead of hanging.
        ("/proc/sys/net/ipv4/vs/expire_nodest_conn", 1),
        // A client with affinity leaves a real server with weight 0.
        ("/proc/sys/net/ipv4/vs/expire_quiescent_template", 1),
        ("/proc/sys/net/ipv4/ip_forward", 1),
    ];
    // With conntrack, a client that uses a port again waited for a second until 5.9
    // (f0a5e4d7a594 "ipvs: allow connection reuse for unconfirmed conntrack").
    if matches!(version(release), Some(it) if ((4, 1)..(5, 9)).contains(&it)) {
        settings.push(("/proc/sys/net/ipv4/vs/conn_reuse_mode", 0));
    }
    if arp == Arp::Strict {
        settings.push(("/proc/sys/net/ipv4/conf/all/arp_ignore", 1));
        settings.push(("/proc/sys/net/ipv4/conf/all/arp_announce", 2));
    }
    let settings = settings.into_iter();
    settings
        .map(|(path, value)| Sysctl {
            path,
            value,
            without: "the ipvs mode does not work",
        })
        .collect()
}

/// Major and minor number.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuse_of_ports_is_left_alone_where_it_works() {
        let has = |release| {
            let wanted = on(release, Arp::Loose);
            wanted.iter().any(|it| it.path.contains("reuse"))
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
        let count = |arp| on("6.1.0", arp).len();
        assert_eq!(count(Arp::Strict), count(Arp::Loose) + 2);
    }
}
