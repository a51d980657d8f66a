//! Files of a volume that change all at once, as kubelet writes them (`pkg/volume/util/atomic_writer.go`).
//!
//! ```text
//! key ─▶ ..data/key        ..data ─▶ ..2026_01_01_12_00_00.123456789        a new folder, then one rename
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use jiff::Timestamp;

/// The symbolic link to the present files.
pub(super) const DATA: &str = "..data";

/// The files by their path below the volume.
pub(super) type Files = BTreeMap<String, File>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    /// Permissions: `0o644`.
    pub(super) mode: u32,
}

/// Writes the files below `folder`, unless they are there. The paths must be relative and without `..`.
pub(super) fn write(folder: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let data = folder.join(DATA);
    let old = fs::read_link(&data).ok();
    if old.is_some() && read(&data, files)? {
        return Ok(());
    }
    let name = Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%9f");
    let name = name.to_string();
    let new = folder.join(&name);
    for (path, file) in files {
        let path = new.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&new))?;
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
    }
    fs::create_dir_all(&new)?;
    let link = folder.join("..data_tmp");
    // A server that was killed leaves it.
    let _ = fs::remove_file(&link);
    symlink(&name, &link)?;
    fs::rename(&link, &data)?;
    let first = files.keys().filter_map(|it| it.split('/').next());
    let visible: BTreeSet<&str> = first.collect();
    for it in &visible {
        let link = folder.join(it);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(it), link)?;
        }
    }
    for entry in fs::read_dir(folder)?.flatten() {
        let entry_name = entry.file_name();
        let text = entry_name.to_string_lossy();
        if text.starts_with("..") {
            if text != DATA && text != *name {
                fs::remove_dir_all(entry.path())?;
            }
        } else if !visible.contains(&*text) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether exactly these files are there.
fn read(data: &Path, files: &Files) -> io::Result<bool> {
    let is_there = files.iter().all(|(path, file)| {
        let path = data.join(path);
        let mode = fs::metadata(&path).map(|it| it.permissions().mode() & 0o7777);
        mode.is_ok_and(|it| it == file.mode) && fs::read(&path).is_ok_and(|it| it == file.bytes)
    });
    Ok(is_there && count(data)? == files.len())
}

fn count(folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        count += if is_folder {
            self::count(&entry.path())?
        } else {
            1
        };
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        let file = |text: &str| File {
            bytes: text.as_bytes().to_vec(),
            mode: 0o640,
        };
        let all = all.iter();
        all.map(|(path, text)| ((*path).to_owned(), file(text)))
            .collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let names = entries.map(|it| it.file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|it| !it.starts_with("..2")).collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_change_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("volume");
        write(&folder, &files(&[("a", "1"), ("b/c", "2")])).unwrap();
        assert_eq!(names(&folder), ["..data", "a", "b"]);
        assert_eq!(
            fs::read_link(folder.join("a")).unwrap(),
            Path::new("..data/a")
        );
        assert_eq!(fs::read_to_string(folder.join("b/c")).unwrap(), "2");
        let mode = fs::metadata(folder.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        let first = fs::read_link(folder.join(DATA)).unwrap();
        write(&folder, &files(&[("a", "1"), ("b/c", "2")])).unwrap();
        assert_eq!(fs::read_link(folder.join(DATA)).unwrap(), first);
        // Changed, gone and new.
        write(&folder, &files(&[("a", "3"), ("d", "4")])).unwrap();
        assert_eq!(names(&folder), ["..data", "a", "d"]);
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "3");
        assert!(!folder.join(first).exists());
        write(&folder, &Files::new()).unwrap();
        assert_eq!(names(&folder), ["..data"]);
    }
}
