//! The two socket options that `nix` has no safe call for.

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
