//! What a document of a manifest is.

use sluice_yaml::Node;

use super::nearest::nearest;
use super::object::{self, Reader};
use super::written::Written;
use crate::api;
use crate::kind::Kind;
use crate::kinds::Kinds;

/// A kind that is read.
#[derive(Debug)]
pub(super) struct Known {
    name: &'static str,
    versions: &'static [&'static str],
    /// Reads an object, given whether its `apiVersion` is understood.
    pub(super) read: fn(&mut Reader<'_>, &Node<'_>, bool),
}

static KINDS: [Known; 7] = [
    Known::of::<api::Service>(),
    Known::of::<api::EndpointSlice>(),
    Known {
        name: "Endpoints",
        versions: object::ENDPOINTS_VERSIONS,
        read: object::read_endpoints,
    },
    Known::of::<api::Node>(),
    Known::of::<api::ServiceCidr>(),
    Known::of::<api::Namespace>(),
    Known::of::<api::Pod>(),
];

impl Known {
    const fn of<K: Kind + Written>() -> Self {
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
    /// Nothing that is wanted.
    Other,
}

impl Document {
    /// From `kind`.
    pub(super) fn of(kind: &str, wanted: &Kinds) -> Self {
        let known = |name: &str| of(wanted).find(|it| it.name == name);
        match kind.strip_suffix("List") {
            Some("") => Self::List(None),
            Some(items) => known(items).map_or(Self::Other, |it| Self::List(Some(it))),
            None => known(kind).map_or(Self::Other, Self::Object),
        }
    }

    /// The kind that was probably meant by one that is none of ours. `version` decides: other API
    /// groups have kinds of nearly the same name.
    pub(super) fn meant(kind: &str, version: Option<&str>, wanted: &Kinds) -> Option<&'static str> {
        let group = version.and_then(|it| it.split_once('/')).map(|it| it.0);
        let is_ours = group.is_none_or(|it| it.ends_with(".k8s.io"));
        let names = of(wanted).map(|it| it.name).chain(["List"]);
        nearest(kind, names).filter(|_| is_ours)
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

fn of(wanted: &Kinds) -> impl Iterator<Item = &'static Known> {
    KINDS.iter().filter(|it| wanted.has(it.name))
}
