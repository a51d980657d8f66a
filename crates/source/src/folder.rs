//! The files of a folder and its subfolders: their names, which have changed, their content.
//!
//! The name of a file is its path below the folder: `web.yaml`, `team-a/web.yaml`. A subfolder that
//! cannot be read stands among the files, with its problem.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::catalog::Change;
use crate::convert::Interner;
use crate::hub::Topics;
use crate::manifest::{self, MAX_BYTES};
use crate::regular::read;

/// Folders on the path of a manifest, below the folder itself.
const MAX_DEPTH: usize = 16;

/// Folders that are read and watched. A link may lead to all of a machine.
const MAX_FOLDERS: usize = 4_096;

/// Whether a file of this name is a manifest: `.yaml`, `.yml` or `.json` in any case, not hidden.
/// The backups of editors (`web.yaml~`, `#web.yaml#`, `.web.yaml.swp`, `web.yaml.bak`) are none.
pub(crate) fn is_manifest(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |it| it.1);
    let extensions = ["yaml", "yml", "json"];
    !is_hidden(name)
        && extensions
            .iter()
            .any(|it| extension.eq_ignore_ascii_case(it))
}

/// Whether a folder of this name is read: it is not hidden, and no backup. A backup would have the
/// same objects as the folder beside it.
pub(crate) fn is_subfolder(name: &str) -> bool {
    let backups = ["~", ".bak", ".orig", ".old"];
    !is_hidden(name) && !backups.iter().any(|it| name.ends_with(it))
}

/// The `..data` of a ConfigMap is hidden, too: links that are not hidden lead into it.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// Device and inode of what a path leads to.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}

/// Identifies one state of a file, symbolic links followed. The change time is part of it: it
/// changes with `chmod`, and when a writer sets the modification time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
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

/// The state of a name in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A file, as it was when it was read.
    Read(Stamp),
    /// A file that was read, and is read again even if it looks the same.
    Doubtful,
    /// An entry that cannot be read, and the reason.
    Unreadable(String),
}

/// A changed file, read but not yet accepted.
pub(crate) struct Fetched {
    pub(crate) name: Arc<str>,
    /// The state to remember; `None` when the entry does not exist.
    state: Option<State>,
    change: Change,
}

impl Fetched {
    /// Marks the file as unfinished: its writer has not closed it, so objects that it lacks may follow.
    pub(crate) fn set_unfinished(&mut self) {
        if let Change::Read(manifest) = &mut self.change {
            manifest.broken = true;
            self.state = Some(State::Doubtful);
        }
    }
}

/// Files for which another thread is started.
const SHARE: usize = 1_000;

/// Threads that read a large folder.
const MAX_THREADS: usize = 4;

/// A folder, with the state of each file that was read last.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    known: BTreeMap<Arc<str>, State>,
    /// The files of `known` that could not be read.
    unreadable: BTreeSet<Arc<str>>,
    /// Folders, and links to folders, of which the last listing left something out, and why.
    cut: BTreeMap<Arc<str>, String>,
    /// Shared texts; each reading thread has its own.
    names: Vec<Interner>,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            cut: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// The manifests that are there or were there. `enter` is called with each folder before its
    /// entries are listed: with `""`, then with `team-a/`.
    ///
    /// A link to a folder is followed, within the file system that it leads to; but no folder is read twice: its own name counts
    /// before that of a link.
    pub(crate) fn list(&mut self, mut enter: impl FnMut(&str)) -> io::Result<Vec<Arc<str>>> {
        let mut names: BTreeSet<Arc<str>> = self.known.keys().cloned().collect();
        let mut entered = HashSet::new();
        self.cut.clear();
        let mut cut = |name: &str, why: String| {
            self.cut.insert(name.trim_end_matches('/').into(), why);
        };
        // With the link that leads there, and its device. Links come last.
        let mut folders = BTreeSet::from([(None::<(String, u64)>, String::new())]);
        while let Some((link, folder)) = folders.pop_first() {
            let path = self.path.join(&folder);
            let found = identity(&path);
            if let (Some((link, device)), Ok(found)) = (&link, &found)
                && found.0 != *device
            {
                let why = "leads to more than one file system: the others are not read";
                cut(link, why.to_owned());
                continue;
            }
            if found.is_ok_and(|it| !entered.insert(it)) {
                continue;
            }
            if entered.len() > MAX_FOLDERS {
                let name = link.map_or(folder, |it| it.0);
                cut(
                    &name,
                    format!("leads beyond {MAX_FOLDERS} folders: the others are not read"),
                );
                // Whatever is left is not entered, too.
                break;
            }
            enter(&folder);
            let entries = match entries(&path) {
                Ok(it) if folder.matches('/').count() <= MAX_DEPTH => it,
                Err(error) if folder.is_empty() => return Err(error),
                // `fetch` says why.
                Ok(_) | Err(_) => {
                    names.insert(folder.trim_end_matches('/').into());
                    continue;
                }
            };
            for entry in entries {
                match entry {
                    Listed::Folder { name, is_link } => {
                        let name = format!("{folder}{name}/");
                        let own = || Some((name.clone(), identity(&self.path.join(&name)).ok()?.0));
                        let link = link.clone().or_else(|| own().filter(|_| is_link));
                        folders.insert((link, name));
                    }
                    Listed::Manifest(name) => {
                        names.insert(format!("{folder}{name}").into());
                    }
                }
            }
        }
        names.extend(self.cut.keys().cloned());
        Ok(names.into_iter().collect())
    }

    /// Whether a file of this name was read before.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Reads the objects of these topics from the files that have changed, in the order of `files`. Remembers
    /// nothing: see [`Folder::accept`].
    pub(crate) fn fetch(&mut self, files: &[Arc<str>], wanted: &Topics) -> Vec<Fetched> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (files.len() / SHARE).clamp(1, cores.min(MAX_THREADS));
        self.names
            .resize_with(threads.max(self.names.len()), Interner::default);
        let mut names = std::mem::take(&mut self.names);
        let this = &*self;
        let share = |(files, names): (&[Arc<str>], &mut Interner)| -> Vec<Fetched> {
            let fetched = files
                .iter()
                .filter_map(|it| this.fetch_one(it, wanted, names));
            fetched.collect()
        };
        let mut shares = files
            .chunks(files.len().div_ceil(threads).max(1))
            .zip(&mut names);
        // The first share is this thread's own: usually the only one.
        let fetched = thread::scope(|scope| {
            let own = shares.next();
            let others: Vec<_> = shares
                .map(|it| {
                    let files = it.0;
                    let thread = thread::Builder::new().spawn_scoped(scope, move || share(it));
                    thread.map_err(|_| files)
                })
                .collect();
            let mut fetched = own.map(share).unwrap_or_default();
            for other in others {
                match other.map(thread::ScopedJoinHandle::join) {
                    Ok(Ok(more)) => fetched.extend(more),
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // The machine has no thread left.
                    Err(files) => fetched.extend(share((files, &mut Interner::default()))),
                }
            }
            fetched
        });
        self.names = names;
        fetched
    }

    fn fetch_one(&self, name: &Arc<str>, wanted: &Topics, names: &mut Interner) -> Option<Fetched> {
        let (path, known) = (self.path.join(&**name), self.known.get(name));
        let fetched = |state, change| {
            let name = name.clone();
            Some(Fetched {
                name,
                state,
                change,
            })
        };
        let gone = || known.and_then(|_| fetched(None, Change::Gone));
        let unreadable = |why: String| {
            let state = Some(State::Unreadable(why.clone()));
            let is_news = known != state.as_ref();
            is_news.then(|| fetched(state, Change::Unreadable(why)))?
        };
        let stamp = match fs::metadata(&path) {
            Ok(it) if it.is_dir() => match fs::read_dir(&path) {
                Ok(_) if self.cut.contains_key(name) => return unreadable(self.cut[name].clone()),
                Ok(_) if name.matches('/').count() < MAX_DEPTH => return gone(),
                Ok(_) => return unreadable(format!("is below {MAX_DEPTH} folders: not read")),
                Err(error) => return unreadable(format!("cannot be read: {error}")),
            },
            Ok(it) if !it.is_file() => return unreadable("is no regular file".to_owned()),
            Ok(it) if it.len() > MAX_BYTES => {
                return unreadable(format!("is larger than {} MiB", MAX_BYTES >> 20));
            }
            Ok(it) => Stamp::of(&it),
            Err(_) if is_absent(&path) => return gone(),
            Err(error) => return unreadable(format!("cannot be read: {error}")),
        };
        if known == Some(&State::Read(stamp)) {
            return None;
        }
        match read(&path, MAX_BYTES) {
            Ok((before, bytes)) => {
                let stamp = Stamp::of(&before);
                let manifest = manifest::read(name, &bytes, wanted, names);
                fetched(Some(State::Read(stamp)), Change::Read(manifest))
            }
            Err(error) => unreadable(format!("cannot be read: {error}")),
        }
    }

    /// An event says that a file has changed: it is read again even if it looks the same. Linux before
    /// 6.13 counts file times in clock ticks of up to 10 ms: two versions of the same size in one tick
    /// look alike.
    pub(crate) fn doubt(&mut self, name: &str) {
        if let Some(state @ State::Read(_)) = self.known.get_mut(name) {
            *state = State::Doubtful;
        }
    }

    /// Other kinds are wanted: every file is read again.
    pub(crate) fn doubt_all(&mut self) {
        let names: Vec<_> = self.known.keys().cloned().collect();
        names.iter().for_each(|it| self.doubt(it));
    }

    /// The files that could not be read. Whether that would work now, no event says: a limit of the
    /// process, a folder above, a disk.
    pub(crate) fn unreadable(&self) -> &BTreeSet<Arc<str>> {
        &self.unreadable
    }

    /// Remembers that a file was read: it is not read again until it changes.
    pub(crate) fn accept(&mut self, fetched: Fetched) -> (Arc<str>, Change) {
        let Fetched {
            name,
            state,
            change,
        } = fetched;
        match state {
            Some(State::Unreadable(_)) => self.unreadable.insert(name.clone()),
            _ => self.unreadable.remove(&name),
        };
        match state {
            Some(state) => self.known.insert(name.clone(), state),
            None => self.known.remove(&name),
        };
        (name, change)
    }
}

/// An entry that a folder is read for.
enum Listed {
    Manifest(String),
    Folder { name: String, is_link: bool },
}

fn entries(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            let name = entry.path();
            tracing::warn!(?name, "skipped a file whose name is not UTF-8");
            continue;
        };
        // An entry that has gone meanwhile is no folder.
        let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
        let is_folder = if is_link {
            entry.path().is_dir()
        } else {
            entry.file_type().is_ok_and(|it| it.is_dir())
        };
        if is_folder && is_subfolder(&name) {
            listed.push(Listed::Folder { name, is_link });
        } else if !is_folder && is_manifest(&name) {
            listed.push(Listed::Manifest(name));
        }
    }
    Ok(listed)
}

/// Whether the name does not exist; a link that leads nowhere is a name.
pub(crate) fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|it| it.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Wants;

    /// A link to a whole machine costs a bounded number of watches, and is named; what stands beside it is read.
    #[test]
    fn a_link_to_everything_is_bounded() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("own")).expect("a new name");
        fs::write(dir.path().join("own/web.yaml"), "").expect("writable");
        std::os::unix::fs::symlink("/", dir.path().join("all")).expect("a new name");
        let mut folder = Folder::new(dir.path().to_owned());
        let mut entered = Vec::new();
        let names = folder.list(|it| entered.push(it.to_owned()));
        let names = names.expect("it is listed");
        assert!(entered.len() <= MAX_FOLDERS, "{}", entered.len());
        assert!(!entered.iter().any(|it| it.starts_with("all/proc/")));
        assert_eq!(&entered[..2], ["", "own/"]);
        assert!(names.contains(&"own/web.yaml".into()));
        let fetched = folder.fetch(&["all".into()], &Wants::new(|_| ()).topics());
        let changes = fetched.into_iter().map(|it| it.change);
        let why: Vec<_> = changes
            .filter_map(|it| match it {
                Change::Unreadable(why) => Some(why),
                _ => None,
            })
            .collect();
        assert!(why.len() == 1 && why[0].starts_with("leads "), "{why:?}");
        // Without the link nothing is said of it any more.
        fs::remove_file(dir.path().join("all")).expect("it is there");
        let names = folder.list(|_| ()).expect("it is listed");
        assert_eq!(names, ["own/web.yaml".into()]);
    }
}
