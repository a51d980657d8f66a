//! What people who look at an object in the cluster should be told about it.

use crate::ObjectKey;

/// Something to say about an object where its users look: a Kubernetes Event, a log line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// The object it is about.
    pub about: ObjectKey,
    /// Something is wrong and will not go away by itself.
    pub is_warning: bool,
    /// A word for machines: `FailedToStartServiceHealthcheck`.
    pub reason: &'static str,
    /// What was being done, a word for machines: `StartKubeProxy`.
    pub action: &'static str,
    /// One line for a person. Foreign text in it is escaped.
    pub note: String,
}
