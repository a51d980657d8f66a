//! Foreign text in messages: field paths, quotes, escapes.

/// Adds a field to a path: `.name`, or `[a/b]` for a name with a slash such as a label.
pub fn push_field(path: &mut String, name: &str) {
    if name.contains('/') {
        *path += &format!("[{name}]");
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Adds a position in a list to a path.
pub fn push_index(path: &mut String, index: usize) {
    *path += &format!("[{index}]");
}

/// A foreign text in quotes, escaped and cut to a readable length.
pub fn quoted(text: &str) -> String {
    const MAX: usize = 64;
    if text.chars().nth(MAX).is_none() {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX).collect();
    format!("{head:?}...")
}

/// The text with control characters escaped: a problem is one line whatever a file is called.
pub fn escaped(text: &str) -> String {
    let escape = |it: char| match it.is_control() {
        true => it.escape_default().collect::<String>(),
        false => it.to_string(),
    };
    text.chars().map(escape).collect()
}
