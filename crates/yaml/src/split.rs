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

/// Cuts a file at the lines that start a document. A chunk that holds only directives and
/// comments belongs to the document that follows.
pub fn documents(bytes: &[u8]) -> Vec<Chunk<'_>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let (mut offset, mut line, mut content) = (0, 0, false);
    for text in bytes.split_inclusive(|it| *it == b'\n') {
        if is_start(text) && content {
            let bytes = &bytes[start..offset];
            chunks.push(Chunk {
                bytes,
                lines_before: start_line,
            });
            (start, start_line, content) = (offset, line, false);
        }
        // A `---` line may carry content; an empty document is no harm.
        content |= !matches!(text.trim_ascii_start().first(), None | Some(b'#' | b'%'));
        offset += text.len();
        line += 1;
    }
    let bytes = &bytes[start..];
    chunks.push(Chunk {
        bytes,
        lines_before: start_line,
    });
    chunks
}

fn is_start(line: &[u8]) -> bool {
    line.strip_prefix(b"---")
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}
