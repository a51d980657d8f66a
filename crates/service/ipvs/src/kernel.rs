//! Connections to the parts of the kernel that are written.

use sluice_netlink::ipset::Sets;
use sluice_netlink::ipvs::{self, Ipvs};
use sluice_netlink::request::uninterrupted;
use sluice_netlink::{Failure, RequestError};
use sluice_reconcile::BackendError;
use sluice_route::Addresses;
use sluice_xtables::programs::Programs;
use sluice_xtables::watch::Watch;

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) ipvs: Ipvs,
    pub(crate) sets: Sets,
    pub(crate) addresses: Addresses,
    pub(crate) programs: Programs,
    pub(crate) watch: Watch,
}

impl Kernel {
    pub(crate) fn open(programs: Programs) -> Result<Self, BackendError> {
        let ipvs = open_ipvs()?;
        Ok(Self {
            ipvs,
            sets: open_sets()?,
            addresses: Addresses::open()
                .map_err(|error| BackendError::new("open rtnetlink", error))?,
            watch: Watch::open(programs.variant())
                .map_err(|error| BackendError::new("watch rules", error))?,
            programs,
        })
    }
}

/// A connection to IPVS.
pub(crate) fn open_ipvs() -> Result<Ipvs, BackendError> {
    let opened = Ipvs::open().map_err(|error| BackendError::new("open IPVS", error))?;
    opened.ok_or_else(|| BackendError {
        operation: "open IPVS".into(),
        reason:
            "the kernel has none: load the module on the machine (`modprobe ip_vs`, and a line \
                 in /etc/modules-load.d for the next boot), or choose another --proxy-mode"
                .into(),
        source: None,
    })
}

/// A connection to ipset.
pub(crate) fn open_sets() -> Result<Sets, BackendError> {
    Sets::open().map_err(|error| BackendError::new("open ipset", error))
}

/// The real servers of a virtual one; see [`again`].
pub(crate) fn real_servers(
    ipvs: &mut Ipvs,
    key: &ipvs::Key,
) -> Result<Vec<ipvs::RealState>, BackendError> {
    again(|| ipvs.real_servers(key))
}

/// Repeats a listing while others change what it lists.
pub(crate) fn again<T>(list: impl FnMut() -> Result<T, RequestError>) -> Result<T, BackendError> {
    uninterrupted(list).map_err(asked)
}

/// The error of a request.
pub(crate) fn asked(error: RequestError) -> BackendError {
    let (operation, reason) = match &error {
        RequestError::Refused { .. } | RequestError::Interrupted { .. } => {
            ("ask the kernel", error.to_string())
        }
        RequestError::Socket { source, .. } => ("talk to the kernel", format!("{error}: {source}")),
    };
    BackendError {
        operation: operation.into(),
        reason,
        source: Some(Box::new(error)),
    }
}

/// The error of the first change that was refused.
pub(crate) fn all_taken(refused: Vec<Failure>) -> Result<(), BackendError> {
    let first = refused.into_iter().next();
    first.map_or(Ok(()), |it| Err(asked(it.error)))
}
