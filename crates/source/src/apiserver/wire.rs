//! Bytes → lines of a watch, items of a list. Nothing larger than one object is held.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest object, and the longest line around one. etcd takes 1.5 MiB by default.
pub(super) const MAX_OBJECT: usize = 16 << 20;

/// The longest list without its items.
const MAX_ENVELOPE: usize = 1 << 20;

/// Space that is kept for the next line or item.
const KEPT: usize = 1 << 20;

/// What is wrong with the bytes.
pub(super) type Garbage = String;

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Calls `each` with every line that `piece` completes, empty ones left out.
    pub(super) fn push<E>(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<Garbage>,
    {
        while let Some(end) = memchr(b'\n', piece) {
            let (head, tail) = (&piece[..end], &piece[end + 1..]);
            piece = tail;
            let line = if self.rest.is_empty() {
                head
            } else {
                self.rest.extend_from_slice(head);
                &self.rest
            };
            check_size(line.len())?;
            if !line.trim_ascii().is_empty() {
                each(line)?;
            }
            recycle(&mut self.rest);
        }
        self.rest.extend_from_slice(piece);
        Ok(check_size(self.rest.len())?)
    }

    /// Nothing was cut off.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.trim_ascii().is_empty()
    }
}

fn check_size(size: usize) -> Result<(), Garbage> {
    match size > MAX_OBJECT {
        true => Err(format!("an object of more than {} MiB", MAX_OBJECT >> 20)),
        false => Ok(()),
    }
}

/// Empties a buffer, and gives back what only a giant needed.
fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT);
}

/// One event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// `type`: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// The object of a BOOKMARK event.
#[derive(Debug, Deserialize)]
pub(super) struct Bookmark {
    pub(super) metadata: BookmarkMeta,
}

/// `metadata` of a bookmark.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BookmarkMeta {
    pub(super) resource_version: String,
    #[serde(default)]
    annotations: Option<BookmarkAnnotations>,
}

#[derive(Debug, Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<String>,
}

impl BookmarkMeta {
    /// The list that was asked for as a watch is complete (KEP-3157).
    pub(super) fn ends_list(&self) -> bool {
        let annotations = self.annotations.as_ref();
        annotations.is_some_and(|it| it.initial_events_end.as_deref() == Some("true"))
    }
}

/// A page of a list without its items.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope {
    pub(super) kind: String,
    pub(super) metadata: ListMeta,
    /// A 0 for each.
    #[serde(default, rename = "items")]
    _items: Option<Vec<u8>>,
}

/// `metadata` of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) token: Option<String>,
}

/// Cuts a list into its items while it arrives.
///
/// What is around the items is kept with a 0 in place of each, so that the parser of the rest
/// judges commas and brackets too.
#[derive(Debug, Default)]
pub(super) struct Items {
    envelope: Vec<u8>,
    item: Vec<u8>,
    place: Place,
    /// Brackets that are open: of the item inside one, else of the list.
    depth: usize,
    /// Inside a string, and whether the next byte is escaped.
    string: Option<bool>,
    /// Where the last string at depth 1 begins in the envelope.
    key: usize,
    /// The last thing of the envelope is the key `items` and its colon.
    at_items: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Envelope,
    Between,
    Item,
}

impl Items {
    /// Calls `each` with every item that `piece` completes.
    pub(super) fn push<E>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<Garbage>,
    {
        // Where the item begins in this piece.
        let mut start = 0;
        for (at, byte) in piece.iter().copied().enumerate() {
            match self.place {
                Place::Envelope => self.envelope(byte)?,
                Place::Between => {
                    if byte == b'{' {
                        (self.place, self.depth, start) = (Place::Item, 1, at);
                        continue;
                    }
                    if byte == b']' {
                        (self.place, self.depth) = (Place::Envelope, 1);
                    } else if byte != b',' && !byte.is_ascii_whitespace() {
                        return Err("an item of the list is no object".to_owned().into());
                    }
                    self.envelope.push(byte);
                }
                Place::Item => {
                    if self.in_string(byte) {
                        continue;
                    }
                    match byte {
                        b'"' => self.string = Some(false),
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' => self.depth -= 1,
                        _ => {}
                    }
                    if self.depth == 0 {
                        self.item.extend_from_slice(&piece[start..=at]);
                        check_size(self.item.len())?;
                        each(&self.item)?;
                        recycle(&mut self.item);
                        self.envelope.push(b'0');
                        self.place = Place::Between;
                    }
                }
            }
        }
        if self.place == Place::Item {
            self.item.extend_from_slice(&piece[start..]);
        }
        Ok(check_size(self.item.len())?)
    }

    fn envelope(&mut self, byte: u8) -> Result<(), Garbage> {
        self.envelope.push(byte);
        if self.envelope.len() > MAX_ENVELOPE {
            return Err("no list, though one was asked for".to_owned());
        }
        if self.in_string(byte) || byte.is_ascii_whitespace() {
            return Ok(());
        }
        let starts_items = byte == b'[' && self.at_items;
        if byte == b'"' {
            self.string = Some(false);
            if self.depth == 1 {
                self.key = self.envelope.len() - 1;
            }
        }
        let key = self.envelope[self.key..].strip_suffix(b":");
        self.at_items = byte == b':'
            && self.depth == 1
            && key.is_some_and(|it| it.trim_ascii() == b"\"items\"");
        match byte {
            b'[' if starts_items => self.place = Place::Between,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    /// Whether the byte belongs to a string that began before it.
    fn in_string(&mut self, byte: u8) -> bool {
        let Some(is_escaped) = self.string else {
            return false;
        };
        self.string = match byte {
            b'"' if !is_escaped => None,
            b'\\' => Some(!is_escaped),
            _ => Some(false),
        };
        true
    }

    /// The list without its items, once everything is there.
    pub(super) fn finish(self) -> Result<Envelope, Garbage> {
        if self.place != Place::Envelope {
            return Err("a list that is cut off".to_owned());
        }
        serde_json::from_slice(&self.envelope).map_err(|it| format!("no list of objects: {it}"))
    }
}

#[cfg(test)]
mod tests;
