//! What a document of a manifest is.

use sluice_yaml::Node;

use super::object::{self, Reader};
use crate::api;
use crate::kind::Kind;

/// A kind that is read.
#[derive(Debug)]
pub(super) struct Known {
    name: &'static str,
    versions: &'static [&'static str],
    /// Reads an object, given whether its `apiVersion` is understood.
    pub(super) read: fn(&mut Reader<'_>, &Node<'_>, bool),
}

static KINDS: [Known; 4] = [
    Known::of::<api::Service>(),
    Known::of::<api::EndpointSlice>(),
    Known::of::<api::Node>(),
    Known::of::<api::ServiceCidr>(),
];

impl Known {
    const fn of<K: Kind>() -> Self {
        Self {
            name: K::NAME,
            versions: K::VERSIONS,
            read: object::read::<K>,
        }
    }
}

/// What a document is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Document {
    /// One object.
    Object(&'static Known),
    /// `items`; of a typed list the kind they have if they do not say.
    List(Option<&'static Known>),
    /// Nothing a proxy needs.
    Other,
}

impl Document {
    /// From `kind`.
    pub(super) fn of(kind: &str) -> Self {
        let known = |name: &str| KINDS.iter().find(|it| it.name == name);
        match kind.strip_suffix("List") {
            Some("") => Self::List(None),
            Some(items) => known(items).map_or(Self::Other, |it| Self::List(Some(it))),
            None => known(kind).map_or(Self::Other, Self::Object),
        }
    }

    /// The `apiVersion`s that are understood.
    pub(super) fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Object(known) | Self::List(Some(known)) => known.versions,
            Self::List(None) => &["v1"],
            Self::Other => &[],
        }
    }
}
