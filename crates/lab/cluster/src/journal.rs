//! The store on disk: one line for each change, so that the objects survive a kill of the server.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_api::Change;

/// Size in bytes above which the file is rewritten with the existing objects only.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Kind, namespace and name.
type Key = (String, String, String);

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Whether the file may end with a part of a line, because a write failed.
    is_torn: bool,
    /// Size in bytes above which the file is rewritten.
    limit: u64,
    /// The objects that exist.
    objects: BTreeMap<Key, Arc<Value>>,
}

/// The content of a journal.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) objects: Vec<Value>,
    /// The version of the last change.
    pub(crate) revision: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    /// Of the API version and the kind, because Events have two.
    key: Key,
    /// `None` for a deletion.
    object: Option<Arc<Value>>,
}

impl Journal {
    /// Opens or creates the journal at `path`, and reads it. A last line without a line end is dropped: its write was
    /// never answered.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Read)> {
        let at = || path.display().to_string();
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text.with_context(at)?,
        };
        let (mut objects, mut revision) = (BTreeMap::new(), 0);
        let mut whole = 0;
        for line in text.split_inclusive(|it| *it == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            whole += line.len() as u64;
            let line: Line = serde_json::from_slice(line).with_context(at)?;
            revision = line.revision;
            match line.object {
                Some(object) => objects.insert(line.key, object),
                None => objects.remove(&line.key),
            };
        }
        let read = Read {
            objects: objects.values().map(|it| (**it).clone()).collect(),
            revision,
        };
        let (file, bytes) = rewrite(path, &objects, revision)
            .or_else(|_| append(path, whole))
            .with_context(at)?;
        let journal = Self {
            path: path.to_owned(),
            file,
            bytes,
            is_torn: false,
            limit: LARGEST,
            objects,
        };
        Ok((journal, read))
    }
}

impl sluice_api::Journal for Journal {
    fn write(&mut self, change: &Change) -> io::Result<()> {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else {
            return Ok(());
        };
        let line = Line {
            revision: change.revision,
            key: key(object),
            object: change.new.clone(),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        if self.is_torn {
            self.file.set_len(self.bytes)?;
        }
        // Half a line is removed, so that the next line does not follow it.
        self.is_torn = true;
        if let Err(error) = self.file.write_all(&text) {
            self.is_torn = self.file.set_len(self.bytes).is_err();
            return Err(error);
        }
        self.is_torn = false;
        self.bytes += text.len() as u64;
        match line.object {
            Some(object) => self.objects.insert(line.key, object),
            None => self.objects.remove(&line.key),
        };
        if self.bytes > self.limit {
            match rewrite(&self.path, &self.objects, change.revision) {
                Ok(new) => (self.file, self.bytes) = new,
                // The change is on disk: it stays written.
                Err(error) => {
                    tracing::warn!(%error, "the journal cannot be made shorter");
                    self.limit = self.bytes * 2;
                }
            }
        }
        Ok(())
    }
}

/// Opens the file for appending, cut to its first `whole` bytes: a write may have failed on a full disk.
fn append(path: &Path, whole: u64) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    file.set_len(whole)?;
    Ok((file, whole))
}

fn key(object: &Value) -> Key {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let kind = format!("{}/{}", text(&object["apiVersion"]), text(&object["kind"]));
    let metadata = &object["metadata"];
    (kind, text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Replaces the file atomically by one with these objects only.
fn rewrite(
    path: &Path,
    objects: &BTreeMap<Key, Arc<Value>>,
    revision: u64,
) -> io::Result<(File, u64)> {
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|it| {
        let mut file = BufWriter::new(it);
        for (key, object) in objects {
            let line = Line {
                revision,
                key: key.clone(),
                object: Some(object.clone()),
            };
            serde_json::to_writer(&mut file, &line)?;
            file.write_all(b"\n")?;
        }
        file.into_inner()?.sync_data()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        // A part of it would take the last room of a full disk.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    let file = OpenOptions::new().append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_api::Journal as _;

    use super::*;

    fn change(revision: u64, name: &str, exists: bool) -> Change {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
        let object = Some(Arc::new(object));
        Change {
            revision,
            old: object.clone().filter(|_| !exists),
            new: object.filter(|_| exists),
        }
    }

    fn names(read: &Read) -> Vec<&str> {
        let names = read.objects.iter();
        names
            .map(|it| it["metadata"]["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, read) = Journal::open(&path).unwrap();
        assert_eq!((names(&read).len(), read.revision), (0, 0));
        for (revision, name, exists) in [(2, "a", true), (3, "b", true), (4, "a", false)] {
            journal.write(&change(revision, name, exists)).unwrap();
        }
        drop(journal);
        // As a kill during a write leaves it.
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"revision\":5,\"key\":[");
        fs::write(&path, text).unwrap();
        let (_, read) = Journal::open(&path).unwrap();
        assert_eq!((names(&read), read.revision), (vec!["b"], 4));
    }

    /// A kill may come between any two bytes: what was written whole is there, and nothing half.
    #[test]
    fn a_kill_loses_no_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        for (revision, name) in [(2, "a"), (3, "b"), (4, "c")] {
            journal.write(&change(revision, name, true)).unwrap();
        }
        let text = fs::read(&path).unwrap();
        for killed in 0..=text.len() {
            fs::write(&path, &text[..killed]).unwrap();
            let lines = text[..killed].iter().filter(|it| **it == b'\n').count();
            let (_, read) = Journal::open(&path).unwrap();
            assert_eq!(names(&read), ["a", "b", "c"][..lines], "{killed}");
        }
    }

    #[test]
    fn what_is_left_of_a_line_goes_before_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.write(&change(2, "a", true)).unwrap();
        // As when the disk took a part of a line, and did not let it be removed.
        journal.file.write_all(b"{\"revision\":3,").unwrap();
        journal.is_torn = true;
        journal.write(&change(3, "b", true)).unwrap();
        let (_, read) = Journal::open(&path).unwrap();
        assert_eq!(names(&read), ["a", "b"]);
    }

    #[test]
    fn a_full_disk_refuses_the_change() {
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(&folder.path().join("journal")).unwrap();
        let good = std::mem::replace(&mut journal.file, full);
        assert!(journal.write(&change(2, "a", true)).is_err());
        journal.file = good;
        journal.write(&change(2, "b", true)).unwrap();
        let (_, read) = Journal::open(&folder.path().join("journal")).unwrap();
        assert_eq!(names(&read), ["b"]);
    }
}
