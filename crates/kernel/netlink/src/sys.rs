//! System interfaces that `nix` does not offer.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// The same file under the first free descriptor from this number on.
///
/// # Errors
/// The number is beyond the limit of this process, or no descriptor is free.
pub fn duplicate_from(file: BorrowedFd<'_>, least: libc::c_int) -> nix::Result<OwnedFd> {
    let descriptor = fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(least))?;
    #[expect(
        unsafe_code,
        reason = "nix returns a number; the kernel has just made the descriptor, and nobody else knows it"
    )]
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(owned)
}

/// Switches an option of `SOL_NETLINK` on (`linux/netlink.h`).
pub(crate) fn enable(socket: BorrowedFd<'_>, option: libc::c_int) -> nix::Result<()> {
    set(socket, libc::SOL_NETLINK, option, &1_i32)
}

/// Attaches a classic BPF program that decides which datagrams enter the receive queue.
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> nix::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> nix::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
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
    Errno::result(result).map(drop)
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
) -> nix::Result<TableInfo> {
    let mut length = size_of::<TableInfo>() as libc::socklen_t;
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
    Errno::result(result).map(|_| info)
}

/// Whether the kernel gave this process privileges that its starter may lack, by a set-user-ID bit or
/// capabilities of the program's file (`AT_SECURE`, getauxval(3)). The environment is the starter's
/// then.
#[must_use]
pub fn is_secure_execution() -> bool {
    #[expect(
        unsafe_code,
        reason = "nix does not offer it; the function takes and returns plain numbers"
    )]
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}
