//! The status socket and its lock: made when the server starts, or as soon as their file system has room.

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
        let problem = match made {
            Ok(listener) => {
                self.listener = Some(listener);
                self.is_made.store(true, Ordering::Relaxed);
                Vec::new()
            }
            Err(error) if has_no_room(&error) => vec![format!(
                "cannot be made: {error}: `sluice status` and `sluice explain` cannot ask the agent until there is room; \
                 Services are served"
            )],
            Err(error) => return Err(failed(format!("bind socket {name}"))(error)),
        };
        (self.report)(problem);
        Ok(())
    }

    /// Serves as soon as there is room. A socket that somebody removes is made again.
    pub(super) async fn serve(mut self, routes: Router, budget: Arc<Budget>) {
        loop {
            let removed = removed(self.path.clone(), self.is_made.clone());
            tokio::select! {
                () = self.serve_one(routes.clone(), budget.clone()) => return,
                () = removed => {}
            }
            warn!(socket = %self.path.display(), "the status socket was removed: it is made again");
        }
    }

    async fn serve_one(&mut self, routes: Router, budget: Arc<Budget>) {
        while self.listener.is_none() {
            sleep(BIND_PERIOD).await;
            if let Err(error) = self.open() {
                error!(
                    error = crate::chain(&error),
                    "there will be no status socket"
                );
                return;
            }
            if self.listener.is_some() {
                info!(socket = %self.path.display(), "the status socket is there");
            }
        }
        let listener = self.listener.take();
        match listener.map(tokio::net::UnixListener::from_std) {
            Some(Ok(listener)) => sluice_http::serve(listener, routes, budget).await,
            Some(Err(error)) => error!(%error, "cannot watch the status socket"),
            None => {}
        }
    }
}

/// Returns when the socket was made and its file is gone.
async fn removed(path: PathBuf, is_made: Arc<AtomicBool>) {
    loop {
        sleep(BIND_PERIOD).await;
        let found = fs::symlink_metadata(&path);
        let is_gone = found.is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
        if is_gone && is_made.swap(false, Ordering::Relaxed) {
            return;
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
