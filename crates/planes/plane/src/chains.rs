//! Removes chains of kube-proxy and of our own iptables and ipvs modes from the tables of iptables,
//! which have the same names and are told apart by [`Keep`](crate::Keep) alone.
//!
//! ```text
//! tables of nf_tables (nft.rs) ─┐
//! legacy tables (legacy.rs) ────┴─▶ teardown.rs: what to empty, unlink and delete ─▶ Removal
//! ```

mod legacy;
mod nft;
mod save;
mod teardown;

pub use nft::port_id;

use sluice_xtables::programs::Variant;

use crate::kube_proxy::{SERVICES, is_chain, is_ours};
use crate::{Keep, Removal, Request, Trace};

/// Removes the chains that the data plane in use does not need, of both variants of iptables.
pub fn remove(request: &Request<'_>, removal: &mut Removal) {
    nft::remove(request, removal);
    legacy::remove(request, removal);
}

/// What shows that a kube-proxy with iptables is at work; `None` also when nobody can say.
pub fn sign_of_kube_proxy(keep: &Keep) -> Option<String> {
    nft::sign_of_kube_proxy(keep).or_else(|| {
        let is_foreign = is_services(keep, Variant::Legacy);
        let found = legacy::has_chain(&[sluice_xtables::rule::Table::Nat], is_foreign);
        found.then(|| format!("chain {SERVICES} of legacy iptables"))
    })
}

/// Whether Sluice left chains in its iptables or ipvs mode. Some have names that kube-proxy does not
/// have; where these are, the others are ours, too.
#[must_use]
pub fn are_ours() -> bool {
    nft::are_ours() || legacy::has_chain(&legacy::TABLES, is_ours)
}

/// Whether there are legacy tables, and programs to change them.
#[must_use]
pub fn need_programs() -> bool {
    legacy::is_in_use()
}

/// Whether a chain is [`SERVICES`] and not of the data plane in use.
fn is_services(keep: &Keep, variant: Variant) -> impl Fn(&str) -> bool {
    move |chain| {
        let trace = Trace::Chain {
            variant,
            table: "nat",
            chain,
        };
        chain == SERVICES && !keep(&trace)
    }
}

/// Whether a chain goes: it is kube-proxy's or of a mode of ours, and not of the data plane in use.
fn goes(request: &Request<'_>, variant: Variant, table: &str, chain: &str) -> bool {
    let trace = Trace::Chain {
        variant,
        table,
        chain,
    };
    is_chain(chain) && !(request.keep)(&trace)
}
