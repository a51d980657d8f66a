//! A kind as the feeds use it, whatever its type.

use std::iter;

use sluice_model::Model as _;

use crate::convert::Interner;
use crate::kind::Kind;
use crate::manifest::Form;
use crate::received::{Identified, Received, identify, read};

/// A kind, as the feeds use it.
#[derive(Debug)]
pub(crate) struct Known {
    /// How manifests write it.
    pub(crate) form: Form,
    /// [`Kind::ALSO`].
    pub(crate) also: &'static [Form],
    /// [`Kind::OBJECTS`].
    pub(crate) objects: &'static str,
    /// [`Kind::PLURAL`].
    pub(crate) plural: &'static str,
    /// The `apiVersion` that is asked for.
    pub(crate) version: &'static str,
    /// [`read`]
    pub(crate) read: fn(&str, &mut Interner) -> Result<Received, String>,
    /// [`identify`]
    pub(crate) identify: fn(&str) -> Result<Identified, String>,
}

impl Known {
    pub(crate) fn of<K: Kind>() -> &'static Self {
        const {
            &Self {
                form: Form::of::<K>(),
                also: K::ALSO,
                objects: K::OBJECTS,
                plural: K::PLURAL,
                version: K::Model::KIND.version,
                read: read::<K>,
                identify: identify::<K>,
            }
        }
    }

    /// Its kinds in manifests.
    pub(crate) fn forms(&'static self) -> impl Iterator<Item = &'static Form> {
        iter::once(&self.form).chain(self.also)
    }
}
