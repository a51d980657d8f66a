//! The folder and its subfolders as they are now.

use std::path::Path;
use std::sync::Arc;

use sluice_model::{Event, Object};

use crate::catalog::{Catalog, Change};
use crate::convert::Interner;
use crate::error::SourceError;
use crate::folder::Folder;
use crate::hub::{Hub, Topics, Wants};
use crate::manifest::{self, Problem};
use crate::wanted_kinds::Kinds;
use crate::watch::Watch;

/// The content of a folder of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Every good object, ordered by kind and name.
    pub objects: Vec<Object>,
    /// Every problem, ordered by file and line.
    pub problems: Vec<Problem>,
}

/// Reads the objects of these kinds from a manifest in memory; its file name decides between YAML and JSON.
pub fn parse(file: &str, bytes: &[u8], kinds: &Kinds) -> Loaded {
    let wants = kinds.wants();
    let topics = wants.topics();
    let manifest = manifest::read(file, bytes, &topics, &mut Interner::default());
    let changes = vec![(file.into(), Change::Read(manifest))];
    loaded(changes, &wants, &topics)
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
    let wants = kinds.wants();
    let topics = wants.topics();
    let fetched = folder.fetch(&names, &topics);
    let changes = fetched.into_iter().map(|it| folder.accept(it));
    Ok(loaded(changes.collect(), &wants, &topics))
}

/// Watches the objects of these kinds in a folder, as [`Hub::watch`] does, for one consumer.
///
/// # Errors
/// As of [`Hub::watch`].
#[expect(
    clippy::needless_pass_by_value,
    reason = "the caller has no more use for it"
)]
pub fn watch(
    dir: impl AsRef<Path>,
    kinds: Kinds,
    sink: impl FnMut(Vec<Event>) + Send + 'static,
) -> Result<Watch, SourceError> {
    let hub = Hub::default();
    hub.subscribe(kinds.wants(), sink);
    hub.watch(dir)
}

fn loaded(changes: Vec<(Arc<str>, Change)>, wants: &Wants<Event>, topics: &Topics) -> Loaded {
    let mut catalog = Catalog::default();
    catalog.read_kinds(topics);
    catalog.apply(changes);
    let events = wants.events_of(&catalog.objects());
    let object = |it| match it {
        Event::Set(object) => Some(object),
        _ => None,
    };
    Loaded {
        objects: events.into_iter().filter_map(object).collect(),
        problems: catalog.problems(),
    }
}
