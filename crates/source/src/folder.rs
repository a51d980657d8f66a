//! The files of a folder: which there are, which have changed, what is in them.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::Change;
use crate::convert::Interner;
use crate::manifest::{self, MAX_BYTES};

/// Whether a file of this name is a manifest: `.yaml`, `.yml`, `.json`, not hidden.
pub(crate) fn is_manifest(name: &str) -> bool {
    let suffixes = [".yaml", ".yml", ".json"];
    !name.starts_with('.') && suffixes.iter().any(|it| name.ends_with(it))
}

/// What tells one state of a file from another, symbolic links followed. The change time is
/// part of it: it sees `chmod`, and writers that set the modification time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What was found at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A file, as it was when it was read.
    Read(Stamp),
    /// Something that cannot be read, and why.
    Unreadable(String),
}

/// The content of a changed file, not yet interpreted.
pub(crate) struct Fetched {
    pub(crate) name: Arc<str>,
    content: Content,
}

enum Content {
    Bytes(Stamp, Vec<u8>),
    Unreadable(String),
    Gone,
}

/// A folder, and which state of each file has been read.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    known: BTreeMap<Arc<str>, State>,
    names: Interner,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: BTreeMap::new(),
            names: Interner::default(),
        }
    }

    /// The manifests that are there or were there.
    pub(crate) fn list(&self) -> io::Result<Vec<Arc<str>>> {
        let mut names: std::collections::BTreeSet<Arc<str>> = self.known.keys().cloned().collect();
        for entry in fs::read_dir(&self.path)? {
            match entry?.file_name().into_string() {
                Ok(name) if is_manifest(&name) => {
                    names.insert(name.into());
                }
                Ok(_) => {}
                Err(name) => tracing::warn!(?name, "skipped a file whose name is not UTF-8"),
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Reads a file if it is not as it was. `None`: nothing new.
    pub(crate) fn fetch(&self, name: &Arc<str>) -> Option<Fetched> {
        let content = self.content(name)?;
        let name = name.clone();
        Some(Fetched { name, content })
    }

    fn content(&self, name: &Arc<str>) -> Option<Content> {
        let (path, known) = (self.path.join(&**name), self.known.get(name));
        let is_news = |why: String| {
            let state = State::Unreadable(why.clone());
            (known != Some(&state)).then_some(Content::Unreadable(why))
        };
        let stamp = match fs::metadata(&path) {
            Ok(it) if it.is_dir() => return known.map(|_| Content::Gone),
            Ok(it) if !it.is_file() => return is_news("is no regular file".to_owned()),
            Ok(it) if it.len() > MAX_BYTES => {
                return is_news(format!("is larger than {} MiB", MAX_BYTES >> 20));
            }
            Ok(it) => Stamp::of(&it),
            Err(_) if is_absent(&path) => return known.map(|_| Content::Gone),
            Err(error) => return is_news(format!("cannot be read: {error}")),
        };
        if known == Some(&State::Read(stamp)) {
            return None;
        }
        match read(&path) {
            Ok((stamp, bytes)) => Some(Content::Bytes(stamp, bytes)),
            Err(error) => is_news(format!("cannot be read: {error}")),
        }
    }

    /// Interprets what was fetched, and remembers that it was.
    pub(crate) fn accept(&mut self, fetched: Fetched) -> (Arc<str>, Change) {
        let Fetched { name, content } = fetched;
        let change = match content {
            Content::Gone => {
                self.known.remove(&name);
                return (name, Change::Gone);
            }
            Content::Unreadable(why) => {
                let state = State::Unreadable(why.clone());
                self.known.insert(name.clone(), state);
                Change::Unreadable(why)
            }
            Content::Bytes(stamp, bytes) => {
                self.known.insert(name.clone(), State::Read(stamp));
                Change::Read(manifest::read(&name, &bytes, &mut self.names))
            }
        };
        (name, change)
    }
}

/// No name at all, as opposed to a link that leads nowhere.
fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|it| it.kind() == io::ErrorKind::NotFound)
}

/// Reads a file that may be replaced by anything meanwhile: never blocks on a pipe, never takes
/// more than the limit.
fn read(path: &Path) -> io::Result<(Stamp, Vec<u8>)> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut bytes = Vec::new();
    (&file).take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok((Stamp::of(&before), bytes))
}
