//! Shell scripts that take the place of programs in tests.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes an executable file with these lines of shell.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_program(path: &Path, shell: &str) -> io::Result<()> {
    fs::write(path, format!("#!/bin/sh\n{shell}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
