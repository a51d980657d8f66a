//! The socket options that `nix` has no safe call for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SOL_NETLINK` options that Sluice switches on, by number (`linux/netlink.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetlinkOption {
    /// Acknowledgements do not echo the request.
    CapAck = 10,
    /// Acknowledgements carry text and offset of the bad attribute.
    ExtAck = 11,
}

/// Switches a netlink socket option on.
pub(crate) fn enable(socket: BorrowedFd<'_>, option: NetlinkOption) -> io::Result<()> {
    set(socket, libc::SOL_NETLINK, option as libc::c_int, &1_i32)
}

/// Attaches a classic BPF program that decides which datagrams enter the receive queue.
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let length =
        u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    #[expect(
        unsafe_code,
        reason = "nix offers no setter for these options; the kernel only reads `length` bytes of `value`"
    )]
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `struct ipt_getinfo` (`linux/netfilter_ipv4/ip_tables.h`), which `struct ip6t_getinfo` equals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableInfo {
    /// The table, ended by a zero.
    pub(crate) name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    /// Rules, with the ends of chains.
    pub(crate) entries: u32,
    /// Bytes of all of them.
    pub(crate) size: u32,
}

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;

/// Asks for a table of the name in `info`.
pub(crate) fn table_info(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    mut info: TableInfo,
) -> io::Result<TableInfo> {
    let mut length = libc::socklen_t::try_from(size_of::<TableInfo>())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    #[expect(
        unsafe_code,
        reason = "nix offers no such option; the kernel writes at most `length` bytes of plain numbers"
    )]
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            GET_INFO,
            std::ptr::from_mut(&mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(info)
    } else {
        Err(io::Error::last_os_error())
    }
}
