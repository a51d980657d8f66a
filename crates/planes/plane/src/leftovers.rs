//! What an earlier proxy left in the kernel, and how it is removed: a kube-proxy, or Sluice in
//! another mode.
//!
//! Each data plane knows what a kube-proxy of its mode leaves, and what Sluice itself leaves in it:
//! its [`Leftovers`]. The data plane that is in use says what it needs of that: [`Keep`].
//!
//! # Invariants
//!
//! - A family that is not served keeps what serves it. Virtual servers are of both families and go
//!   last: translation by rules comes before them.
//! - Rules, chains, sets and virtual servers of others stay as they are, also in the same tables.
//! - What cannot be removed stops nothing else from being removed.
//! - A takeover loads no kernel module to look for something that then cannot be there. A cleanup
//!   may: only the kernel's answer tells whether it has objects of nfacct.

use std::io;

use sluice_model::IpFamily;
use sluice_netlink::nftables::CommitError;
use sluice_netlink::{RequestError, SocketError};
use sluice_xtables::programs::{FindError, RestoreError, SaveError, Variant};

/// Something in the kernel that carries the name of kube-proxy's or of ours.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// A table of nf_tables that a proxy has for itself, by its name.
    Table(&'a str),
    /// A chain of iptables.
    Chain {
        /// Where the kernel keeps it.
        variant: Variant,
        /// Its table: `nat`.
        table: &'a str,
        /// Its name.
        chain: &'a str,
    },
    /// Virtual servers with their interface and ipsets.
    VirtualServers,
}

/// Whether the data plane in use needs something: it stays.
pub type Keep = dyn Fn(&Trace<'_>) -> bool + Send + Sync;

/// Why leftovers are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Another data plane does the work now. A kube-proxy may come back.
    TakeOver,
    /// Nobody shall do the work: no trace of Sluice stays. Where nothing shows that Sluice was here, what
    /// has kube-proxy's names is kube-proxy's.
    Cleanup,
    /// The same, and none of kube-proxy either.
    CleanupKubeProxy,
}

/// What is to be removed.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Why.
    pub purpose: Purpose,
    /// Of these families.
    pub families: &'a [IpFamily],
    /// Everything but this.
    pub keep: &'a Keep,
}

impl Request<'_> {
    /// Whether this is about both families.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        IpFamily::ALL.iter().all(|it| self.families.contains(it))
    }
}

/// What a kube-proxy in the mode of one data plane leaves in the kernel, and Sluice in this mode.
pub trait Leftovers: Sync {
    /// Removes what was left, at once.
    fn remove(&self, request: &Request<'_>, removal: &mut Removal);

    /// How many connections end when what was left is removed; 0 as well when nobody can say. A
    /// takeover waits for their end.
    fn open_connections(&self, keep: &Keep) -> usize {
        let _ = keep;
        0
    }

    /// What shows that a kube-proxy is at work beside us; `None` also when nobody can say.
    fn sign_of_kube_proxy(&self, keep: &Keep) -> Option<String>;

    /// Whether removing takes the programs of iptables, here and now.
    fn need_programs(&self) -> bool {
        false
    }
}

/// Why something of an earlier proxy could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    /// The kernel could not be reached.
    #[error("remove what an earlier proxy left")]
    Connect(#[source] SocketError),
    /// The kernel could not be asked, or refused a single thing.
    #[error("remove what an earlier proxy left")]
    Request(#[source] RequestError),
    /// The kernel refused a transaction.
    #[error("remove {what} of an earlier proxy")]
    Commit {
        /// What was to be removed.
        what: &'static str,
        /// The kernel's reason.
        source: CommitError,
    },
    /// Our own tables could not be removed.
    #[error("remove tables of the nftables mode")]
    Tables(#[source] sluice_reconcile::BackendError),
    /// Nobody knows which programs are for legacy tables.
    #[error("find the programs of legacy iptables")]
    Find(#[source] FindError),
    /// A legacy table could not be read.
    #[error("look for chains of kube-proxy in legacy iptables")]
    Save(#[source] SaveError),
    /// A legacy table could not be changed.
    #[error("remove chains of kube-proxy from legacy iptables")]
    Restore(#[source] RestoreError),
    /// The kernel keeps a set.
    #[error("ipset {set} stays: {reason}")]
    Set {
        /// Its name.
        set: String,
        /// Why.
        reason: String,
    },
    /// Only root may see whether there are legacy tables.
    #[error(
        "only root may read {path}: rules of kube-proxy in legacy iptables, if there are any, stay; \
         `sluice cleanup --kube-proxy` as root removes them"
    )]
    Hidden {
        /// Which file.
        path: &'static str,
    },
    /// A file of the kernel could not be read.
    #[error("read {path}")]
    Read {
        /// Which.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl LeftoverError {
    /// Whether there may be rules that apply beside ours.
    #[must_use]
    pub fn leaves_rules(&self) -> bool {
        !matches!(self, Self::Hidden { .. } | Self::Set { .. })
    }
}

/// What became of what an earlier proxy left.
#[derive(Debug, Default)]
pub struct Removal {
    /// What was removed, as in `table ip kube-proxy`.
    pub removed: Vec<String>,
    /// What the operator should know: what stays and why.
    pub notes: Vec<String>,
    /// What failed.
    pub errors: Vec<LeftoverError>,
}

impl Removal {
    /// The success of one step; its error is added to the others.
    pub fn take<T: Default>(&mut self, result: Result<T, LeftoverError>) -> T {
        result.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// Whether all that could be looked at is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let hidden = |it: &LeftoverError| matches!(it, LeftoverError::Hidden { .. });
        self.errors.iter().all(hidden)
    }
}
