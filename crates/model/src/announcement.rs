//! Messages for the users of an object in the cluster.

use crate::Reference;

/// A message about an object: a Kubernetes Event and a log line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// The object.
    pub about: Reference,
    /// Somebody has to act.
    pub is_warning: bool,
    /// `reason` of the Event, such as `FailedToStartServiceHealthcheck`.
    pub reason: &'static str,
    /// `action` of the Event, such as `StartKubeProxy`.
    pub action: &'static str,
    /// `note` of the Event: one line, foreign text escaped.
    pub note: String,
}
