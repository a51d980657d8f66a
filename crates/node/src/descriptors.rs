//! The limit of open descriptors: files, sockets, connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// The limit when the kernel tells none: Linux' default soft limit.
const DEFAULT: usize = 1024;

/// Raises the soft limit of this process to the hard limit, which needs no privilege, and returns
/// the limit in effect. The soft limit is often 1,024 for the sake of programs that call
/// `select(2)`; see getrlimit(2).
pub fn raise() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return DEFAULT;
    };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            warn!(soft, hard, %error, "cannot raise the limit of open descriptors");
            soft
        }
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run in processes of their own.
    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("every process has limits");
        setrlimit(Resource::RLIMIT_NOFILE, hard / 2, hard).expect("lowering is permitted");
        assert_eq!(raise() as u64, hard);
        let limits = getrlimit(Resource::RLIMIT_NOFILE).expect("as before");
        assert_eq!(limits, (hard, hard));
    }
}
