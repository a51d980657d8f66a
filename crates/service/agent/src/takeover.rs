//! Replaces an earlier proxy on the same node: removes its rules once our own rules work. Each data plane knows its
//! rules ([`Leftovers`]).
//!
//! Both rulesets can apply for a while. The rules that see a connection's first packet translate
//! it, and the others then find an address that is no Service's. Conntrack keeps translations, so
//! connections outlive the rules that made them. Both rulesets masquerade by the same mark. What
//! kube-proxy rejects or drops meanwhile had no endpoints a few minutes ago at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_node::chain;
use sluice_plane::{Keep, LeftoverError, Leftovers, Looks, Purpose, Removal, Request};
use sluice_reconcile::Waits;
use tracing::{info, warn};

/// How long connections through an earlier proxy's virtual servers or programs may go on.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(10 * 60);

/// First and longest time between two counts of such connections. For each count the kernel lists
/// all connections.
const FIRST_COUNT: Duration = Duration::from_secs(2);
const LONGEST_COUNT: Duration = Duration::from_secs(30);

/// First and longest time between two checks for a running kube-proxy, which writes at its next
/// change, or after its `syncPeriod`, half a minute by default.
const FIRST_CHECK: Duration = Duration::from_secs(5);
const LONGEST_CHECK: Duration = Duration::from_secs(60);

/// The leftovers of all data planes, in the order of removal.
pub type AllLeftovers = Vec<&'static dyn Leftovers>;

/// How many connections the programs or virtual servers of an earlier data plane still carry.
#[derive(Clone, Debug, Default)]
pub struct Carried(Arc<AtomicUsize>);

impl Carried {
    /// As of the last count.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, connections: usize) {
        self.0.store(connections, Ordering::Relaxed);
    }
}

/// Removes all leftovers of both families at once.
#[must_use]
pub fn clean_up(all: &[&dyn Leftovers], purpose: Purpose) -> Removal {
    let keep_nothing = |_: &sluice_plane::Trace<'_>| false;
    let request = Request {
        purpose,
        families: &IpFamily::ALL,
        keep: &keep_nothing,
    };
    remove(all, &request)
}

fn remove(all: &[&dyn Leftovers], request: &Request<'_>) -> Removal {
    let mut removal = Removal::default();
    for leftovers in all {
        leftovers.remove(request, &mut removal);
    }
    removal
}

/// Removes an earlier proxy's rules of these families, on a thread of its own; then watches for a kube-proxy that
/// comes back, and warns once. Failures are logged only, because two rulesets at once are no reason to stop.
/// `carried` says how many connections the removal waits for.
pub fn take_over(all: AllLeftovers, keep: Arc<Keep>, families: &[IpFamily], carried: Carried) {
    let families = families.to_vec();
    let thread = thread::Builder::new().name("takeover".into());
    if let Err(error) = thread.spawn(move || run(&all, &*keep, &families, &carried)) {
        warn!(%error, "no thread to remove what an earlier proxy left: it stays");
    }
}

fn run(all: &[&dyn Leftovers], keep: &Keep, families: &[IpFamily], carried: &Carried) {
    let request = Request {
        purpose: Purpose::TakeOver,
        families,
        keep,
    };
    if request.is_whole() {
        drain(all, keep, carried);
    }
    let removal = remove(all, &request);
    carried.set(0);
    if !removal.removed.is_empty() {
        let removed = removal.removed.join(", ");
        info!(removed, "removed what an earlier proxy left");
    }
    removal.notes.iter().for_each(|it| warn!("{it}"));
    for error in &removal.errors {
        match error {
            LeftoverError::Hidden { .. } => info!("{error}"),
            LeftoverError::Set { .. } => warn!("{error}"),
            error => {
                let error = chain(error);
                warn!(
                    error,
                    "rules of an earlier proxy stay: they and ours both apply"
                );
            }
        }
    }
    // Rules that could not be removed look like a running kube-proxy.
    let leaves_rules = removal.errors.iter().any(LeftoverError::leaves_rules);
    if !leaves_rules && request.is_whole() {
        watch(all, keep);
    }
}

/// Waits for the end of connections that the removal would cut: the kernel drops packets of IPVS
/// whose virtual server is gone, and eBPF programs hold the translation of their connections. New connections
/// are ours already: our translation comes before IPVS, and programs in their drain take none.
fn drain(all: &[&dyn Leftovers], keep: &Keep, carried: &Carried) {
    let deadline = Instant::now() + DRAIN_LIMIT;
    let mut waits = Waits::new(FIRST_COUNT, LONGEST_COUNT);
    loop {
        let connections: usize = all.iter().map(|it| it.drain(keep)).sum();
        carried.set(connections);
        let left = deadline.saturating_duration_since(Instant::now());
        if connections == 0 {
            return;
        }
        if left.is_zero() {
            warn!(
                connections,
                "connections through an earlier proxy still open: cutting them"
            );
            return;
        }
        let wait = waits.take();
        if wait == FIRST_COUNT {
            info!(
                connections,
                limit_seconds = DRAIN_LIMIT.as_secs(),
                "connections through an earlier proxy: waiting for their end"
            );
        }
        #[expect(clippy::disallowed_methods, reason = "back-off")]
        thread::sleep(wait.min(left));
    }
}

/// Checks for a kube-proxy that runs or was started again, warns once, and returns. Its rules are
/// not removed again: the two programs would undo each other's work for ever.
fn watch(all: &[&dyn Leftovers], keep: &Keep) {
    let mut waits = Waits::new(FIRST_CHECK, LONGEST_CHECK);
    let mut looks = Looks::default();
    loop {
        #[expect(clippy::disallowed_methods, reason = "back-off")]
        thread::sleep(waits.take());
        let mut signs = all
            .iter()
            .filter_map(|it| it.sign_of_kube_proxy(keep, &mut looks));
        if let Some(sign) = signs.next() {
            warn!(
                sign,
                "kube-proxy seems to be still running: its rules and ours both apply; stop it, \
                 then restart sluice to remove what it left"
            );
            return;
        }
    }
}
