//! Tables of nf_tables: kube-proxy's in its nftables mode, and ours.

use sluice_model::IpFamily;
use sluice_nft::{Batch, Connection, Kernel, Scope};
use sluice_plane::{
    Keep, LeftoverError, Leftovers, Looks, Purpose, Removal, Request, Trace, kube_proxy,
};
use tracing::debug;

use crate::name::{TABLE, scope};
use crate::tables::{self, has_table};

/// Tables of kube-proxy's nftables mode, and of ours.
pub(crate) struct Tables;

impl Leftovers for Tables {
    fn remove(&self, request: &Request<'_>, removal: &mut Removal) {
        if request.purpose == Purpose::Cleanup {
            if let Some(table) = sign(kube_proxy::TABLE, &mut Looks::default()) {
                let why = "it is kube-proxy's; --kube-proxy removes it";
                removal.left.push(format!("{table}: {why}"));
            }
        } else {
            let result = remove_kube_proxy(request.families);
            let tables = removal.take(result);
            let names = tables
                .iter()
                .map(|it| format!("table {it} {}", kube_proxy::TABLE));
            removal.removed.extend(names);
        }
        if !(request.keep)(&Trace::Table(TABLE)) {
            remove_ours(request, removal);
        }
    }

    fn sign_of_kube_proxy(&self, _: &Keep, looks: &mut Looks) -> Option<String> {
        sign(kube_proxy::TABLE, looks)
    }

    fn sign(&self) -> Option<String> {
        let mut looks = Looks::default();
        sign(TABLE, &mut looks).or_else(|| sign(kube_proxy::TABLE, &mut looks))
    }
}

fn sign(table: &str, looks: &mut Looks) -> Option<String> {
    let connection = looks.nft()?;
    let mut families = IpFamily::ALL.into_iter();
    let found = families.find(|it| has_table(connection, *it, table).unwrap_or_default());
    found.map(|it| format!("table {} {table}", it.nft_name()))
}

fn remove_ours(request: &Request<'_>, removal: &mut Removal) {
    let connection = tables::connect();
    let removed = connection.and_then(|mut it| tables::remove_ours(&mut it, request.families));
    match removed {
        Ok(tables) => removal
            .removed
            .extend(tables.iter().map(|it| format!("table {it}"))),
        // Without nf_tables there are no tables, and another data plane goes on.
        Err(error) if request.purpose == Purpose::TakeOver => {
            debug!(%error, "tables of the nftables mode");
        }
        Err(error) => removal.errors.push(LeftoverError::Tables(error)),
    }
}

/// Removes the tables of kube-proxy's nftables mode, all of these families or none.
fn remove_kube_proxy(families: &[IpFamily]) -> Result<Vec<&'static str>, LeftoverError> {
    let mut connection = Connection::open().map_err(LeftoverError::Connect)?;
    let mut batch = Batch::new();
    let mut removed = Vec::new();
    for &family in families {
        if has_table(&mut connection, family, kube_proxy::TABLE)? {
            let scope = Scope {
                table: kube_proxy::TABLE,
                ..scope(family)
            };
            batch.delete_table(0, scope);
            removed.push(family.nft_name());
        }
    }
    let what = "the tables";
    let result = connection.commit(&batch);
    result.map_err(|source| LeftoverError::Commit { what, source })?;
    Ok(removed)
}
