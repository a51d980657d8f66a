//! YAML events → tree, within a budget.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Key, MAX_DEPTH, MAX_NODES, Meaning, Node, Place, Scalar, SyntaxError, Value};

/// What a text held.
#[derive(Debug, Default)]
pub struct Parsed<'a> {
    /// The documents that are complete.
    pub documents: Vec<Node<'a>>,
    /// Some mapping has a key twice: look at [`Node::repeated_keys`].
    pub repeated_keys: bool,
    /// Why reading stopped before the end.
    pub error: Option<SyntaxError>,
}

/// Reads the documents of a text whose first line is line `lines_before + 1`.
pub fn parse_yaml(text: &str, lines_before: u32) -> Parsed<'_> {
    let mut builder = Builder {
        lines_before,
        ..Builder::default()
    };
    let mut parser = Parser::new_from_str(text);
    let mut result = Ok(());
    while let Some(next) = parser.next_event()
        && result.is_ok()
    {
        result = match next {
            Ok((event, span)) => builder.event(event, span.start),
            Err(error) => Err(SyntaxError {
                place: builder.place(*error.marker()),
                message: error.info().to_owned(),
            }),
        };
    }
    builder.parsed.error = result.err();
    builder.parsed
}

/// What is known of a node beside its value.
struct Measured<'a> {
    node: Node<'a>,
    /// Nodes in it, aliases expanded.
    size: usize,
    /// Levels below it.
    height: usize,
}

/// A collection that is still open.
struct Open<'a> {
    place: Place,
    anchor: usize,
    size: usize,
    height: usize,
    items: Items<'a>,
}

enum Items<'a> {
    List(Vec<Node<'a>>),
    Map {
        entries: Vec<(Key<'a>, Node<'a>)>,
        key: Option<Key<'a>>,
        merges: Vec<Node<'a>>,
    },
}

#[derive(Default)]
struct Builder<'a> {
    lines_before: u32,
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, (Rc<Node<'a>>, usize, usize)>,
    /// Nodes of the document so far, aliases expanded.
    nodes: usize,
    parsed: Parsed<'a>,
}

impl<'a> Builder<'a> {
    fn place(&self, mark: Marker) -> Place {
        let short = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Place {
            line: self.lines_before.saturating_add(short(mark.line())),
            column: short(mark.col()).saturating_add(1),
        }
    }

    fn event(&mut self, event: Event<'a>, mark: Marker) -> Result<(), SyntaxError> {
        let place = self.place(mark);
        let fail = |message: &str| {
            let message = message.to_owned();
            Err(SyntaxError { place, message })
        };
        match event {
            Event::DocumentStart(_) => {
                self.anchors.clear();
                self.nodes = 0;
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let Some(plain) = is_plain(plain, tag.as_deref()) else {
                    return fail("a tag that Kubernetes does not know");
                };
                let value = Value::Scalar(Scalar { text, plain });
                let node = Node { place, value };
                self.close(node, anchor, 1, 0)?;
            }
            Event::SequenceStart(_, Some(tag)) | Event::MappingStart(_, Some(tag))
                if !tag.is_yaml_core_schema() =>
            {
                return fail("a tag that Kubernetes does not know");
            }
            Event::SequenceStart(anchor, _) => {
                self.enter(place, anchor, Items::List(Vec::new()))?
            }
            Event::MappingStart(anchor, _) => {
                let (entries, merges) = (Vec::new(), Vec::new());
                let items = Items::Map {
                    entries,
                    key: None,
                    merges,
                };
                self.enter(place, anchor, items)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser balances its events");
                let value = match open.items {
                    Items::List(items) => Value::List(items),
                    Items::Map {
                        entries, merges, ..
                    } => self.map(entries, &merges, place)?,
                };
                let node = Node {
                    place: open.place,
                    value,
                };
                self.close(node, open.anchor, open.size, open.height)?;
            }
            Event::Alias(anchor) => {
                let Some((node, size, height)) = self.anchors.get(&anchor) else {
                    return fail("an alias inside its own anchor");
                };
                let value = Value::Shared(node.clone());
                let (size, height) = (*size, *height);
                self.put(Measured {
                    node: Node { place, value },
                    size,
                    height,
                })?;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn enter(&mut self, place: Place, anchor: usize, items: Items<'a>) -> Result<(), SyntaxError> {
        let (size, height) = (1, 0);
        self.open.push(Open {
            place,
            anchor,
            size,
            height,
            items,
        });
        self.check_depth(place, 0)
    }

    fn check_depth(&self, place: Place, height: usize) -> Result<(), SyntaxError> {
        if self.open.len() + height <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("nested deeper than {MAX_DEPTH} levels");
        Err(SyntaxError { place, message })
    }

    /// A complete node: remembers its anchor and puts it where it belongs.
    fn close(
        &mut self,
        mut node: Node<'a>,
        anchor: usize,
        size: usize,
        height: usize,
    ) -> Result<(), SyntaxError> {
        if anchor != 0 {
            let place = node.place;
            let shared = Rc::new(node);
            self.anchors.insert(anchor, (shared.clone(), size, height));
            node = Node {
                place,
                value: Value::Shared(shared),
            };
        }
        self.put(Measured { node, size, height })
    }

    fn put(&mut self, measured: Measured<'a>) -> Result<(), SyntaxError> {
        let Measured { node, size, height } = measured;
        let place = node.place;
        // Nodes of a collection were counted one by one; an alias counts as all it stands for.
        let is_alias = matches!(node.value, Value::Shared(_));
        self.nodes = self.nodes.saturating_add(if is_alias { size } else { 1 });
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values in one document");
            return Err(SyntaxError { place, message });
        }
        self.check_depth(place, height)?;
        let Some(parent) = self.open.last_mut() else {
            self.parsed.documents.push(node);
            return Ok(());
        };
        parent.size = parent.size.saturating_add(size);
        parent.height = parent.height.max(height + 1);
        match &mut parent.items {
            Items::List(items) => items.push(node),
            Items::Map {
                entries,
                key,
                merges,
            } => match key.take() {
                None => *key = Some(as_key(&node)?),
                Some(key) if key.text == "<<" => merges.push(node),
                Some(key) => entries.push((key, node)),
            },
        }
        Ok(())
    }

    /// Completes a mapping: marks repeated keys, adds what `<<` merges in.
    fn map(
        &mut self,
        mut entries: Vec<(Key<'a>, Node<'a>)>,
        merges: &[Node<'a>],
        place: Place,
    ) -> Result<Value<'a>, SyntaxError> {
        self.parsed.repeated_keys |= mark_repeated(&mut entries);
        if merges.is_empty() {
            return Ok(Value::Map(entries));
        }
        let texts = entries.iter().map(|(key, _)| key.text.clone());
        let mut seen: HashSet<Cow<'a, str>> = texts.collect();
        for merge in merges {
            let sources = match merge.value() {
                Value::List(list) => list.iter().collect(),
                _ => vec![merge],
            };
            for source in sources {
                let Value::Map(merged) = source.value() else {
                    let (place, message) = (merge.place, "'<<' needs a mapping".to_owned());
                    return Err(SyntaxError { place, message });
                };
                for (key, node) in merged {
                    if seen.insert(key.text.clone()) {
                        entries.push((key.clone(), alias(node)));
                    }
                    self.nodes += 1;
                }
            }
        }
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values in one document");
            return Err(SyntaxError { place, message });
        }
        Ok(Value::Map(entries))
    }
}

/// Marks the keys that an earlier entry has; says whether there are any.
fn mark_repeated(entries: &mut [(Key<'_>, Node<'_>)]) -> bool {
    // Nearly every mapping is so small that comparing all keys beats hashing them.
    const SMALL: usize = 16;
    let mut seen: HashSet<Cow<'_, str>> = HashSet::new();
    let mut any = false;
    for i in 0..entries.len() {
        let (before, rest) = entries.split_at_mut(i);
        let Some((key, _)) = rest.first_mut() else {
            break;
        };
        key.repeated = if i < SMALL {
            before.iter().any(|(it, _)| it.text == key.text)
        } else {
            if seen.is_empty() {
                seen.extend(before.iter().map(|(it, _)| it.text.clone()));
            }
            !seen.insert(key.text.clone())
        };
        any |= key.repeated;
    }
    any
}

/// A second handle on a node that a merge brings in.
fn alias<'a>(node: &Node<'a>) -> Node<'a> {
    let value = match &node.value {
        Value::Shared(shared) => Value::Shared(shared.clone()),
        Value::Scalar(scalar) => Value::Scalar(scalar.clone()),
        Value::List(items) => Value::List(items.iter().map(alias).collect()),
        Value::Map(entries) => {
            let copies = entries.iter().map(|(key, node)| (key.clone(), alias(node)));
            Value::Map(copies.collect())
        }
    };
    Node {
        place: node.place,
        value,
    }
}

/// Whether a scalar is to be read as plain, given its tag; `None` for a foreign tag.
fn is_plain(plain: bool, tag: Option<&Tag>) -> Option<bool> {
    match tag {
        None => Some(plain),
        Some(tag) if !tag.is_yaml_core_schema() => {
            (tag.handle == "!" && tag.suffix.is_empty()).then_some(false)
        }
        Some(tag) => match &*tag.suffix {
            "str" => Some(false),
            "int" | "float" | "bool" | "null" => Some(true),
            _ => None,
        },
    }
}

fn as_key<'a>(node: &Node<'a>) -> Result<Key<'a>, SyntaxError> {
    let place = node.place;
    match node.value() {
        Value::Scalar(scalar) if scalar.meaning() != Meaning::Null => Ok(Key {
            place,
            text: scalar.text.clone(),
            repeated: false,
        }),
        _ => {
            let message = "a key must be a text".to_owned();
            Err(SyntaxError { place, message })
        }
    }
}
