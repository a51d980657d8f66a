//! `import` patterns: `*` and `?`, at most one of each.

use std::io;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::Sources;

/// Why a pattern is refused: CoreDNS allows one `*` and one `?`, and no `[...]`.
pub(crate) fn too_many_wildcards(pattern: &str) -> bool {
    let count = |c: char| pattern.chars().filter(|it| *it == c).count();
    count('*') > 1 || count('?') > 1 || (pattern.contains('[') && pattern.contains(']'))
}

/// Whether this is a pattern, and not a path.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// The paths that match a pattern, sorted. A folder that cannot be listed matches nothing.
pub(crate) fn matches(pattern: &Path, sources: &dyn Sources) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(name) = component else {
            found.iter_mut().for_each(|it| it.push(component));
            continue;
        };
        let name = name.to_string_lossy();
        if !is_pattern(&name) {
            found.iter_mut().for_each(|it| it.push(component));
            continue;
        }
        let expression = expression(&name)?;
        let mut next = Vec::new();
        for folder in found {
            let listed = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &folder
            };
            match sources.list(listed) {
                Ok(names) => {
                    let fitting = names.iter().filter(|it| expression.is_match(it));
                    next.extend(fitting.map(|it| folder.join(it)));
                }
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

/// What names fit a pattern: `*` is any text, `?` any character.
fn expression(pattern: &str) -> io::Result<Regex> {
    let escaped = regex::escape(pattern);
    let inner = escaped.replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("^(?s:{inner})$")).map_err(io::Error::other)
}
