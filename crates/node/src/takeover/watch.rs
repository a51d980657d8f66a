//! Notices a kube-proxy that is still running, or was started again: what was removed comes back.
//!
//! This one looks from time to time: kube-proxy's three modes leave three kinds of traces, and the
//! kernel reports only one of them. A look is a few small questions.

use std::thread;
use std::time::Duration;

use sluice_netlink::nftables::Connection;
use sluice_xtables::rule::Table;
use tracing::warn;

use super::nft::Place;
use super::{Chains, Ours, names};
use super::{ipvs, legacy, nft};

/// The first look: kube-proxy writes again at its next change.
const FIRST: Duration = Duration::from_secs(5);

/// kube-proxy itself looks for its rules each `syncPeriod`, half a minute by default.
const LONGEST: Duration = Duration::from_secs(60);

/// Looks until there is something to say, says it once, and returns. Nothing is removed again: two
/// programs that undo each other's work serve nobody.
pub(super) fn run(ours: Ours) {
    let mut wait = FIRST;
    loop {
        thread::sleep(wait);
        if let Some(sign) = sign(ours) {
            warn!(
                sign,
                "kube-proxy seems to be still running: its rules and ours both apply; stop it, \
                 then restart sluice to remove what it left"
            );
            return;
        }
        wait = (wait * 2).min(LONGEST);
    }
}

/// What says that kube-proxy is at work; `None` also when nobody can say.
fn sign(ours: Ours) -> Option<String> {
    if !ours.ipvs && ipvs::has_device() {
        return Some(format!("interface {}", names::DEVICE));
    }
    if let Ok(mut connection) = Connection::open() {
        for Place { family, word, .. } in nft::PLACES {
            if nft::has_table(&mut connection, family).unwrap_or_default() {
                return Some(format!("table {word} {}", names::TABLE));
            }
            let is_ours = ours.chains == Some(Chains::Nft);
            if !is_ours
                && nft::has_chain(&mut connection, family, "nat", names::is_services)
                    .unwrap_or_default()
            {
                return Some(format!("chain {} of table {word} nat", names::SERVICES));
            }
        }
    }
    if ours.chains == Some(Chains::Legacy) {
        return None;
    }
    let services = names::SERVICES;
    legacy::has_chain(&[Table::Nat], names::is_services)
        .then(|| format!("chain {services} of legacy iptables"))
}
