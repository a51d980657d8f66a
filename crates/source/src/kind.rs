//! A kind of API object: everything in which one kind differs from another.

use serde::de::DeserializeOwned;
use sluice_model::{Model, NamespacedName, Reference};

pub use crate::api::{AllLabels, Identity, ObjectMeta, nullable};
pub use crate::convert::{
    At, Converted, Fault, Faults, Interner, Step, cluster_scoped, labels, namespaced,
};
pub use crate::manifest::{Fields, Form};

use crate::object::scoped;

/// A kind of API object, implemented by its fields that we use: all others are skipped while an object is read.
///
/// The set of kinds is open: a kind is this trait and its [`Model`], in any crate. Whoever wants objects of it says so
/// with [`Wants::want`](crate::Wants::want).
pub trait Kind: DeserializeOwned + 'static {
    /// The model object that the object is converted to.
    type Model: Model;
    /// The `apiVersion`s that are understood in manifests.
    const VERSIONS: &'static [&'static str] = &[Self::Model::KIND.version];
    /// The collection's name in paths of the API server: `services`.
    const PLURAL: &'static str;
    /// The plural, as problems and logs show it: `Services`.
    const OBJECTS: &'static str;
    /// Whether an object has a namespace.
    const IS_NAMESPACED: bool = true;
    /// Older kinds that manifests may have in its place.
    const ALSO: &'static [Form] = &[];

    /// The fields that identify the object, and its version.
    fn identity(&self) -> Identity<'_>;

    /// Converts the object to its model; every value that cannot be used is a fault.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model>;

    /// What stands in a manifest for an object of a known version that cannot be read, and what it does, for a person. `None`: the
    /// object is refused. For kinds that are dangerous to miss.
    fn unread(_: NamespacedName) -> Option<(Self::Model, &'static str)> {
        None
    }

    /// The fields that the API has: others in a manifest are a problem. `None`: they are not checked.
    fn fields() -> Option<&'static Fields> {
        None
    }

    /// Sets in an object of a manifest what the API server sets (`SetDefaults_*` of Kubernetes'
    /// `pkg/apis/*/v1/defaults.go`), apart from the defaults that the conversion knows.
    fn set_defaults(&mut self) {}

    /// Advice for an object of a manifest that is of no use without a field that a cluster would allocate or fill in,
    /// and the field to write. The object is used all the same.
    fn advice(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// The object of this kind with a name; without namespaces only the name counts.
pub(crate) fn reference<K: Kind>(name: NamespacedName) -> Reference {
    Reference::to::<K::Model>(scoped(K::IS_NAMESPACED, name))
}
