//! Follows an earlier proxy on the same node: removes what it left, once our own rules do the work.
//! What that is, each data plane says ([`Leftovers`]).
//!
//! Why ours first and theirs after: a connection is translated by whoever sees its first packet,
//! at the same priority in both, and the other then finds an address that is no Service's.
//! Translations are kept in conntrack, so connections outlive the rules that made them. Both
//! masquerade by the same mark. What kube-proxy rejects or drops meanwhile has no endpoints in
//! its eyes, which are minutes old at most.

use std::iter;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluice_model::IpFamily;
use sluice_plane::{Keep, LeftoverError, Leftovers, Purpose, Removal, Request};
use tracing::{info, warn};

use crate::agent::chain;

/// How long connections may go on that end with what an earlier proxy left.
const DRAIN_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long after the first count of such connections the second one follows.
const FIRST_COUNT: Duration = Duration::from_secs(2);

/// The longest time between two counts.
const LONGEST_COUNT: Duration = Duration::from_secs(30);

/// The first look for a kube-proxy at work: it writes again at its next change.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The longest time between two looks. kube-proxy itself looks for its rules each `syncPeriod`, half a
/// minute by default.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

/// What the data planes of a program may have left, in the order in which it is removed.
pub type AllLeftovers = Vec<&'static dyn Leftovers>;

/// Removes everything that is left of both families, at once.
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

/// Removes what an earlier proxy left of these families, from a thread of its own, now that our rules
/// do the work; then looks whether a kube-proxy comes back, and says so once. What fails is logged:
/// both sets of rules at once are a nuisance, no reason to stop.
pub fn take_over(all: AllLeftovers, keep: Arc<Keep>, families: &[IpFamily]) {
    let families = families.to_vec();
    let thread = thread::Builder::new().name("takeover".into());
    if let Err(error) = thread.spawn(move || run(&all, &*keep, &families)) {
        warn!(%error, "no thread to remove what an earlier proxy left: it stays");
    }
}

fn run(all: &[&dyn Leftovers], keep: &Keep, families: &[IpFamily]) {
    let request = Request {
        purpose: Purpose::TakeOver,
        families,
        keep,
    };
    if request.is_whole() {
        drain(all, keep);
    }
    let removal = remove(all, &request);
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
    // What is left of a family looks like a kube-proxy at work.
    let leaves_rules = removal.errors.iter().any(LeftoverError::leaves_rules);
    if !leaves_rules && request.is_whole() {
        watch(all, keep);
    }
}

/// Lets connections come to their end that end with what carries them: the kernel drops packets of
/// IPVS once their virtual server is gone. New ones are ours already, because our translation comes
/// before IPVS.
fn drain(all: &[&dyn Leftovers], keep: &Keep) {
    let open = || -> usize { all.iter().map(|it| it.open_connections(keep)).sum() };
    let mut said = false;
    for wait in waits() {
        let open = open();
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
    let open = open();
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
    let doubled = |it: &Duration| Some((*it * 2).min(LONGEST_COUNT));
    let waits = iter::successors(Some(FIRST_COUNT), doubled);
    waits.scan(DRAIN_LIMIT, |left, wait| {
        let wait = wait.min(*left);
        *left -= wait;
        (!wait.is_zero()).then_some(wait)
    })
}

/// Looks for a kube-proxy that is still running or was started again, says it once, and returns.
/// Nothing is removed again: two programs that undo each other's work serve nobody.
fn watch(all: &[&dyn Leftovers], keep: &Keep) {
    let mut wait = FIRST_LOOK;
    loop {
        thread::sleep(wait);
        if let Some(sign) = all.iter().find_map(|it| it.sign_of_kube_proxy(keep)) {
            warn!(
                sign,
                "kube-proxy seems to be still running: its rules and ours both apply; stop it, \
                 then restart sluice to remove what it left"
            );
            return;
        }
        wait = (wait * 2).min(LONGEST_LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_ever_more_rarely_until_the_limit() {
        let waits: Vec<Duration> = waits().collect();
        let seconds: Vec<u64> = waits.iter().map(Duration::as_secs).collect();
        assert_eq!(seconds[..7], [2, 4, 8, 16, 30, 30, 30]);
        assert!(waits.iter().all(|it| *it <= LONGEST_COUNT));
        assert_eq!(waits.iter().sum::<Duration>(), DRAIN_LIMIT);
    }
}
