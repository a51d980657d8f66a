//! The error of flags and files: several problems at once.

use std::fmt;

/// Everything that is wrong with the flags and the configuration file.
#[derive(Debug)]
pub struct Invalid {
    /// One line each.
    pub problems: Vec<String>,
    /// 2 for wrong usage, 1 when only the file is wrong.
    pub exit_code: u8,
}

impl Invalid {
    /// Fails with exit code 1 if there is any problem.
    ///
    /// # Errors
    ///
    /// All of them.
    pub fn check(problems: Vec<String>) -> Result<(), Self> {
        let exit_code = 1;
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self {
                problems,
                exit_code,
            })
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Invalid {}
