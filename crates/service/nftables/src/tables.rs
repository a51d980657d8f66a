//! Tables as a whole: whose they are, their removal, and the errors of listing them.

use sluice_model::IpFamily;
use sluice_netlink::request::uninterrupted;
use sluice_netlink::{Errno, RequestError, SocketError};
use sluice_nft::{Batch, ChainKind, Connection, Hook, Kernel, Purpose, Table, owned};
use sluice_plane::LeftoverError;
use sluice_reconcile::BackendError;

use crate::name::{TABLE, netlink, scope};
use crate::object::TABLE_COMMENT;

/// Connects to nf_tables of the calling thread's network namespace.
pub(crate) fn connect() -> Result<Connection, BackendError> {
    Purpose::Services.connect().map_err(unconnected)
}

pub(crate) fn unconnected(error: SocketError) -> BackendError {
    BackendError::new("open netlink socket", error)
}

/// Our table of this family, if it exists.
///
/// # Errors
///
/// The kernel could not be asked, or a table of our name is not ours: it lacks our comment.
pub(crate) fn ours(
    kernel: &mut impl Kernel,
    family: IpFamily,
) -> Result<Option<Table>, BackendError> {
    owned::table(kernel, scope(family), TABLE_COMMENT)
}

/// Removes our tables of these families; returns those that were there.
///
/// # Errors
///
/// The kernel could not be asked, refused, or a table of our name is not ours.
pub(crate) fn remove_ours(
    kernel: &mut impl Kernel,
    families: &[IpFamily],
) -> Result<Vec<String>, BackendError> {
    let [mut filters, mut all] = [Batch::new(), Batch::new()];
    let mut removed = Vec::new();
    for &family in families {
        if ours(kernel, family)?.is_some() {
            // The kernel takes the hooks of a table away one after the other. What is no more translated, and is still
            // filtered, would be refused as a packet to a ClusterIP without such a port.
            let chains = uninterrupted(|| kernel.chains(scope(family)));
            let chains = chains.map_err(|error| failed(family, error))?;
            let is_filter = |it: &Hook| it.kind == ChainKind::Filter;
            for chain in chains
                .iter()
                .filter(|it| it.hook.as_ref().is_some_and(is_filter))
            {
                filters.flush_chain(0, scope(family), &chain.name);
            }
            all.delete_table(0, scope(family));
            removed.push(format!("{} {TABLE}", family.nft_name()));
        }
    }
    for (what, batch) in [("flush filters", filters), ("delete tables", all)] {
        let result = kernel.commit(&batch);
        result.map_err(|error| error.of(what))?;
    }
    Ok(removed)
}

/// Whether a table of this name exists. On a kernel without nf_tables none does; the kernel answers with `EINVAL`
/// then (`nfnetlink_rcv_msg`).
pub(crate) fn has_table(
    kernel: &mut impl Kernel,
    family: IpFamily,
    table: &str,
) -> Result<bool, LeftoverError> {
    match kernel.tables(netlink(family)) {
        Ok(tables) => Ok(tables.iter().any(|it| it.name == table)),
        Err(RequestError::Refused {
            errno: Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT,
            ..
        }) => Ok(false),
        Err(error) => Err(LeftoverError::Request(error)),
    }
}

/// The error of a table that could not be listed.
pub(crate) fn failed(family: IpFamily, error: RequestError) -> BackendError {
    BackendError::new(format!("list table {} {TABLE}", family.nft_name()), error)
}
