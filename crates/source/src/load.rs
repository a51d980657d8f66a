//! The folder and its subfolders as they are now.

use std::path::Path;
use std::sync::Arc;

use sluice_model::Object;

use crate::catalog::{Catalog, Change};
use crate::convert::Interner;
use crate::error::SourceError;
use crate::folder::Folder;
use crate::kinds::Kinds;
use crate::manifest::{self, Problem};

/// What a folder of manifests holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Every good object, ordered by kind and name.
    pub objects: Vec<Object>,
    /// Every problem, ordered by file and line.
    pub problems: Vec<Problem>,
}

/// Reads the objects of these kinds from a manifest in memory; its file name decides between YAML and JSON.
pub fn parse(file: &str, bytes: &[u8], kinds: &Kinds) -> Loaded {
    let manifest = manifest::read(file, bytes, kinds, &mut Interner::default());
    loaded(vec![(file.into(), Change::Read(manifest))])
}

/// Reads the objects of these kinds from a folder with its subfolders, once.
///
/// # Errors
/// [`SourceError::Folder`] when the folder cannot be listed. Bad files and objects are
/// [`Loaded::problems`], not errors.
pub fn load(dir: impl AsRef<Path>, kinds: &Kinds) -> Result<Loaded, SourceError> {
    let dir = dir.as_ref();
    let mut folder = Folder::new(dir.to_owned());
    let names = folder.list(|_| ()).map_err(|error| SourceError::Folder {
        path: dir.to_owned(),
        error,
    })?;
    let fetched = folder.fetch(&names, kinds);
    let changes = fetched.into_iter().map(|it| folder.accept(it));
    Ok(loaded(changes.collect()))
}

fn loaded(changes: Vec<(Arc<str>, Change)>) -> Loaded {
    let mut catalog = Catalog::default();
    catalog.apply(changes);
    Loaded {
        objects: catalog.objects(),
        problems: catalog.problems(),
    }
}
