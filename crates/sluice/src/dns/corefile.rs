//! The Corefile on this machine.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use sluice_corefile::{Corefile, Sources};

use sluice_config::Invalid;

/// The files and the environment of this process.
struct Machine;

impl Sources for Machine {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
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
    check(flag, path, fs::read(path), port)
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
