//! The Corefile on this machine.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use sluice_corefile::{Corefile, Sources};
use sluice_source::read_regular;

use sluice_config::Invalid;

/// Most bytes of a Corefile, and of a file that it imports.
const LARGEST: u64 = 16 << 20;

/// The files and the environment of this process.
struct Machine;

/// Reads a Corefile, or a file that it imports.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, LARGEST)
}

impl Sources for Machine {
    fn read(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(read_file(path)?).map_err(io::Error::other)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|it| Ok(it?.file_name().into_string()));
        // A name that is not UTF-8 fits no pattern of a Corefile, which is UTF-8.
        names
            .filter_map(|it| it.map(Result::ok).transpose())
            .collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Reads the Corefile that a flag names and checks it.
///
/// # Errors
///
/// The file cannot be read. [`Invalid`] with every problem of it.
pub(crate) fn read(flag: &str, path: &Path, port: u16) -> anyhow::Result<Corefile> {
    check(flag, path, read_file(path), port)
}

/// As [`read`], with the content of the file already read.
///
/// # Errors
///
/// See [`read`].
pub(crate) fn check(
    flag: &str,
    path: &Path,
    content: io::Result<Vec<u8>>,
    port: u16,
) -> anyhow::Result<Corefile> {
    let name = path.display().to_string();
    let text = content
        .and_then(|it| String::from_utf8(it).map_err(io::Error::other))
        .with_context(|| format!("{flag}: give a Corefile that this user may read: {name}"))?;
    parse(&name, &text, port)
}

/// Checks the text of a Corefile, whose problems have this name.
///
/// # Errors
///
/// [`Invalid`] with every problem.
pub(crate) fn parse(name: &str, text: &str, port: u16) -> anyhow::Result<Corefile> {
    sluice_corefile::read(name, text, port, &Machine).map_err(|problems| {
        anyhow::Error::new(Invalid {
            problems: problems.iter().map(ToString::to_string).collect(),
            exit_code: 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// Nobody waits for a writer, and nothing takes all memory.
    #[test]
    fn what_has_no_end_is_not_read() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let fifo = folder.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).expect("a new name");
        let large = folder.path().join("large");
        let file = fs::File::create(&large).expect("a new name");
        file.set_len(LARGEST + 1).expect("it has holes");
        for (path, why) in [
            (&*fifo, "a pipe or a device"),
            (Path::new("/dev/zero"), "a pipe or a device"),
            (&*large, "more than 16 MiB"),
        ] {
            let error = read_file(path).expect_err("refused").to_string();
            assert!(error.contains(why), "{}: {error}", path.display());
            let text = format!(". {{\n import {}\n}}\n", path.display());
            let error = parse("Corefile", &text, 53).expect_err("refused");
            let error = format!("{error:#}");
            assert!(error.contains(why), "{error}");
        }
        assert!(read("--dns-corefile", &fifo, 53).is_err());
    }
}
