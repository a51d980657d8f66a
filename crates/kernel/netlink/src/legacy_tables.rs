//! Sizes of the tables of `ip_tables` and `ip6_tables`, which the kernel tells without copying all
//! rules (`IPT_SO_GET_INFO`, `linux/netfilter_ipv4/ip_tables.h`).

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

pub use crate::family::Family;
use crate::sys;

/// Size of a table: almost every change of rules changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rules, and two more for each chain.
    pub entries: u32,
    /// Bytes of the rules.
    pub bytes: u32,
}

/// The size of a table in the calling thread's network namespace.
///
/// # Errors
///
/// `ENOENT` when there is no such table, `EPERM` without the privilege.
pub fn size(family: Family, table: &str) -> io::Result<Size> {
    let (domain, level) = match family {
        Family::Ipv4 => (AddressFamily::Inet, libc::SOL_IP),
        Family::Ipv6 => (AddressFamily::Inet6, libc::SOL_IPV6),
    };
    let socket = socket(domain, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = sys::TableInfo::default();
    // The last byte stays the NUL that ends the name.
    let last = request.name.len() - 1;
    let name = request.name[..last].get_mut(..table.len());
    name.ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(table.as_bytes());
    let info = sys::table_info(socket.as_fd(), level, request)?;
    Ok(Size {
        entries: info.entries,
        bytes: info.size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_an_error() {
        for family in [Family::Ipv4, Family::Ipv6] {
            assert!(size(family, "no-such-table").is_err());
            assert!(size(family, &"x".repeat(40)).is_err());
        }
    }
}
