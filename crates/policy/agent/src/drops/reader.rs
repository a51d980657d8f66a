//! Reads what the kernel tells of dropped packets, on a thread of its own.

use std::thread;
use std::time::{Duration, Instant};

use sluice_netlink::SocketError;
use sluice_netlink::nflog::{Listener, Shown};
use sluice_node::{Handle, chain};
use sluice_policy_plan::lookup::Packet;
use sluice_policy_plan::{Direction, Outcome};
use tracing::warn;

use super::packet;
use crate::Policies;

/// The group of nflog: "sp" in ASCII, as the lock of the agent's namespace is "sl".
const GROUP: u16 = 0x7370;
/// Bytes of each packet: an IPv6 header with some extensions, and ports.
const COPIED: u32 = 128;
/// Most packets in a second that reach the agent's thread, which has other work.
const PACE: u32 = 100;

/// Begins to read, in the network namespace of the caller. Returns the group that rules are to show packets to; `None`,
/// with a line in the log, where the kernel has no nflog or another program has the group.
pub fn listen(policies: Handle<Policies>) -> Option<u16> {
    let unread = |why: String| warn!(why, "packets that network policies drop are not logged");
    let listener = match Listener::open(GROUP, COPIED) {
        Ok(Some(listener)) => listener,
        Ok(None) => {
            unread(format!("another program has the nflog group {GROUP}"));
            return None;
        }
        Err(error) => {
            unread(chain(&error));
            return None;
        }
    };
    let thread = thread::Builder::new().name("nflog".into());
    match thread.spawn(move || unread(read(listener, &policies))) {
        Ok(_) => Some(GROUP),
        Err(error) => {
            warn!(%error, "packets that network policies drop are not logged");
            None
        }
    }
}

/// Reads until it cannot; returns why.
fn read(mut listener: Listener, policies: &Handle<Policies>) -> String {
    let mut pace = Pace::new(Instant::now());
    let mut lost = 0;
    loop {
        let shown = match listener.wait(None) {
            Ok(shown) => shown,
            Err(SocketError::Overrun) => {
                lost += 1;
                continue;
            }
            Err(error) => return chain(&error),
        };
        let Some((outcome, direction, packet)) = shown.as_ref().and_then(meaning) else {
            continue;
        };
        if !pace.has_room(Instant::now()) {
            lost += 1;
            continue;
        }
        let lost = std::mem::take(&mut lost);
        let told =
            policies.tell(move |it: &mut Policies| it.shown(outcome, direction, &packet, lost));
        if !told {
            return "the agent is stopping".to_owned();
        }
    }
}

/// What a packet means that our rules showed; `None` for another program's.
fn meaning(shown: &Shown) -> Option<(Outcome, Direction, Packet)> {
    let (outcome, direction) = shown.prefix.split_once(' ')?;
    let outcome = Outcome::ALL
        .into_iter()
        .find(|it| it.to_string() == outcome);
    let mut directions = Direction::ALL.into_iter();
    let direction = directions.find(|it| it.to_string() == direction);
    Some((outcome?, direction?, packet::parse(&shown.payload)?))
}

/// Counts packets by seconds.
struct Pace {
    since: Instant,
    count: u32,
}

impl Pace {
    const fn new(since: Instant) -> Self {
        Self { since, count: 0 }
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.count += 1;
        self.count <= PACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_room_for_so_many() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let taken = (0..1_000).filter(|_| pace.has_room(start)).count();
        assert_eq!(taken, PACE as usize);
        assert!(!pace.has_room(start + Duration::from_millis(999)));
        assert!(pace.has_room(start + Duration::from_secs(1)));
    }

    #[test]
    fn only_our_own_words_mean_something() {
        let mut payload = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6];
        payload.extend([0; 14]);
        let of = |prefix: &str| {
            let (prefix, payload) = (prefix.to_owned(), payload.clone());
            meaning(&Shown { prefix, payload }).map(|it| (it.0, it.1))
        };
        let expected = (Outcome::Audited, Direction::Egress);
        assert_eq!(of("audited egress"), Some(expected));
        for other in ["", "audited", "dropped forward", "IN=eth0 egress"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
