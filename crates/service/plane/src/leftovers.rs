//! Removal of the objects that an earlier proxy left in the kernel: a kube-proxy, or Sluice in another
//! mode.
//!
//! [`Leftovers`] of a data plane are the objects of a kube-proxy in its mode, and of Sluice. [`Keep`] of
//! the data plane in use says which of them it needs.
//!
//! # Invariants
//!
//! - The objects of a family that is not served stay. Virtual servers are of both families and are
//!   removed last: rules translate a packet before it comes to them.
//! - Rules, chains, sets and virtual servers of others stay as they are, also in the same tables.
//! - After an error the removal goes on.
//! - A takeover loads no kernel module to look for its objects, which cannot exist then. A cleanup may:
//!   only the kernel's answer shows whether it has objects of nfacct.

use std::io;

use sluice_model::IpFamily;
use sluice_netlink::{RequestError, SocketError};
use sluice_nft::{CommitError, Connection};
use sluice_xtables::programs::{FindError, RestoreError, SaveError, Variant};
use sluice_xtables::rule::Table;

/// What looks for a kube-proxy need, one after the other.
///
/// The connection to nf_tables stays open: when one is closed, no transaction can begin until everything that earlier ones
/// deleted is freed (`nft_rcv_nl_event`).
#[derive(Debug, Default)]
pub struct Looks(Option<Connection>);

impl Looks {
    /// The connection; `None` without nf_tables.
    pub fn nft(&mut self) -> Option<&mut Connection> {
        self.0 = self.0.take().or_else(|| Connection::open().ok());
        self.0.as_mut()
    }
}

/// An object of the kernel with a name of kube-proxy or of Sluice.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// The name of a table of nf_tables that a proxy has for itself.
    Table(&'a str),
    /// A chain of iptables.
    Chain {
        /// Where the kernel keeps it.
        variant: Variant,
        table: Table,
        /// Name of the chain, such as `KUBE-SERVICES`.
        chain: &'a str,
    },
    /// Virtual servers with their interface and ipsets.
    VirtualServers,
    /// Programs of eBPF with their maps.
    Programs,
}

impl Trace<'_> {
    /// Whether this is a chain of iptables that a data plane with this variant uses, which `uses` says.
    pub fn is_chain_of(&self, own: Variant, uses: fn(Table, &str) -> bool) -> bool {
        match *self {
            Self::Chain {
                variant,
                table,
                chain,
            } => variant == own && uses(table, chain),
            Self::Table(_) | Self::VirtualServers | Self::Programs => false,
        }
    }
}

/// Whether the data plane in use needs an object, which stays then.
pub type Keep = dyn Fn(&Trace<'_>) -> bool + Send + Sync;

/// Why leftovers are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Another data plane is in use. A kube-proxy may come back.
    TakeOver,
    /// No proxy follows: all objects of Sluice are removed. Where nothing shows that Sluice was here, the
    /// objects with kube-proxy's names are kube-proxy's and stay.
    Cleanup,
    /// As `Cleanup`, and all objects of kube-proxy, too.
    CleanupKubeProxy,
}

/// A request to remove leftovers.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub purpose: Purpose,
    pub families: &'a [IpFamily],
    /// The objects that stay.
    pub keep: &'a Keep,
}

impl Request<'_> {
    /// Whether this is about both families.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        IpFamily::ALL.iter().all(|it| self.families.contains(it))
    }
}

/// The objects that a kube-proxy in the mode of one data plane leaves in the kernel, and Sluice in it.
pub trait Leftovers: Sync {
    /// Removes the objects.
    fn remove(&self, request: &Request<'_>, removal: &mut Removal);

    /// How many connections end when the objects are removed; 0 also when that is not known. A takeover
    /// waits for their end. Where the objects would take new connections before ours do, they take none from
    /// here on.
    fn drain(&self, keep: &Keep) -> usize {
        let _ = keep;
        0
    }

    /// An object that shows that a kube-proxy works beside us; `None` also when that is not known.
    fn sign_of_kube_proxy(&self, keep: &Keep, looks: &mut Looks) -> Option<String>;

    /// An object that shows that this data plane's rules are on this machine, ours or a kube-proxy's;
    /// `None` also when that is not known.
    fn sign(&self) -> Option<String> {
        self.sign_of_kube_proxy(&|_| false, &mut Looks::default())
    }

    /// Whether the removal runs the programs of iptables on this machine.
    fn need_programs(&self) -> bool {
        false
    }

    /// Whether the removal changes maps and pins of eBPF programs on this machine.
    fn need_bpf(&self) -> bool {
        false
    }
}

/// Why an object of an earlier proxy could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    /// The kernel could not be reached.
    #[error("remove what an earlier proxy left")]
    Connect(#[source] SocketError),
    /// The kernel could not be asked, or refused one object.
    #[error("remove what an earlier proxy left")]
    Request(#[source] RequestError),
    /// The kernel refused a transaction.
    #[error("remove {what} of an earlier proxy")]
    Commit {
        /// The objects to remove.
        what: &'static str,
        /// The kernel's reason.
        source: CommitError,
    },
    /// Our own tables could not be removed.
    #[error("remove tables of the nftables mode")]
    Tables(#[source] sluice_reconcile::BackendError),
    /// Our eBPF programs could not be removed.
    #[error("remove eBPF programs of the ebpf mode")]
    Programs(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The programs of legacy iptables could not be found.
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
        /// Name of the ipset.
        set: String,
        /// The reason, in the kernel's words.
        reason: String,
    },
    /// Only root may see whether there are legacy tables.
    #[error(
        "only root may read {path}: rules of kube-proxy in legacy iptables, if there are any, stay; \
         `sluice cleanup --kube-proxy` as root removes them"
    )]
    Hidden {
        /// The file under `/proc`.
        path: &'static str,
    },
    /// A file of the kernel could not be read.
    #[error("read {path}")]
    Read {
        /// The file under `/proc`.
        path: &'static str,
        /// The error of the system.
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

/// The result of a removal.
#[derive(Debug, Default)]
pub struct Removal {
    /// What was removed, as in `table ip kube-proxy`.
    pub removed: Vec<String>,
    /// What a cleanup leaves on purpose, and why: `chain KUBE-FIREWALL of table ip filter: …`.
    pub left: Vec<String>,
    /// What the operator should see to.
    pub notes: Vec<String>,
    /// What failed.
    pub errors: Vec<LeftoverError>,
}

impl Removal {
    /// The value of one step; its error is added to the errors.
    pub fn take<T: Default>(&mut self, result: Result<T, LeftoverError>) -> T {
        result.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// Whether everything is removed that we may read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let hidden = |it: &LeftoverError| matches!(it, LeftoverError::Hidden { .. });
        self.errors.iter().all(hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is closed between two looks.
    #[test]
    fn all_looks_have_one_connection() {
        let mut looks = Looks::default();
        let mut port = || looks.nft().map(|it| it.port_id());
        assert_eq!(port(), port());
    }
}
