//! Programs of an older version, whose maps have another layout: what an agent finds after an upgrade.
//!
//! ```text
//! copy twice ─▶ ours are attached before theirs ─▶ copy ─▶ ours open connections ─▶ copy ─▶ theirs go
//! ```
//!
//! Theirs open connections until ours do, so what changed since the last copy is copied each time. The first copy takes a
//! second for a million entries, the second one little: so ours know which connections have ended. A packet of a
//! connection that both know is rewritten by ours; it then has the addresses of an entry of theirs that leaves it as it is.

use std::collections::HashMap;
use std::path::Path;

use sluice_bpf::{BpfError, Pins, Pod, Table};
use sluice_bpf_abi::{Flow, Tuple, VERSION, flow_flags};
use tracing::{debug, info, warn};

use crate::maps::{AFFINITY, FLOWS, Maps, PEERS, SENDERS};

/// The maps of older versions, and what was copied of them.
#[derive(Debug)]
pub(crate) struct Older {
    pins: Vec<Pins>,
    copied: HashMap<Tuple, Flow>,
}

impl Older {
    /// Those of the calling thread's network namespace under this root; `None` without any.
    pub(crate) fn find(root: &Path) -> Option<Self> {
        let pins = Pins::of_older_versions(root, VERSION).unwrap_or_default();
        (!pins.is_empty()).then(|| Self {
            pins,
            copied: HashMap::new(),
        })
    }

    /// Copies what is new since the last time. A version that has too little in common with ours is an error.
    pub(crate) fn copy(&mut self, maps: &mut Maps) -> Result<(), BpfError> {
        for pins in &self.pins {
            for (key, flow) in entries(pins)? {
                let before = self.copied.insert(key, flow);
                if before != Some(flow) {
                    merge(&mut maps.flows, &key, &flow, before.as_ref())?;
                }
            }
            // Without these a client may get another endpoint, or see its own.
            copy_new(pins, AFFINITY, &mut maps.affinity);
            copy_new(pins, PEERS, &mut maps.peers);
            copy_new(pins, SENDERS, &mut maps.senders);
        }
        Ok(())
    }

    /// Removes their pins, and with them their links. Filters of clsact are ours by now: they have replaced those of any
    /// version.
    pub(crate) fn remove(self) {
        for pins in &self.pins {
            match pins.remove() {
                Ok(()) => {
                    let entries = self.copied.len();
                    info!(entries, "taken over from programs of an older version");
                }
                Err(error) => warn!(%error, "programs of an older version stay"),
            }
        }
    }
}

/// The connections of older programs. Where one is about to be masqueraded its port is chosen a moment later, so that its
/// entry is read once more: ours would choose another port.
fn entries(pins: &Pins) -> Result<Vec<(Tuple, Flow)>, BpfError> {
    let list = || Table::<Tuple, Flow>::older_entries(pins, FLOWS);
    let mut entries = list()?;
    let mut waiting: Vec<_> = entries.iter_mut().filter(|it| waits(&it.1)).collect();
    if !waiting.is_empty() {
        let later: HashMap<Tuple, Flow> = list()?.into_iter().collect();
        for (key, flow) in &mut waiting {
            *flow = later.get(key).copied().unwrap_or(*flow);
        }
    }
    Ok(entries)
}

/// Adds the entries that a map lacks.
fn copy_new<K: Pod, V: Pod>(older: &Pins, name: &'static str, table: &mut Table<K, V>) {
    let copied = Table::<K, V>::older_entries(older, name).and_then(|entries| {
        let mut entries = entries.iter();
        entries.try_for_each(|(key, value)| table.insert_new(key, value).map(drop))
    });
    if let Err(error) = copied {
        debug!(%error, "a map of an older version");
    }
}

/// Adds an entry of earlier programs to the table of others that are attached, unless theirs is newer. `before`: what was
/// added last time.
pub(crate) fn merge(
    table: &mut Table<Tuple, Flow>,
    key: &Tuple,
    flow: &Flow,
    before: Option<&Flow>,
) -> Result<(), BpfError> {
    let known = table.get(key)?;
    if known.as_ref() == before || known.is_some_and(|it| is_newer(flow, &it)) {
        table.insert(key, flow)?;
    }
    Ok(())
}

/// Whether an entry replaces one with the same key. The earlier programs may have chosen the address and port of a
/// masqueraded connection in the second in which it was copied.
fn is_newer(flow: &Flow, known: &Flow) -> bool {
    flow.seen_seconds > known.seen_seconds
        || flow.seen_seconds == known.seen_seconds && waits(known) && !waits(flow)
}

/// Whether the address and port are still to be chosen that masquerade the connection.
fn waits(flow: &Flow) -> bool {
    flow.flags & flow_flags::MASQUERADE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_its_port_replaces_one_without() {
        let entry = |seen_seconds, flags| Flow {
            seen_seconds,
            flags,
            ..Flow::default()
        };
        let waits = flow_flags::MASQUERADE;
        assert!(is_newer(&entry(5, 0), &entry(5, waits)));
        assert!(!is_newer(&entry(5, waits), &entry(5, 0)));
        assert!(!is_newer(&entry(5, 0), &entry(5, 0)));
        assert!(is_newer(&entry(6, 0), &entry(5, 0)));
        assert!(!is_newer(&entry(4, 0), &entry(5, waits)));
    }
}
