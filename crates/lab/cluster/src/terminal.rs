//! The terminals of containers and of `kubectl exec -t`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::fcntl::OFlag;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sluice_streams::Size;

/// Both ends of a pseudoterminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Reads give what the program wrote; writes are its input.
    pub(crate) ours: OwnedFd,
    theirs: File,
    /// The device that the leader of the program's session opens.
    pub(crate) path: PathBuf,
}

impl Terminal {
    pub(crate) fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        Self::with(openpt(flags)?, Path::new("/"))
    }

    /// A terminal of a container that has terminals of its own, below the root of its process.
    pub(crate) fn open_below(root: &Path) -> io::Result<Self> {
        let mut open = File::options();
        let open = open.read(true).write(true);
        let ours = open
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(root.join("dev/pts/ptmx"))?;
        Self::with(ours.into(), root)
    }

    fn with(ours: OwnedFd, root: &Path) -> io::Result<Self> {
        unlockpt(&ours)?;
        let path = ptsname(&ours, Vec::new())?;
        let path = path.into_string().map_err(io::Error::other)?;
        let path = root.join(path.trim_start_matches('/'));
        let mut open = File::options();
        let open = open.read(true).write(true);
        let theirs = open.custom_flags(OFlag::O_NOCTTY.bits()).open(&path)?;
        Ok(Self { ours, theirs, path })
    }

    /// Starts a program whose streams are the terminal, which it makes its own by the path. Returns our end.
    pub(crate) fn spawn(self, mut command: Command) -> io::Result<(Child, OwnedFd)> {
        let (output, errors) = (self.theirs.try_clone()?, self.theirs.try_clone()?);
        command.stdin(self.theirs).stdout(output).stderr(errors);
        // Dropping the command closes this process's copies of the program's end.
        Ok((command.spawn()?, self.ours))
    }
}

/// Sets the size of a terminal, which its program learns by SIGWINCH.
pub(crate) fn resize(terminal: impl AsFd, size: Size) {
    let size = Winsize {
        ws_row: size.height,
        ws_col: size.width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // A terminal whose program has ended.
    let _ = tcsetwinsize(terminal, size);
}
