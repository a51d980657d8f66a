//! The kind of a document in a manifest.

use sluice_model::Model as _;
use sluice_yaml::Node;

use super::nearest::nearest;
use super::object::{self, Reader};
use crate::hub::Topics;
use crate::kind::Kind;

/// A kind as manifests have it: how it is written, and how it is read.
#[derive(Debug)]
pub struct Form {
    name: &'static str,
    versions: &'static [&'static str],
    /// Reads an object, given whether its `apiVersion` is understood.
    pub(super) read: fn(&mut Reader<'_>, &Node<'_>, bool),
}

impl Form {
    /// Endpoints (core/v1), which become EndpointSlices.
    pub(crate) const ENDPOINTS: Self = Self {
        name: "Endpoints",
        versions: object::ENDPOINTS_VERSIONS,
        read: object::read_endpoints,
    };

    pub(crate) const fn kind(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn of<K: Kind>() -> Self {
        Self {
            name: K::Model::KIND.name,
            versions: K::VERSIONS,
            read: object::read::<K>,
        }
    }
}

/// A document, by its kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Document {
    Object(&'static Form),
    /// `items`, with the kind that a typed list gives to items that name none.
    List(Option<&'static Form>),
    /// A document of a kind that is not wanted.
    Other,
}

impl Document {
    /// The kind of document for this `kind`.
    pub(super) fn of(kind: &str, wanted: &Topics) -> Self {
        let known = |name: &str| wanted.forms().find(|it| it.name == name);
        match kind.strip_suffix("List") {
            Some("") => Self::List(None),
            Some(items) => known(items).map_or(Self::Other, |it| Self::List(Some(it))),
            None => known(kind).map_or(Self::Other, Self::Object),
        }
    }

    /// The known kind that was probably meant by an unknown kind. `version` decides: other API groups have kinds of
    /// nearly the same name.
    pub(super) fn meant(
        kind: &str,
        version: Option<&str>,
        wanted: &Topics,
    ) -> Option<&'static str> {
        let group = version.and_then(|it| it.split_once('/')).map(|it| it.0);
        let is_ours = group.is_none_or(|it| it.ends_with(".k8s.io"));
        let names = wanted.forms().map(|it| it.name).chain(["List"]);
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
