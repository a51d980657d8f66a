//! YAML events → tree, within [`MAX_DEPTH`] and [`MAX_NODES`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput, Tag};

use super::{Key, MAX_DEPTH, MAX_NODES, Meaning, Node, Position, Read, Scalar, SyntaxError, Value};

/// The documents of a text.
#[derive(Debug, Default)]
pub struct Parsed<'a> {
    /// The documents that are complete.
    pub documents: Vec<Node<'a>>,
    /// Some mapping has a key twice; [`Node::repeated_keys`] lists such keys.
    pub repeated_keys: bool,
    /// Why reading stopped before the end.
    pub error: Option<SyntaxError>,
}

/// Reads the documents of a text whose first line is line `lines_before + 1`.
pub fn parse_yaml(text: &str, lines_before: u32) -> Parsed<'_> {
    let mut builder = Builder {
        parser: Parser::new_from_str(text),
        lines_before,
        anchors: HashMap::new(),
        nodes: 0,
        repeated_keys: false,
    };
    let mut documents = Vec::new();
    let error = builder.documents(&mut documents).err();
    Parsed {
        documents,
        repeated_keys: builder.repeated_keys,
        error,
    }
}

/// A node that aliases may repeat.
struct Anchored<'a> {
    node: Rc<Node<'a>>,
    /// Nodes in it, aliases expanded.
    size: usize,
    /// Levels below it, aliases expanded.
    height: usize,
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    lines_before: u32,
    /// By the number that the parser gives to an anchor, from 1.
    anchors: HashMap<usize, Anchored<'a>>,
    /// Nodes of the document so far, aliases expanded.
    nodes: usize,
    repeated_keys: bool,
}

impl<'a> Builder<'a> {
    fn documents(&mut self, found: &mut Vec<Node<'a>>) -> Read<()> {
        while let Some((event, place)) = self.next()? {
            match event {
                Event::DocumentStart(_) => {
                    self.anchors.clear();
                    self.nodes = 0;
                }
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                content => found.push(self.node(content, place, 0)?.0),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Read<Option<(Event<'a>, Position)>> {
        let lines_before = self.lines_before;
        let short = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let place = |line, column| Position {
            line: lines_before.saturating_add(short(line)),
            column: short(column).saturating_add(1),
        };
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                let place = place(span.start.line(), span.start.col());
                Ok(Some((event, place)))
            }
            Some(Err(error)) => {
                let mark = error.marker();
                SyntaxError::at(place(mark.line(), mark.col()), error.info())
            }
        }
    }

    /// Reads the node that begins with `event`, inside `depth` collections. Returns it with the
    /// number of levels below it.
    fn node(&mut self, event: Event<'a>, place: Position, depth: usize) -> Read<(Node<'a>, usize)> {
        let nodes_before = self.nodes;
        let (value, anchor, height) = match event {
            Event::Alias(anchor) => {
                let Some(anchored) = self.anchors.get(&anchor) else {
                    return SyntaxError::at(place, "an alias inside its own anchor");
                };
                let (size, height) = (anchored.size, anchored.height);
                let value = Value::Shared(anchored.node.clone());
                self.count(size, depth + height, place)?;
                (value, 0, height)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, depth, place)?;
                let plain = is_plain(style == ScalarStyle::Plain, tag.as_deref(), place)?;
                (Value::Scalar(Scalar { text, plain }), anchor, 0)
            }
            Event::SequenceStart(_, Some(tag)) | Event::MappingStart(_, Some(tag))
                if !tag.is_yaml_core_schema() =>
            {
                return SyntaxError::at(place, UNKNOWN_TAG);
            }
            Event::SequenceStart(anchor, _) => {
                let (items, height) = self.items(place, depth)?;
                (Value::List(items), anchor, height)
            }
            Event::MappingStart(anchor, _) => {
                let (items, height) = self.items(place, depth)?;
                (self.map(items, depth, place)?, anchor, height)
            }
            _ => return SyntaxError::at(place, "expected a value"),
        };
        let mut node = Node { place, value };
        if anchor != 0 {
            let shared = Rc::new(node);
            let anchored = Anchored {
                node: shared.clone(),
                size: self.nodes - nodes_before,
                height,
            };
            self.anchors.insert(anchor, anchored);
            let value = Value::Shared(shared);
            node = Node { place, value };
        }
        Ok((node, height))
    }

    /// Reads up to the end of the collection that began at `place`: elements of a list, or keys
    /// and values of a mapping in turn. Returns them with the number of levels.
    fn items(&mut self, place: Position, depth: usize) -> Read<(Vec<Node<'a>>, usize)> {
        self.count(1, depth + 1, place)?;
        let (mut items, mut levels) = (Vec::new(), 0);
        while let Some((event, place)) = self.next()?
            && !matches!(event, Event::SequenceEnd | Event::MappingEnd)
        {
            let (item, height) = self.node(event, place, depth + 1)?;
            items.push(item);
            levels = levels.max(height + 1);
        }
        Ok((items, levels))
    }

    /// Adds to the number of nodes.
    fn count(&mut self, nodes: usize, depth: usize, place: Position) -> Read<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if depth > MAX_DEPTH {
            return SyntaxError::at(place, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values in one document");
            return SyntaxError::at(place, message);
        }
        Ok(())
    }

    /// Pairs keys and values, marks repeated keys, and merges what `<<` names.
    fn map(&mut self, items: Vec<Node<'a>>, depth: usize, place: Position) -> Read<Value<'a>> {
        let (mut entries, mut has_merges) = (Vec::with_capacity(items.len() / 2), false);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let is_merge = is_merge(&key);
            has_merges |= is_merge;
            entries.push((as_key(&key)?, value, is_merge));
        }
        let entries = if has_merges {
            self.merge(entries, depth, place)?
        } else {
            let pairs = entries.into_iter().map(|(key, value, _)| (key, value));
            let mut pairs = pairs.collect::<Vec<_>>();
            self.repeated_keys |= mark_repeated(&mut pairs);
            pairs
        };
        Ok(Value::Map(entries))
    }

    /// Merges as `kubectl` does: a `<<` acts at its place among the keys, and the last value of a
    /// key wins. So `{p: 1, <<: {p: 2}}` is 2, and `{<<: {p: 2}, p: 1}` is 1. Of a list of mappings
    /// the first one wins. (`mapping` and `merge` in `goyaml.v2/decode.go` of sigs.k8s.io/yaml.)
    fn merge(
        &mut self,
        written: Vec<(Key<'a>, Node<'a>, bool)>,
        depth: usize,
        place: Position,
    ) -> Read<Vec<(Key<'a>, Node<'a>)>> {
        let (mut entries, mut own_keys) = (LastWins::default(), HashSet::new());
        for (mut key, value, is_merge) in written {
            if !is_merge {
                key.repeated = !own_keys.insert(key.text.clone());
                self.repeated_keys |= key.repeated;
                entries.set(key, value);
                continue;
            }
            for source in sources(&value)?.iter().rev() {
                let Value::Map(merged) = source.value() else {
                    return SyntaxError::at(value.place, MERGE);
                };
                for (key, node) in merged {
                    self.count(node.size(), depth, place)?;
                    entries.set(key.clone(), node.clone());
                }
            }
        }
        Ok(entries.entries)
    }
}

/// The entries of a mapping, each key once.
#[derive(Default)]
struct LastWins<'a> {
    entries: Vec<(Key<'a>, Node<'a>)>,
    /// The position of each key.
    positions: HashMap<Cow<'a, str>, usize>,
}

impl<'a> LastWins<'a> {
    fn set(&mut self, mut key: Key<'a>, node: Node<'a>) {
        let next = self.entries.len();
        let at = *self.positions.entry(key.text.clone()).or_insert(next);
        match self.entries.get_mut(at) {
            Some(entry) => {
                key.repeated |= entry.0.repeated;
                *entry = (key, node);
            }
            None => self.entries.push((key, node)),
        }
    }
}

const MERGE: &str = "'<<' needs a mapping or a list of mappings";

/// A key `<<` without quotes, or with the tag `!!merge`.
fn is_merge(key: &Node<'_>) -> bool {
    matches!(key.value(), Value::Scalar(it) if it.plain && it.text == "<<")
}

/// The values that one `<<` merges. The list may have an anchor, but not be an alias.
fn sources<'n, 'a>(merge: &'n Node<'a>) -> Read<&'n [Node<'a>]> {
    let is_alias = matches!(&merge.value, Value::Shared(it) if it.place != merge.place);
    match merge.value() {
        Value::Map(_) => Ok(std::slice::from_ref(merge)),
        Value::List(list) if !is_alias => Ok(list),
        _ => SyntaxError::at(merge.place, MERGE),
    }
}

/// Marks the keys that an earlier entry has; returns whether there are any.
pub(super) fn mark_repeated(entries: &mut [(Key<'_>, Node<'_>)]) -> bool {
    let mut seen = HashSet::with_capacity(entries.len());
    let mut any = false;
    for (key, _) in entries {
        key.repeated = !seen.insert(key.text.clone());
        any |= key.repeated;
    }
    any
}

const UNKNOWN_TAG: &str = "a tag that Kubernetes does not know";

/// Whether a scalar is to be read as plain, given its tag.
fn is_plain(plain: bool, tag: Option<&Tag>, place: Position) -> Read<bool> {
    let Some(tag) = tag else {
        return Ok(plain);
    };
    match (tag.is_yaml_core_schema(), &*tag.suffix) {
        (false, "") if tag.handle == "!" => Ok(false),
        (true, "str") => Ok(false),
        (true, "int" | "float" | "bool" | "null" | "merge") => Ok(true),
        _ => SyntaxError::at(place, UNKNOWN_TAG),
    }
}

fn as_key<'a>(node: &Node<'a>) -> Read<Key<'a>> {
    let place = node.place;
    match node.value() {
        Value::Scalar(scalar) if scalar.meaning() != Meaning::Null => Ok(Key {
            place,
            text: scalar.text.clone(),
            repeated: false,
        }),
        _ => SyntaxError::at(place, "a key must be a text"),
    }
}
