//! The folder and its subfolders as they are now.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::{Catalog, Change};
use crate::convert::Interner;
use crate::error::SourceError;
use crate::folder::Folder;
use crate::hub::{Topics, Wants};
use crate::manifest::{self, Problem};

/// The content of a folder of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<E> {
    /// The event of every good object, ordered by kind as wanted, and by name.
    pub events: Vec<E>,
    /// Every problem, ordered by file and line.
    pub problems: Vec<Problem>,
}

/// Reads the wanted objects from a manifest in memory; its file name decides between YAML and JSON.
pub fn parse<E>(file: &str, bytes: &[u8], wants: &Wants<E>) -> Loaded<E> {
    let topics = wants.topics();
    let manifest = manifest::read(file, bytes, &topics, &mut Interner::default());
    let changes = vec![(file.into(), Change::Read(manifest))];
    loaded(changes, wants, &topics)
}

/// Reads the wanted objects from a folder with its subfolders, once. Of a [`Selection`](crate::Selection) counts what
/// the model of the kind keeps.
///
/// # Errors
/// [`SourceError::Folder`] when the folder cannot be listed. Bad files and objects are
/// [`Loaded::problems`], not errors.
pub fn load<E>(dir: impl AsRef<Path>, wants: &Wants<E>) -> Result<Loaded<E>, SourceError> {
    let dir = dir.as_ref();
    let mut folder = Folder::new(dir.to_owned());
    let names = folder.list(|_| ()).map_err(|error| SourceError::Folder {
        path: dir.to_owned(),
        error,
    })?;
    let topics = wants.topics();
    let fetched = folder.fetch(&names, &topics);
    let changes = fetched.into_iter().map(|it| folder.accept(it));
    Ok(loaded(changes.collect(), wants, &topics))
}

fn loaded<E>(changes: Vec<(Arc<str>, Change)>, wants: &Wants<E>, topics: &Topics) -> Loaded<E> {
    let mut catalog = Catalog::default();
    catalog.read_kinds(topics);
    catalog.apply(changes);
    Loaded {
        events: wants.events_of(&catalog.objects()),
        problems: catalog.problems(),
    }
}
