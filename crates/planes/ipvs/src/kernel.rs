//! Connections to everything that is written, and what the kernel is known to hold beyond what the
//! plan says.

use sluice_netlink::RequestError;
use sluice_netlink::ipset::Sets;
use sluice_netlink::ipvs::{self, Ipvs};
use sluice_netlink::rtnetlink::Addresses;
use sluice_reconcile::BackendError;
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
            sets: Sets::open().map_err(|error| failed("open ipset", error))?,
            addresses: Addresses::open().map_err(|error| failed("open rtnetlink", error))?,
            watch: Watch::open(programs.variant()).map_err(|error| failed("watch rules", error))?,
            programs,
        })
    }
}

/// A connection to IPVS.
pub(crate) fn open_ipvs() -> Result<Ipvs, BackendError> {
    let opened = Ipvs::open().map_err(|error| failed("open IPVS", error))?;
    opened.ok_or_else(|| BackendError {
        operation: "open IPVS".into(),
        reason:
            "the kernel has none: load the module on the machine (`modprobe ip_vs`, and a line \
                 in /etc/modules-load.d for the next boot), or choose another --proxy-mode"
                .into(),
        source: None,
    })
}

/// The real servers of a virtual one, however often the list changes while it is read.
pub(crate) fn real_servers(
    ipvs: &mut Ipvs,
    key: &ipvs::Key,
) -> Result<Vec<ipvs::RealState>, BackendError> {
    again(|| ipvs.real_servers(key))
}

/// How often a listing is begun again because somebody changed what was being listed.
const ATTEMPTS: u32 = 20;

/// Asks until what is listed holds still.
pub(crate) fn again<T>(
    mut list: impl FnMut() -> Result<T, RequestError>,
) -> Result<T, BackendError> {
    let mut attempt = 1;
    loop {
        match list() {
            Err(RequestError::Interrupted { .. }) if attempt < ATTEMPTS => attempt += 1,
            result => return result.map_err(asked),
        }
    }
}

/// A question that was not answered.
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

/// Something else that failed.
pub(crate) fn failed(
    operation: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> BackendError {
    BackendError {
        operation: operation.into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}
