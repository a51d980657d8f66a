//! The kinds that a server serves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Resource;

/// The kinds that are served, each with its versions, in the order of discovery. Of several versions of one collection
/// the first is the one in which objects are stored. A value: what is served changes when another one takes its place.
#[derive(Clone, Debug, Default)]
pub struct Registry(Vec<Arc<Resource>>);

/// The versions of a group, each with its kinds.
pub(crate) type Versions<'a> = Vec<(&'a str, Vec<&'a Arc<Resource>>)>;

impl Registry {
    /// Every version of every kind that clients see.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.iter().filter(|it| it.served)
    }

    /// Every version of every kind, hidden ones too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.iter()
    }

    /// The version in which the collection of `resource` is stored.
    pub fn stored_as(&self, resource: &Resource) -> Option<&Arc<Resource>> {
        self.0.iter().find(|it| it.is_same(resource))
    }

    /// These kinds and the versions of one collection, the stored one first, in place of what it had.
    #[must_use]
    pub fn with(&self, versions: Vec<Resource>) -> Self {
        let other = |it: &&Arc<Resource>| !versions.iter().any(|new| new.is_same(it));
        let mut resources: Vec<_> = self.0.iter().filter(other).cloned().collect();
        resources.extend(versions.into_iter().map(Arc::new));
        Self(resources)
    }

    /// The kinds but one collection.
    #[must_use]
    pub fn without(&self, resource: &Resource) -> Self {
        let others = self.0.iter().filter(|it| !it.is_same(resource));
        others.cloned().collect()
    }

    /// The kind with this `apiVersion`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let mut named = self.iter().filter(|it| it.kind == kind);
        named.find(|it| it.api_version() == api_version)
    }

    /// The collections of a built-in kind, each in its stored version.
    pub fn kinds(&self, kind: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let named = self
            .0
            .iter()
            .filter(move |it| it.kind == kind && !it.custom);
        named.filter(|it| {
            self.stored_as(it)
                .is_some_and(|stored| Arc::ptr_eq(stored, it))
        })
    }

    pub fn of_path(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let given = (group, version, plural);
        self.iter()
            .find(|it| (&*it.group, &*it.version, &*it.plural) == given)
    }

    /// Every API group by name, the core group first, with its versions, the preferred one first, and their kinds.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Versions<'_>> {
        let mut groups: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
        for it in self.iter() {
            let versions = groups.entry(&it.group).or_default();
            match versions.iter_mut().find(|(name, _)| *name == it.version) {
                Some((_, kinds)) => kinds.push(it),
                None => versions.push((&it.version, vec![it])),
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|(name, _)| Reverse(maturity(name)));
        }
        groups
    }

    /// The kinds of one version of a group.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        let of_it = |it: &&Arc<Resource>| (&*it.group, &*it.version) == (group, version);
        self.iter().filter(of_it).collect()
    }
}

/// How a version is preferred over others of its group: `v2`, `v1`, `v1beta2`, `v1alpha1`, any other
/// (`apimachinery/pkg/version/helpers.go`).
fn maturity(version: &str) -> (u32, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok().filter(|it| *it > 0);
    let parsed = || {
        let text = version.strip_prefix('v')?;
        for (rank, word) in [(2, "beta"), (1, "alpha")] {
            if let Some((major, minor)) = text.split_once(word) {
                return Some((rank, number(major)?, number(minor)?));
            }
        }
        Some((3, number(text)?, 0))
    };
    parsed().unwrap_or_default()
}

impl<R: Into<Arc<Resource>>> FromIterator<R> for Registry {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        Self(resources.into_iter().map(Into::into).collect())
    }
}
