//! Interfaces whose packets a program reads and writes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

/// `IFNAMSIZ`: bytes of a name, with the zero that ends it.
const NAME: usize = 16;

/// `struct ifreq` (`linux/if.h`), as far as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; NAME],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Creates an interface of IP packets without any header, in the network namespace of the calling thread; or opens the
/// one of this name that no program has. Each read and each write is one packet. The interface ends with the file.
///
/// # Errors
/// The name is too long, the kernel lacks TUN, or the privilege is missing.
pub fn open_tun(name: &str) -> io::Result<File> {
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("open tun interface {name}: {error}"))
    };
    let mut request = Request {
        name: [0; NAME],
        flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        rest: [0; 22],
    };
    let slot = request.name[..NAME - 1].get_mut(..name.len());
    slot.ok_or_else(|| failed(Errno::ENAMETOOLONG.into()))?
        .copy_from_slice(name.as_bytes());
    let file = File::options().read(true).write(true).open("/dev/net/tun");
    let file = file.map_err(failed)?;
    #[expect(
        unsafe_code,
        reason = "nix has no such call; the kernel reads and writes the 40 bytes of `request`, which outlives it"
    )]
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    Errno::result(result).map_err(|errno| failed(errno.into()))?;
    Ok(file)
}
