//! `import` patterns: `*` and `?`, at most one of each.

use std::io;
use std::path::{Component, Path, PathBuf};

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
        let mut next = Vec::new();
        for folder in found {
            let here = Path::new(".");
            let listed = if folder.as_os_str().is_empty() {
                here
            } else {
                &folder
            };
            match sources.list(listed) {
                Ok(names) => next.extend(
                    names
                        .iter()
                        .filter(|it| fits(&name, it))
                        .map(|it| folder.join(it)),
                ),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

/// Whether a name fits a pattern with at most one `*`.
fn fits(pattern: &str, name: &str) -> bool {
    let same = |pattern: &str, name: &str| {
        let mut name = name.chars();
        pattern
            .chars()
            .all(|it| name.next().is_some_and(|c| it == '?' || it == c))
            && name.next().is_none()
    };
    let Some((head, tail)) = pattern.split_once('*') else {
        return same(pattern, name);
    };
    let length = name.chars().count();
    let (front, back) = (head.chars().count(), tail.chars().count());
    length >= front + back && {
        let chars: Vec<char> = name.chars().collect();
        let text = |part: &[char]| part.iter().collect::<String>();
        same(head, &text(&chars[..front])) && same(tail, &text(&chars[length - back..]))
    }
}
