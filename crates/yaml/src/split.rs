//! A file → its documents, each with the line it starts at.
//!
//! Cutting at `---` lines before parsing, as Kubernetes' own reader does, keeps a syntax error
//! inside its document.

/// One document of a file.
pub struct Chunk<'a> {
    /// The bytes, with the `---` line they start with.
    pub bytes: &'a [u8],
    /// Lines of the file before it.
    pub lines_before: u32,
}

/// Cuts a file at the lines that start a document. Directives and comments before a document
/// belong to it.
pub fn documents(bytes: &[u8]) -> Vec<Chunk<'_>> {
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut chunks = Vec::new();
    let (mut length, mut lines, mut lines_before) = (0, 0, 0);
    let mut has_content = false;
    for line in rest.split_inclusive(|it| *it == b'\n') {
        if has_content && is_start(line) {
            let (bytes, after) = rest.split_at(length);
            chunks.push(Chunk {
                bytes,
                lines_before,
            });
            (rest, length, lines_before, has_content) = (after, 0, lines, false);
        }
        // A `---` line may carry content; an empty document is no harm.
        has_content |= !matches!(line.trim_ascii_start().first(), None | Some(b'#' | b'%'));
        length += line.len();
        lines += 1;
    }
    chunks.push(Chunk {
        bytes: rest,
        lines_before,
    });
    chunks
}

fn is_start(line: &[u8]) -> bool {
    line.strip_prefix(b"---")
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}
