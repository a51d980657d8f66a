//! Removes chains of kube-proxy and of our own iptables and ipvs modes from the tables of iptables,
//! which have the same names: only [`Keep`] tells them apart.
//!
//! ```text
//! tables of nf_tables (nft.rs) ─┐
//! legacy tables (legacy.rs) ────┴─▶ teardown.rs: what to empty, unlink and delete ─▶ Removal
//! ```

mod legacy;
mod nft;
mod save;
mod teardown;

pub use legacy::present as legacy_tables;

use sluice_xtables::programs::Variant;
use sluice_xtables::rule::Table;

use crate::kube_proxy::{SERVICES, is_chain, is_ours};
use crate::{Keep, Looks, Removal, Request, Trace};

/// Tables of iptables in which kube-proxy has chains, in the order in which these are removed. What is refused goes before
/// what is translated: a packet that is no more translated, and still filtered, would be refused as one to a ClusterIP
/// without such a port.
const TABLES: [Table; 3] = [Table::Filter, Table::Mangle, Table::Nat];

/// Removes the chains that the data plane in use does not need, of both variants of iptables.
pub fn remove(request: &Request<'_>, removal: &mut Removal) {
    nft::remove(request, removal);
    legacy::remove(request, removal);
}

/// A chain that shows that a kube-proxy with iptables works; `None` also when that is not known.
pub fn sign_of_kube_proxy(keep: &Keep, looks: &mut Looks) -> Option<String> {
    nft::sign_of_kube_proxy(keep, looks).or_else(|| {
        let is_foreign = is_services(keep, Variant::Legacy);
        let found = legacy::tables_with(&[Table::Nat], is_foreign);
        let table = found.first()?;
        Some(format!("chain {SERVICES} of table {table}"))
    })
}

/// Whether Sluice left chains in its iptables or ipvs mode. Some have names that kube-proxy does not
/// have; where these exist, the others are ours, too.
#[must_use]
pub fn are_ours() -> bool {
    !tables_with(is_ours).is_empty()
}

/// The tables that have a chain whose name is meant: `ip nat`, `legacy ip filter`. A table that cannot be
/// read has none.
#[must_use]
pub fn tables_with(is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut tables = nft::tables_with(&TABLES, &is_meant, &mut Looks::default());
    tables.extend(legacy::tables_with(&TABLES, is_meant));
    tables
}

/// Whether there are legacy tables, and programs to change them.
#[must_use]
pub fn need_programs() -> bool {
    legacy::is_in_use()
}

/// Whether a chain is [`SERVICES`] and not of the data plane in use.
fn is_services(keep: &Keep, variant: Variant) -> impl Fn(&str) -> bool {
    move |chain| chain == SERVICES && !is_kept(keep, variant, Table::Nat, chain)
}

/// Whether a chain is removed: it is kube-proxy's or of a mode of ours, and not of the data plane in use.
fn goes(request: &Request<'_>, variant: Variant, table: Table, chain: &str) -> bool {
    is_chain(chain) && !is_kept(request.keep, variant, table, chain)
}

fn is_kept(keep: &Keep, variant: Variant, table: Table, chain: &str) -> bool {
    keep(&Trace::Chain {
        variant,
        table,
        chain,
    })
}
