//! Whether new connections are dropped for want of room, for log and status.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_bpf_abi::Addr;
use sluice_plane::Drops;
use tracing::warn;

/// Drops are over, and the next one is news, when there was none for so long.
const QUIET: Duration = Duration::from_secs(60);

/// Drops of new connections: the counters, and when they last grew.
#[derive(Debug, Default)]
pub(super) struct Dropping {
    /// The counters at the last look; `None` before the first, when they are those of earlier agents.
    counted: Option<Drops>,
    /// When a look last found drops of a full table.
    full: Option<Instant>,
    /// When a look last found drops of clients with a large part of the table.
    share: Option<Instant>,
    /// Packets were dropped since the last listing.
    is_full: bool,
    /// The clients that were limited after the last listing.
    clients: BTreeSet<Addr>,
}

impl Dropping {
    /// Looks at the counters, and says in the log what is new.
    pub(super) fn look(&mut self, drops: Drops, now: Instant) {
        let before = self.counted.replace(drops).unwrap_or(drops);
        let is_over = |it: &Option<Instant>| it.is_none_or(|it| now.duration_since(it) > QUIET);
        let [full_over, share_over] = [is_over(&self.full), is_over(&self.share)];
        if full_over {
            self.full = None;
        }
        if share_over {
            self.share = None;
        }
        if drops.full > before.full {
            self.full = Some(now);
            self.is_full = true;
            if full_over {
                warn!("the table of connections is full, new ones are dropped: raise --ebpf-flows");
            }
        }
        if drops.share > before.share {
            self.share = Some(now);
            if share_over {
                warn!(
                    clients = self.names(),
                    "the table of connections fills up, and who has a large part of it opens no more"
                );
            }
        }
    }

    /// The table was listed, and these clients are limited.
    pub(super) fn listed(&mut self, clients: BTreeSet<Addr>) {
        self.is_full = false;
        self.clients = clients;
    }

    /// Whether a listing would let connections in that are dropped now.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_full || !self.clients.is_empty()
    }

    /// Whose connections are dropped, as of the last look; `None` when none was for a minute.
    pub(super) fn text(&self) -> Option<String> {
        let drops = self.counted?;
        let full = self.full.map(|_| {
            let packets = drops.full;
            format!("new connections are dropped ({packets} packets so far): raise --ebpf-flows")
        });
        let share = self.share.map(|_| {
            let packets = drops.share;
            let names = if self.clients.is_empty() {
                String::new()
            } else {
                format!(", now {}", self.names())
            };
            format!(
                "clients with a large part of it open no more ({packets} packets so far{names})"
            )
        });
        let all: Vec<String> = full.into_iter().chain(share).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn names(&self) -> String {
        let names = self.clients.iter().map(|it| IpAddr::from(*it).to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_until_they_are_over() {
        let mut dropping = Dropping::default();
        let begin = Instant::now();
        let drops = |full, share| Drops { full, share };
        dropping.look(drops(5, 7), begin);
        assert_eq!(dropping.text(), None, "those of an earlier agent");
        assert!(!dropping.is_urgent());
        dropping.look(drops(6, 7), begin);
        let full = "new connections are dropped (6 packets so far): raise --ebpf-flows";
        assert_eq!(dropping.text().as_deref(), Some(full));
        assert!(dropping.is_urgent());
        let client: IpAddr = [10, 244, 0, 7].into();
        dropping.listed([Addr::from(client)].into());
        assert!(dropping.is_urgent());
        let later = begin + QUIET + Duration::from_secs(1);
        dropping.look(drops(6, 9), later);
        let share =
            "clients with a large part of it open no more (9 packets so far, now 10.244.0.7)";
        assert_eq!(dropping.text().as_deref(), Some(share));
        dropping.listed(BTreeSet::new());
        assert!(!dropping.is_urgent());
        dropping.look(drops(6, 9), later + QUIET + Duration::from_secs(1));
        assert_eq!(dropping.text(), None);
    }
}
