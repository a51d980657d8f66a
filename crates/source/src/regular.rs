//! Reads files that may be replaced by anything meanwhile.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads a regular file of at most so many bytes. A pipe would wait for a writer, and a device has no end.
///
/// # Errors
/// It cannot be read, is no regular file, or is larger.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read(path, most).map(|(_, bytes)| bytes)
}

/// As [`read_regular`], with what was known of the file before it was read.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<(Metadata, Vec<u8>)> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let before = file.metadata()?;
    if before.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !before.is_file() {
        return Err(io::Error::other("it is a pipe or a device"));
    }
    let mut bytes = Vec::new();
    (&file).take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok((before, bytes))
}
