//! One file → its objects and its problems.

mod fields;
mod kind;
mod locate;
mod nearest;
mod object;
mod problem;
mod written;

use sluice_model::Reference;

use crate::convert::Interner;
use crate::hub::Topics;
use crate::object::Object;
use object::Reader;
use sluice_yaml::{self as yaml, Node, SyntaxError};

pub use fields::Fields;
pub use kind::Form;
pub(crate) use written::{name_ports, ports_without_number};

pub use problem::Problem;

/// Largest file that is read.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// Lists in lists that are followed.
pub(crate) const MAX_LISTS: usize = 4;

/// An object and its line.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Reference,
    pub(crate) object: Object,
    pub(crate) line: u32,
    pub(crate) origin: Origin,
}

/// The object in the manifest from which an object of the model was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The same object.
    Itself,
    /// An Endpoints object that a person wrote; the object of the model is an EndpointSlice.
    Endpoints,
    /// An Endpoints object that a controller of a cluster wrote from a selector: the cluster has
    /// EndpointSlices of the same content.
    ControllersEndpoints,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// The good objects in the order of the file, repeated ones too.
    pub(crate) entries: Vec<Entry>,
    /// Objects that are there but cannot be used; their problems are in `problems`.
    pub(crate) refused: Vec<(Reference, u32)>,
    /// A part of the file cannot be read, and may contain any object.
    pub(crate) broken: bool,
    /// Every problem, in the order of the file.
    pub(crate) problems: Vec<Problem>,
}

/// Whether a file of this name is JSON; every other file is YAML.
fn is_json(file: &str) -> bool {
    file.ends_with(".json")
}

/// Reads the objects of these topics from a file. Total: whatever is wrong with it becomes a problem.
pub(crate) fn read(file: &str, bytes: &[u8], wanted: &Topics, names: &mut Interner) -> Manifest {
    let mut reader = Reader::new(file, wanted, names);
    if is_json(file) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        chunk(&mut reader, bytes, 0, |text, _| yaml::parse_json(text));
    } else {
        for document in yaml::documents(bytes) {
            chunk(
                &mut reader,
                document.bytes,
                document.lines_before,
                yaml::parse_yaml,
            );
        }
    }
    let mut manifest = reader.manifest;
    manifest.problems.sort_by_key(|it| it.line);
    manifest
}

fn chunk<'a>(
    reader: &mut Reader<'_>,
    bytes: &'a [u8],
    lines_before: u32,
    parse: impl Fn(&'a str, u32) -> yaml::Parsed<'a>,
) {
    let text = match yaml::readable(bytes) {
        Ok(text) => text,
        Err(SyntaxError { place, message }) => {
            return reader.broken(lines_before.saturating_add(place.line), message);
        }
    };
    let parsed = parse(text, lines_before);
    for document in &parsed.documents {
        reader.document(document, parsed.repeated_keys);
    }
    if let Some(SyntaxError { place, message }) = parsed.error {
        reader.broken(place.line, message);
    }
}

fn line(node: &Node<'_>) -> u32 {
    node.place.line
}
