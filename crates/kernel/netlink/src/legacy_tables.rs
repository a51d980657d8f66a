//! How large the tables of `ip_tables` and `ip6_tables` are: the little that the kernel tells of
//! them without copying all rules (`IPT_SO_GET_INFO`, `linux/netfilter_ipv4/ip_tables.h`).

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::sys;

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ip_tables`.
    Ipv4,
    /// `ip6_tables`.
    Ipv6,
}

/// Size of a table: almost every change of rules changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rules, and two more for each chain.
    pub entries: u32,
    /// Bytes that they take.
    pub bytes: u32,
}

/// The size of a table in the calling thread's network namespace.
///
/// # Errors
///
/// There is no such table (`ENOENT`), or we may not ask.
pub fn size(family: Family, table: &str) -> io::Result<Size> {
    let (domain, level) = match family {
        Family::Ipv4 => (AddressFamily::Inet, libc::SOL_IP),
        Family::Ipv6 => (AddressFamily::Inet6, libc::SOL_IPV6),
    };
    let socket = socket(domain, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut asked = sys::TableInfo::default();
    let room = asked.name.len() - 1;
    let name = table.as_bytes();
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    asked.name[..name.len()].copy_from_slice(name);
    let info = sys::table_info(socket.as_fd(), level, asked)?;
    Ok(Size {
        entries: info.entries,
        bytes: info.size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_nobody_has() {
        for family in [Family::Ipv4, Family::Ipv6] {
            assert!(size(family, "no-such-table").is_err());
            assert!(size(family, &"x".repeat(40)).is_err());
        }
    }
}
