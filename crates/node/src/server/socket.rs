//! The status socket and its lock: made when the server starts, or as soon as their file system has room.

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, socket};
use nix::sys::stat::{Mode, fchmod};
use sluice_http::Budget;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::{BIND_PERIOD, ReportProblem};
use crate::error::{NodeError, failed};
use crate::flock::{Lock, has_no_room};

/// The status socket, bound or not.
pub(super) struct StatusSocket {
    pub(super) path: PathBuf,
    pub(super) lock: Lock,
    /// `None` while there is no room for it.
    pub(super) listener: Option<UnixListener>,
    /// Whether there was room for it.
    pub(super) is_made: Arc<AtomicBool>,
    pub(super) report: ReportProblem,
}

impl StatusSocket {
    /// Makes the socket if its file system has room, and reports whether it has.
    pub(super) fn open(&mut self) -> Result<(), NodeError> {
        let name = self.path.display();
        let locked = self.lock.complete();
        let locked = locked.map_err(failed("lock the status socket"))?;
        let made = locked.and_then(|()| listen_on(&self.path));
        match made {
            Ok(listener) => {
                self.listener = Some(listener);
                self.is_made.store(true, Ordering::Relaxed);
                (self.report)(Vec::new());
            }
            Err(error) if has_no_room(&error) => self.cannot(&error),
            Err(error) => return Err(failed(format!("bind socket {name}"))(error)),
        }
        Ok(())
    }

    fn cannot(&self, error: &(dyn Error + 'static)) {
        (self.report)(vec![format!(
            "cannot be made: {}: `sluice status` and `sluice explain` cannot ask the agent until it can; Services are served",
            crate::chain(error)
        )]);
    }

    /// Serves as soon as there is room. A socket or a lock that somebody removes is made again: what cleans /run takes both,
    /// and without the lock another agent could take the socket's place.
    pub(super) async fn serve(mut self, routes: Router, budget: Arc<Budget>) {
        loop {
            let listener = match self.made().await {
                Ok(listener) => listener,
                Err(error) => return error!(%error, "cannot watch the status socket"),
            };
            tokio::select! {
                () = sluice_http::serve(listener, routes.clone(), budget.clone()) => return,
                () = self.removed() => {}
            }
            self.is_made.store(false, Ordering::Relaxed);
            warn!(socket = %self.path.display(), "the status socket or its lock was removed: both are made again");
        }
    }

    /// The socket, as soon as it can be made.
    async fn made(&mut self) -> io::Result<tokio::net::UnixListener> {
        let mut is_late = false;
        loop {
            if let Some(listener) = self.listener.take() {
                if is_late {
                    info!(socket = %self.path.display(), "the status socket is there");
                }
                return tokio::net::UnixListener::from_std(listener);
            }
            if is_late {
                sleep(BIND_PERIOD).await;
            }
            is_late = true;
            if let Err(error) = self.open() {
                self.cannot(&error);
            }
        }
    }

    /// Returns when the socket or the lock is gone.
    async fn removed(&self) {
        let is_gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        loop {
            sleep(BIND_PERIOD).await;
            if fs::symlink_metadata(&self.path).is_err_and(is_gone) || !self.lock.is_there() {
                return;
            }
        }
    }
}

/// Binds the status socket. A socket file that exists belongs to an agent that ended: we hold its
/// lock. The kernel gives the file the mode that the socket has (`unix_bind_bsd`), so it never has
/// another one.
pub(crate) fn listen_on(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket {
        fs::remove_file(path)?;
    }
    let bind = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
        socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        socket::listen(&socket, Backlog::MAXCONN)?;
        Ok::<_, Errno>(UnixListener::from(socket))
    };
    Ok(bind()?)
}
