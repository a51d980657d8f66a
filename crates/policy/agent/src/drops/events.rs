//! Events on the pods whose policies dropped a packet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_model::{Announcement, NamespacedName, Pod, Reference};
use sluice_policy_plan::Outcome;

use super::PolicyDrop;

/// A minute has room for so many Events about pods of one namespace, and of all: whoever is dropped has no other limit, and
/// Events of Services share what the API server is sent.
const OF_NAMESPACE: u32 = 5;
const OF_ALL: u32 = 40;
const MINUTE: Duration = Duration::from_secs(60);

/// Makes Events of packets.
#[derive(Debug)]
pub(crate) struct Events {
    announce: Sender<Announcement>,
    since: Instant,
    all: u32,
    namespaces: HashMap<Arc<str>, u32>,
}

impl Events {
    pub(crate) fn new(announce: Sender<Announcement>, now: Instant) -> Self {
        Self {
            announce,
            since: now,
            all: 0,
            namespaces: HashMap::new(),
        }
    }

    /// Makes one about the pod whose policies these are, if there is room.
    pub(super) fn tell(&mut self, pod: &NamespacedName, drop: &PolicyDrop, now: Instant) {
        if now.saturating_duration_since(self.since) >= MINUTE {
            self.since = now;
            self.all = 0;
            self.namespaces.clear();
        }
        let of_namespace = self.namespaces.entry(pod.namespace.clone()).or_default();
        if self.all >= OF_ALL || *of_namespace >= OF_NAMESPACE {
            return;
        }
        self.all += 1;
        *of_namespace += 1;
        // The thread that writes them may have ended.
        let _ = self.announce.send(announcement(pod, drop));
    }
}

/// Without the port: each one that a client tries would be an Event.
fn announcement(pod: &NamespacedName, drop: &PolicyDrop) -> Announcement {
    let PolicyDrop {
        outcome,
        direction,
        source,
        destination,
        why,
        ..
    } = drop;
    Announcement {
        about: Reference::to::<Pod>(pod.clone()),
        is_warning: false,
        reason: match outcome {
            Outcome::Dropped => "NetworkPolicyDropped",
            Outcome::Audited => "NetworkPolicyAudited",
        },
        action: "EnforceNetworkPolicy",
        note: format!("{outcome} {direction} {source} to {destination}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::tests::drop;
    use super::*;

    #[test]
    fn a_minute_has_room_for_so_many() {
        let (announce, told) = mpsc::channel();
        let start = Instant::now();
        let mut events = Events::new(announce, start);
        let pod = |namespace: u32| NamespacedName::new(format!("ns-{namespace}"), "web");
        for _ in 0..100 {
            events.tell(&pod(0), &drop(1, 80), start);
        }
        let of_one: Vec<Announcement> = told.try_iter().collect();
        assert_eq!(of_one.len(), OF_NAMESPACE as usize);
        assert_eq!(of_one[0].about.to_string(), "Pod ns-0/web");
        assert_eq!(
            of_one[0].note,
            "dropped ingress 10.0.0.1 to a/web (10.0.0.2): isolated"
        );
        for namespace in 0..100 {
            events.tell(&pod(namespace), &drop(1, 80), start + MINUTE / 2);
        }
        let others = OF_ALL - OF_NAMESPACE;
        assert_eq!(told.try_iter().count(), others as usize);
        events.tell(&pod(0), &drop(1, 80), start + MINUTE);
        assert_eq!(told.try_iter().count(), 1);
    }
}
