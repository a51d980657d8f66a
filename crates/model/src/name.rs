//! Names of objects and of load-balanced ports.

use std::fmt;
use std::sync::Arc;

use crate::Protocol;

/// Namespace and name of a Kubernetes object. Displays as `namespace/name`.
///
/// Both parts are DNS labels or subdomains, since a source refuses any other name. So logs and rule
/// comments need not escape them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    pub namespace: Arc<str>,
    /// The name, unique per kind inside the namespace.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// A name from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Identity of one load-balanced port: the key of everything in the planner.
///
/// Displays as `namespace/name:port` (`namespace/name` for an unnamed port), the form used in
/// rule comments and logs. Two protocols may share a port name, so the protocol is part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePortName {
    pub service: NamespacedName,
    /// Name of the port; empty when the Service leaves its only port unnamed.
    pub port: Arc<str>,
    /// Transport protocol of the port.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port.is_empty() {
            write!(f, "{}", self.service)
        } else {
            write!(f, "{}:{}", self.service, self.port)
        }
    }
}

/// Whether a text is a DNS label (RFC 1123): at most 63 of `[a-z0-9-]`, no dash at the ends.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

/// Whether a text is a DNS subdomain (RFC 1123), as names of nodes are: labels joined by dots, at most
/// 253 characters. The API server bounds the whole, not the labels.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

/// Whether a text is a label (RFC 1123) but for its length: the API server has messages of its own for that.
#[must_use]
pub fn is_label_of_any_length(text: &str) -> bool {
    let inside = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}
