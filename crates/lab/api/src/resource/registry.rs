//! The kinds that a server serves.

use std::sync::Arc;

use super::Resource;

/// The kinds that are served, each with its versions, in the order of discovery. Of several versions of one collection
/// the first is preferred, and objects are stored in it. A value: what is served changes when another one takes its place.
#[derive(Clone, Debug, Default)]
pub struct Registry(Vec<Arc<Resource>>);

impl Registry {
    /// Every version of every kind.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.iter()
    }

    /// One version of each collection: the one in which its objects are stored.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let all = self.0.iter().enumerate();
        let first = all.filter(|(at, it)| !self.0[..*at].iter().any(|other| other.is_same(it)));
        first.map(|(_, it)| it)
    }

    /// The version in which the collection of `resource` is stored.
    pub fn stored_as(&self, resource: &Resource) -> Option<&Arc<Resource>> {
        self.0.iter().find(|it| it.is_same(resource))
    }

    /// These kinds and the versions of one collection, the preferred one first, in place of what it had.
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
        self.kinds(kind).find(|it| it.api_version() == api_version)
    }

    /// The collections of a kind. Events are in two: of the core group and of `events.k8s.io`.
    pub fn kinds(&self, kind: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.iter().filter(move |it| it.kind == kind)
    }

    pub fn of_path(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let given = (group, version, plural);
        self.0
            .iter()
            .find(|it| (&*it.group, &*it.version, &*it.plural) == given)
    }

    /// Every API group but the core group, and its versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for it in self.0.iter().filter(|it| !it.group.is_empty()) {
            match groups.iter_mut().find(|(name, _)| *name == it.group) {
                None => groups.push((&it.group, vec![&it.version])),
                Some((_, versions)) if versions.contains(&&*it.version) => {}
                Some((_, versions)) => versions.push(&it.version),
            }
        }
        groups.sort_unstable_by_key(|(name, _)| *name);
        groups
    }

    /// The kinds of one version of a group.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        let of_it = |it: &&Arc<Resource>| (&*it.group, &*it.version) == (group, version);
        self.0.iter().filter(of_it).collect()
    }
}

impl<R: Into<Arc<Resource>>> FromIterator<R> for Registry {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        Self(resources.into_iter().map(Into::into).collect())
    }
}
