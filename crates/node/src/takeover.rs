//! Follows a kube-proxy on the same node, or ourselves in another mode: removes what that left, once
//! our own rules do the work.
//!
//! ```text
//! nft       tables `kube-proxy` ─────────────────────────┐
//! ipvs      virtual servers, kube-ipvs0, ipsets ─────────┤
//! iptables  chains in tables of nf_tables ──┐            ├─▶ Removal: what went, what stays, why
//!           chains in legacy tables ────────┴─ teardown ─┘
//! ```
//!
//! Why ours first and theirs after: a connection is translated by whoever sees its first packet,
//! at the same priority in both, and the other then finds an address that is no Service's.
//! Translations are kept in conntrack, so connections outlive the rules that made them. Both
//! masquerade by the same mark. What kube-proxy rejects or drops meanwhile has no endpoints in
//! its eyes, which are minutes old at most.
//!
//! # Invariants
//!
//! - A family that we do not serve keeps what serves it. What IPVS has is of both families and goes
//!   last: our translation comes before it.
//! - Rules, chains, sets and virtual servers of others stay as they are, also in the same tables.
//! - What cannot be removed stops nothing else from being removed.
//! - A takeover loads no kernel module to look for something that then cannot be there. Who cleans
//!   up may: nothing but the kernel's answer tells whether it has objects of nfacct.

mod accounts;
mod ipvs;
mod legacy;
mod names;
mod nft;
mod sets;
mod teardown;
mod watch;

use std::io;
use std::iter;
use std::thread;
use std::time::Duration;

use sluice_model::IpFamily;
use sluice_netlink::nftables::{CommitError, Connection};
use sluice_netlink::{RequestError, SocketError};
use sluice_xtables::programs::{FindError, RestoreError, SaveError};
use tracing::{info, warn};

pub use accounts::remove_accounts;
pub(crate) use names::DEVICE as IPVS_DEVICE;
pub(crate) use nft::{TABLES as IPTABLES_TABLES, port_id};
pub(crate) use teardown::BUILTIN as BUILTIN_CHAINS;

use crate::agent::chain;
use crate::privileges::{self, Capability};

/// How long connections through IPVS may go on before their virtual servers are removed.
const DRAIN_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long after the first count the second one follows.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The longest time between two counts.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What is ours though it has the names of kube-proxy's: the iptables and the ipvs data plane keep
/// them, so that runbooks hold.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// Where our chains are; `None` when there are none.
    pub chains: Option<Chains>,
    /// Whether a chain there, by its table and name, is one of them: another mode may have left
    /// some beside.
    pub has: fn(&str, &str) -> bool,
    /// Whether the virtual servers, their interface and the ipsets are ours.
    pub ipvs: bool,
}

impl Default for Ours {
    /// Nothing.
    fn default() -> Self {
        Self {
            chains: None,
            has: |_, _| false,
            ipvs: false,
        }
    }
}

impl Ours {
    /// Whether a chain goes: it is kube-proxy's or of a mode of ours, and not of the present one.
    fn gives_up(&self, place: Chains, table: &str, chain: &str) -> bool {
        names::is_chain(chain) && !(self.chains == Some(place) && (self.has)(table, chain))
    }
}

/// Which tables iptables writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chains {
    /// Those of nf_tables.
    Nft,
    /// The older ones.
    Legacy,
}

/// Why something of kube-proxy could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// The kernel could not be reached.
    #[error("remove what kube-proxy left")]
    Connect(#[source] SocketError),
    /// The kernel could not be asked, or refused a single thing.
    #[error("remove what kube-proxy left")]
    Request(#[source] RequestError),
    /// The kernel refused a transaction.
    #[error("remove {what} of kube-proxy")]
    Commit {
        /// What was to be removed.
        what: &'static str,
        /// The kernel's reason.
        source: CommitError,
    },
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

impl TakeoverError {
    /// Whether there may be rules that apply beside ours.
    fn leaves_rules(&self) -> bool {
        !matches!(self, Self::Hidden { .. } | Self::Set { .. })
    }
}

/// What became of kube-proxy's state.
#[derive(Debug, Default)]
pub struct Removal {
    /// What was removed, as in `table ip kube-proxy`.
    pub removed: Vec<String>,
    /// What the operator should know: what stays and why.
    pub notes: Vec<String>,
    /// What failed.
    pub errors: Vec<TakeoverError>,
}

impl Removal {
    /// Keeps the success of one step, or its error.
    fn keep<T: Default>(&mut self, result: Result<T, TakeoverError>) -> T {
        result.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// Whether all that could be looked at is done.
    fn is_done(&self) -> bool {
        let hidden = |it: &TakeoverError| matches!(it, TakeoverError::Hidden { .. });
        self.errors.iter().all(hidden)
    }
}

/// Removes what our own iptables and ipvs modes left, at once; a kube-proxy in nftables mode is
/// none of our business then.
#[must_use]
pub fn remove_own() -> Removal {
    let mut removal = Removal::default();
    remove_chains_and_servers(Ours::default(), &mut removal);
    removal
}

/// Removes everything that kube-proxy left, in all of its modes and both families, at once, but
/// for what is ours. Connections through IPVS end; all others go on. Needs nothing but the kernel.
#[must_use]
pub fn remove_kube_proxy(ours: Ours) -> Removal {
    remove(ours, &IpFamily::ALL)
}

fn remove(ours: Ours, families: &[IpFamily]) -> Removal {
    let mut removal = Removal::default();
    nft::remove_tables(families, &mut removal);
    if is_whole(families) {
        remove_chains_and_servers(ours, &mut removal);
    } else if ours.ipvs || !ipvs::has_device() {
        remove_chains(ours, families, &mut removal);
    }
    removal
}

fn is_whole(families: &[IpFamily]) -> bool {
    IpFamily::ALL.iter().all(|it| families.contains(it))
}

fn remove_chains(ours: Ours, families: &[IpFamily], removal: &mut Removal) {
    nft::remove_chains(ours, families, removal);
    legacy::remove_chains(ours, families, removal);
}

fn remove_chains_and_servers(ours: Ours, removal: &mut Removal) {
    // Packets to addresses of kube-ipvs0 are this machine's own, and a chain keeps them away from
    // what listens here: so the chains go last, and the sets that they mention after them.
    let flows = match ours.ipvs {
        true => Vec::new(),
        false => ipvs::remove_servers(removal),
    };
    remove_chains(ours, &IpFamily::ALL, removal);
    if !ours.ipvs {
        sets::remove(removal);
        ipvs::forget(&flows, removal);
    }
}

/// Whether our own iptables or ipvs mode has left something. Its chains and sets have kube-proxy's
/// names but for some: where these are, the others are ours too.
#[must_use]
pub fn left_own() -> bool {
    let in_nft = Connection::open().is_ok_and(|mut connection| {
        let mut has = |family, table: &str| {
            let found = nft::has_chain(&mut connection, family, table, names::is_ours);
            found.unwrap_or_default()
        };
        let mut places = nft::PLACES.into_iter();
        places.any(|it| IPTABLES_TABLES.iter().any(|table| has(it.family, table)))
    });
    in_nft || legacy::has_chain(&legacy::TABLES, names::is_ours) || sets::left_own()
}

/// The privileges that [`take_over`] needs here and now.
#[must_use]
pub fn needed_privileges(ours: Ours) -> &'static [Capability] {
    match ours.chains.is_some() || legacy::is_in_use() {
        true => privileges::IPTABLES,
        false => privileges::NETLINK,
    }
}

/// Removes what kube-proxy left of these families, from a thread of its own, now that our rules do
/// the work; then looks whether it comes back, and says so once. What fails is logged: both sets of
/// rules at once are a nuisance, no reason to stop.
pub fn take_over(ours: Ours, families: &[IpFamily]) {
    let families = families.to_vec();
    let thread = thread::Builder::new().name("takeover".into());
    if let Err(error) = thread.spawn(move || run(ours, &families)) {
        warn!(%error, "no thread to remove what kube-proxy left: it stays");
    }
}

fn run(ours: Ours, families: &[IpFamily]) {
    if !ours.ipvs && is_whole(families) {
        drain();
    }
    let removal = remove(ours, families);
    if !removal.removed.is_empty() {
        let removed = removal.removed.join(", ");
        info!(removed, "removed what an earlier proxy left");
    }
    removal.notes.iter().for_each(|it| warn!("{it}"));
    for error in &removal.errors {
        match error {
            TakeoverError::Hidden { .. } => info!("{error}"),
            TakeoverError::Set { .. } => warn!("{error}"),
            error => {
                let error = chain(error);
                warn!(error, "rules of kube-proxy stay: they and ours both apply");
            }
        }
    }
    // What is left of a family looks like a kube-proxy at work.
    let leaves_rules = removal.errors.iter().any(TakeoverError::leaves_rules);
    if !leaves_rules && is_whole(families) {
        watch::run(ours);
    }
}

/// Lets connections through IPVS come to their end: the kernel drops their packets once their
/// virtual server is gone. New ones are ours already, because our translation comes before IPVS.
fn drain() {
    let mut said = false;
    for wait in waits() {
        let open = ipvs::open_connections();
        if open == 0 {
            return;
        }
        if !said {
            info!(
                connections = open,
                limit_seconds = DRAIN_LIMIT.as_secs(),
                "connections through virtual servers of an earlier proxy: waiting for their end"
            );
            said = true;
        }
        thread::sleep(wait);
    }
    let open = ipvs::open_connections();
    if open > 0 {
        warn!(
            connections = open,
            "connections through virtual servers of an earlier proxy still open: cutting them"
        );
    }
}

/// Between counts, for each of which the kernel lists all connections: ever longer, and the limit
/// together.
fn waits() -> impl Iterator<Item = Duration> {
    let doubled = |it: &Duration| Some((*it * 2).min(LONGEST_WAIT));
    let waits = iter::successors(Some(FIRST_WAIT), doubled);
    waits.scan(DRAIN_LIMIT, |left, wait| {
        let wait = wait.min(*left);
        *left -= wait;
        (!wait.is_zero()).then_some(wait)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_ever_more_rarely_until_the_limit() {
        let waits: Vec<Duration> = waits().collect();
        let seconds: Vec<u64> = waits.iter().map(Duration::as_secs).collect();
        assert_eq!(seconds[..7], [2, 4, 8, 16, 30, 30, 30]);
        assert!(waits.iter().all(|it| *it <= LONGEST_WAIT));
        assert_eq!(waits.iter().sum::<Duration>(), DRAIN_LIMIT);
    }
}
