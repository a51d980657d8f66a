//! Reports topics that are not up to date, to the log and to the consumers.

use sluice_model::Notice;

use super::Core;

/// The origin of problems with the connection to the API server. The feed logs them itself, each
/// kind once.
pub const ORIGIN: &str = Notice::API_SERVER;

/// Why a topic is not up to date.
pub(crate) struct Stale {
    pub(crate) since: jiff::Timestamp,
    pub(crate) reason: String,
    /// The effect of the missing kind; `None` while its last state stays in force.
    pub(crate) lost: Option<&'static str>,
}

/// The meaning of a server's answer that it does not know a kind (404) or refuses to show it (403), the mildest
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Absence {
    /// There are no objects, and this is no problem.
    Normal,
    /// We go on without the objects and report the loss.
    Loss(&'static str),
    /// The objects exist and cannot be read now.
    Outage,
}

impl Stale {
    /// The problem as one line for a person.
    pub(crate) fn line(&self, kind: &str) -> String {
        let since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let reason = &self.reason;
        match self.lost {
            None => format!("{ORIGIN}: {kind}{}{since}: {reason}", Notice::STALE_SINCE),
            Some(lost) => format!("{ORIGIN}: {kind}: not readable since {since}: {reason}: {lost}"),
        }
    }
}

impl Core {
    /// The topic is not up to date, and why. `heard`: when the server last said something about it.
    pub(crate) fn report_stale(&mut self, topic: usize, reason: &str, heard: jiff::Timestamp) {
        if !self.renew(topic, reason, None, heard) {
            return;
        }
        let kind = self.topics[topic].topic.known.objects;
        let server = &*self.server;
        if self.is_synced() {
            tracing::warn!(
                kind,
                server,
                reason,
                "no changes from the API server: what is known stays in force, and it is asked again"
            );
        } else {
            tracing::warn!(
                kind,
                server,
                reason,
                "not listed by the API server yet: asked until it is"
            );
        }
    }

    /// The kind cannot be read, and why; we go on without it.
    pub(crate) fn report_absent(&mut self, topic: usize, reason: &str, lost: &'static str) {
        if self.renew(topic, reason, Some(lost), jiff::Timestamp::now()) {
            let kind = self.topics[topic].topic.known.objects;
            let server = &*self.server;
            tracing::warn!(
                kind,
                server,
                reason,
                lost,
                "this kind cannot be read from the API server: going on without it"
            );
        }
    }
}

#[cfg(test)]
mod tests;
