//! Which objects are ours.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The kinds a proxy learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Service,
    EndpointSlice,
    Node,
    ServiceCidr,
}

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// One object.
    Object(Kind),
    /// `items`; of a typed list the kind they have if they do not say.
    List(Option<Kind>),
    /// Nothing a proxy needs.
    Other,
}

const KINDS: [(&str, &str, Kind, &[&str]); 4] = [
    ("Service", "ServiceList", Kind::Service, &["v1"]),
    (
        "EndpointSlice",
        "EndpointSliceList",
        Kind::EndpointSlice,
        &["discovery.k8s.io/v1"],
    ),
    ("Node", "NodeList", Kind::Node, &["v1"]),
    (
        "ServiceCIDR",
        "ServiceCIDRList",
        Kind::ServiceCidr,
        &["networking.k8s.io/v1", "networking.k8s.io/v1beta1"],
    ),
];

impl Document {
    /// From `kind`.
    pub(super) fn of(kind: &str) -> Self {
        if kind == "List" {
            return Self::List(None);
        }
        for (object, list, it, _) in KINDS {
            if kind == object {
                return Self::Object(it);
            }
            if kind == list {
                return Self::List(Some(it));
            }
        }
        Self::Other
    }

    /// The `apiVersion`s that are understood.
    pub(super) fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Object(kind) | Self::List(Some(kind)) => {
                let known = KINDS.iter().find(|(_, _, it, _)| *it == kind);
                known.map_or(&[], |(.., versions)| versions)
            }
            Self::List(None) => &["v1"],
            Self::Other => &[],
        }
    }
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        let known = KINDS.iter().find(|(_, _, it, _)| *it == self);
        known.map_or("", |(name, ..)| name)
    }

    pub(super) fn is_namespaced(self) -> bool {
        matches!(self, Self::Service | Self::EndpointSlice)
    }
}

/// Says once per process that a kind is not ours.
pub(super) fn log_skipped(kind: &str) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut seen = SEEN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // Kinds come from files: a bound keeps a hostile one from growing the set for ever.
    if seen.len() < 100 && !seen.contains(kind) {
        seen.insert(kind.to_owned());
        let kind = sluice_yaml::quoted(kind);
        tracing::info!(%kind, "skipped objects of a kind that a proxy does not need");
    }
}
