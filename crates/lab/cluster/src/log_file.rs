//! Logs on disk: programs write them, and only their end is kept.
//!
//! A log that grows too long gives its beginning back to the disk: it becomes a hole. The program goes on writing,
//! readers stay where they are, and nothing is copied.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek};

/// Most bytes of one read.
const PIECE: u64 = 64 * 1024;

/// Holes begin and end at blocks of the file system.
const BLOCK: u64 = 4096;

/// When the log uses more than `most` bytes of disk, frees all but the last half of `most`.
pub(crate) fn shorten(path: &Path, most: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let metadata = file.metadata()?;
    // `st_blocks` counts 512 bytes (stat(2)); a hole has no blocks.
    if metadata.blocks() * 512 <= most {
        return Ok(());
    }
    let end = metadata.len().saturating_sub(most / 2);
    let end = i64::try_from(end - end % BLOCK).map_err(io::Error::other)?;
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(&file, hole, 0, end) {
        // The file system supports no holes. Programs append, so the log can be truncated.
        Err(Errno::EOPNOTSUPP) => file.set_len(0),
        other => Ok(other?),
    }
}

/// The last `count` lines of a log, or all when it has fewer.
pub(crate) fn last_lines(path: &Path, count: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut at = tail(&file, end, count)?;
    while let Some(piece) = read(&file, &mut at, Some(end))? {
        bytes.extend(piece);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The offset of the last `count` lines before `end`.
pub(crate) fn tail(file: &File, end: u64, count: u64) -> io::Result<u64> {
    let start = kept(file, 0)?;
    let (mut at, mut left) = (end, count);
    while at > start && left > 0 {
        let from = at.saturating_sub(PIECE).max(start);
        let mut piece = vec![0; usize::try_from(at - from).unwrap_or_default()];
        file.read_exact_at(&mut piece, from)?;
        let bytes = piece.iter().enumerate().rev();
        for (position, _) in bytes.filter(|(_, it)| **it == b'\n') {
            let line = from + position as u64 + 1;
            // The newline at the end starts no line.
            if line < end {
                left -= 1;
                if left == 0 {
                    return Ok(line);
                }
            }
        }
        at = from;
    }
    Ok(if left == 0 { end } else { start })
}

/// Reads from `at` and advances it, at most up to `end`. `None` at the end.
pub(crate) fn read(file: &File, at: &mut u64, end: Option<u64>) -> io::Result<Option<Vec<u8>>> {
    *at = kept(file, *at)?;
    let room = end.map_or(PIECE, |it| it.saturating_sub(*at).min(PIECE));
    let mut piece = vec![0; usize::try_from(room).unwrap_or_default()];
    let length = file.read_at(&mut piece, *at)?;
    piece.truncate(length);
    *at += length as u64;
    Ok((length > 0).then_some(piece))
}

/// `at`, or the first line after the hole that contains it.
fn kept(file: &File, at: u64) -> io::Result<u64> {
    let wanted = i64::try_from(at).map_err(io::Error::other)?;
    let found = match lseek(file.as_fd(), wanted, Whence::SeekData) {
        // The end of the file, or a file system without holes.
        Err(Errno::ENXIO | Errno::EINVAL) => return Ok(at),
        found => found?.cast_unsigned(),
    };
    if found == at {
        return Ok(at);
    }
    let (mut from, mut piece) = (found, vec![0; usize::try_from(PIECE).unwrap_or_default()]);
    loop {
        let length = file.read_at(&mut piece, from)?;
        match piece[..length].iter().position(|it| *it == b'\n') {
            Some(position) => return Ok(from + position as u64 + 1),
            // One line is longer than what is kept.
            None if length == 0 => return Ok(found),
            None => from += length as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let of = |text: &str, count| {
            fs::write(&path, text).unwrap();
            last_lines(&path, count).unwrap()
        };
        assert_eq!(of("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(of("a\nb\nc\n", 3), "a\nb\nc\n");
        assert_eq!(of("a\nb\nc", 2), "b\nc");
        assert_eq!(of("a\n", 9), "a\n");
        assert_eq!(of("a\nb\n", 0), "");
        assert_eq!(of("", 1), "");
        let long = format!("first\n{}\nlast\n", "x".repeat(200_000));
        assert_eq!(of(&long, 1), "last\n");
        assert_eq!(of(&long, 3), long);
    }

    #[test]
    fn a_long_log_keeps_its_end_and_its_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut writer = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        let reader = File::open(&path).unwrap();
        let mut write = |numbers: std::ops::Range<u32>| {
            let lines: String = numbers.map(|it| format!("line {it:>10}\n")).collect();
            writer.write_all(lines.as_bytes()).unwrap();
        };
        let most = 256 * 1024;
        write(0..10_000);
        shorten(&path, most).unwrap();
        let (mut slow, mut fast) = (0, 0);
        while read(&reader, &mut fast, None).unwrap().is_some() {}
        assert_eq!(fast, 160_000, "short enough");
        write(10_000..30_000);
        shorten(&path, most).unwrap();
        let size = fs::metadata(&path).unwrap().blocks() * 512;
        assert!(size <= most, "{size}");
        let next = read(&reader, &mut fast, None).unwrap().unwrap();
        let first = read(&reader, &mut slow, None).unwrap().unwrap();
        let lines = last_lines(&path, 1_000_000).unwrap();
        let kept = lines.lines().count();
        // Half of the size, in lines of 16 bytes, with an error of one block.
        assert!((8_192..8_192 + 257).contains(&kept), "{kept}");
        assert_eq!(
            lines.lines().next_back(),
            Some(format!("line {:>10}", 29_999).as_str())
        );
        for it in [next, first] {
            assert!(
                lines.starts_with(&*String::from_utf8(it).unwrap()),
                "whole lines, from the first that is kept"
            );
        }
    }
}
