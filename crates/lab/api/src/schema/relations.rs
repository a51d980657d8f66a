//! Rules of several fields of a type, read from `relations.txt`, which has their grammar.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use ipnet::IpNet;
use serde_json::Value;
use sluice_controller::Quantity;

use crate::status::Cause;

const RELATIONS: &str = include_str!("relations.txt");

/// A rule: what is wrong with a field of an object for which all conditions hold.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// The objects that the conditions are about, as paths from the object that has the rule.
    scopes: Vec<Path>,
    conditions: Vec<Condition>,
    /// Of several fields, all but the first that is given are wrong.
    targets: Vec<Path>,
    problem: Problem,
    /// With the values of `{FIELD}`.
    detail: &'static str,
}

/// Fields of objects: `spec.containers[].name`. Empty: the object itself.
#[derive(Clone, Debug)]
struct Path {
    start: Start,
    /// Names of fields, and whether the items of the list there are meant.
    steps: Vec<(&'static str, bool)>,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    /// The object that the conditions are about.
    Here,
    /// `/`: the object that has the rule.
    Root,
    /// `^`: as [`Here`](Self::Here), but errors name the list and not its item, as Kubernetes does in places.
    List,
}

#[derive(Clone, Debug)]
enum Condition {
    /// Whether the operand compares so with one of the words.
    Words(Operand, How, Vec<&'static str>),
    /// Whether the operand compares so with the value of another field.
    Field(Operand, How, Path),
    /// Whether a field is given; the flag tells which answer holds.
    Given(Path, bool),
    /// Whether the value is one of those of other fields; the flag tells which answer holds.
    Among(Path, Vec<Path>, bool),
    /// Whether the value is a network that is no true part of the network in the other field.
    Outside(Path, Path),
    /// Whether an item before has the same values.
    Twice(Vec<Path>),
    /// Whether a field differs from that of the object before.
    Changed(Vec<Path>),
    /// Whether a field differs from that of the item before that has the same value in the first field.
    Replaced(Path, Vec<Path>),
    /// Whether a quantity is less than that of the object before.
    Shrunk(Path),
    /// Whether the object before had the field.
    Was(Path),
    /// Whether there is no object before.
    Created,
}

#[derive(Clone, Debug)]
enum Operand {
    Value(Path),
    /// The number of items of a list.
    Length(Path),
    /// The number of fields that are given.
    Count(Vec<Path>),
}

#[derive(Clone, Copy, Debug)]
enum How {
    Equal,
    Differs,
    /// Whether a pattern with `*` at its ends matches.
    Like,
    Unlike,
    Less,
    More,
}

#[derive(Clone, Debug)]
enum Problem {
    Required,
    Forbidden,
    NotFound(Shown),
    Duplicate(Shown),
    Invalid(Shown),
    Unsupported(Vec<&'static str>),
}

/// The value in a message.
#[derive(Clone, Debug)]
enum Shown {
    /// The value of the field that is wrong.
    Own,
    Field(Path),
    /// A text with the values of `{FIELD}`.
    Text(&'static str),
    Null,
}

/// A value and the paths of itself and of the list that it is in.
#[derive(Clone, Debug)]
struct Place<'a> {
    path: String,
    list: String,
    value: &'a Value,
}

/// The rules of all types, by the name of the type.
pub(super) fn read() -> impl Iterator<Item = (&'static str, Relation)> {
    let mut names = Vec::new();
    let lines = RELATIONS
        .lines()
        .filter(|it| !it.starts_with('#') && !it.is_empty());
    lines.flat_map(move |line| match line.strip_prefix(' ') {
        Some(rule) => {
            let rule = Relation::read(rule);
            names.iter().map(|it| (*it, rule.clone())).collect()
        }
        None => {
            names = line.split(' ').collect();
            Vec::new()
        }
    })
}

impl<'a> Place<'a> {
    fn of(path: &str, value: &'a Value) -> Self {
        Self {
            path: path.to_owned(),
            list: path.to_owned(),
            value,
        }
    }
}

impl Relation {
    fn read(line: &'static str) -> Self {
        let (left, right) = line.split_once("-> ").expect("a rule has an arrow");
        let (scopes, conditions) = left.split_once(": ").unwrap_or(("", left));
        let (right, detail) = right.split_once(": ").unwrap_or((right, ""));
        let end = right
            .find("} ")
            .map_or_else(|| right.find(' '), |it| Some(it + 1));
        let (targets, problem) = right.split_at(end.expect("a rule has a field"));
        Self {
            scopes: scopes.split(',').map(Path::read).collect(),
            conditions: conditions.split_whitespace().map(Condition::read).collect(),
            targets: Path::several(targets),
            problem: Problem::read(problem.trim_start()),
            detail,
        }
    }

    /// What is wrong with an object of the type at `path`, and how many objects were looked at; `old` is the object before.
    pub(super) fn check(
        &self,
        path: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> (Vec<Cause>, u64) {
        let root = Place::of(path, object);
        let places: Vec<_> = self.scopes.iter().flat_map(|it| it.places(&root)).collect();
        let others = |it: &Condition| match it {
            Condition::Among(_, others, _) => {
                let places = others.iter().flat_map(|it| it.places(&root));
                places.map(|it| text(it.value)).collect()
            }
            _ => BTreeSet::new(),
        };
        let mut known: Vec<_> = self.conditions.iter().map(others).collect();
        let mut causes = Vec::new();
        for place in places.iter().filter(|it| !it.value.is_null()) {
            let mut conditions = self.conditions.iter().zip(&mut known);
            if conditions.all(|(it, known)| it.holds(&self.scopes, &root, place, old, known)) {
                causes.extend(self.causes(&root, place));
            }
        }
        (causes, places.len() as u64)
    }

    fn causes(&self, root: &Place<'_>, place: &Place<'_>) -> Vec<Cause> {
        let one =
            |target: Place<'_>| Cause::new(target.path.clone(), self.message(root, place, &target));
        let targets = self.targets.iter().flat_map(|it| it.from(root, place));
        match self.targets.len() {
            1 => targets.map(one).collect(),
            _ => targets
                .filter(|it| is_given(it.value))
                .skip(1)
                .map(one)
                .collect(),
        }
    }

    fn message(&self, root: &Place<'_>, place: &Place<'_>, target: &Place<'_>) -> String {
        let shown = |how: &Shown| match how {
            Shown::Own if target.value.is_null() => "\"\"".to_owned(),
            Shown::Own => target.value.to_string(),
            Shown::Field(path) => {
                let found = path.from(root, place).into_iter().next();
                found.map_or("\"\"".to_owned(), |it| Shown::of(it.value))
            }
            Shown::Null => "null".to_owned(),
            Shown::Text(text) => Value::from(filled(text, root, place)).to_string(),
        };
        let problem = match &self.problem {
            Problem::Required => "Required value".to_owned(),
            Problem::Forbidden => "Forbidden".to_owned(),
            Problem::NotFound(how) => format!("Not found: {}", shown(how)),
            Problem::Duplicate(how) => format!("Duplicate value: {}", shown(how)),
            Problem::Invalid(how) => format!("Invalid value: {}", shown(how)),
            Problem::Unsupported(all) => {
                let all: Vec<_> = all.iter().map(|it| format!("{it:?}")).collect();
                let (value, all) = (shown(&Shown::Own), all.join(", "));
                format!("Unsupported value: {value}: supported values: {all}")
            }
        };
        match self.detail {
            "" => problem,
            detail => format!("{problem}: {}", filled(detail, root, place)),
        }
    }
}

impl Condition {
    fn read(word: &'static str) -> Self {
        if word == "created" {
            return Self::Created;
        }
        let inside = |name: &str| word.strip_prefix(name)?.strip_suffix(')');
        if let Some(fields) = inside("twice(") {
            return Self::Twice(fields.split(',').map(Path::read).collect());
        }
        if let Some(fields) = inside("changed(") {
            let all = |fields: &'static str| fields.split(',').map(Path::read).collect();
            return match fields.split_once(':') {
                Some((key, fields)) => Self::Replaced(Path::read(key), all(fields)),
                None => Self::Changed(all(fields)),
            };
        }
        if let Some(field) = inside("shrunk(") {
            return Self::Shrunk(Path::read(field));
        }
        if let Some(field) = inside("was(") {
            return Self::Was(Path::read(field));
        }
        if let Some((field, other)) = word.split_once("!within:") {
            return Self::Outside(Path::read(field), Path::read(other));
        }
        for (sign, is_in) in [("!in:", false), (":in:", true)] {
            if let Some((field, others)) = word.split_once(sign) {
                return Self::Among(Path::read(field), Path::several(others), is_in);
            }
        }
        for (sign, how) in [
            ("!~=", How::Unlike),
            ("~=", How::Like),
            ("!=", How::Differs),
            ("=", How::Equal),
            ("<", How::Less),
            (">", How::More),
        ] {
            let Some((left, right)) = word.split_once(sign) else {
                continue;
            };
            let left = Operand::read(left);
            let is_pattern = matches!(how, How::Like | How::Unlike);
            return if right.starts_with(['/', '.']) && !is_pattern {
                Self::Field(left, how, Path::read(right))
            } else {
                Self::Words(left, how, right.split('|').collect())
            };
        }
        let (field, is) = word
            .strip_prefix('!')
            .map_or((word, true), |it| (it, false));
        Self::Given(Path::read(field), is)
    }

    /// `known` are the values of the other fields, or those of the items before.
    fn holds(
        &self,
        scopes: &[Path],
        root: &Place<'_>,
        place: &Place<'_>,
        old: Option<&Value>,
        known: &mut BTreeSet<String>,
    ) -> bool {
        let text = |path: &Path| path.text(root, place);
        match self {
            Self::Words(operand, how, words) => {
                let left = operand.text(root, place);
                match how {
                    How::Differs | How::Unlike => words.iter().all(|it| how.holds(&left, it)),
                    how => words.iter().any(|it| how.holds(&left, it)),
                }
            }
            Self::Field(operand, how, other) => how.holds(&operand.text(root, place), &text(other)),
            Self::Given(path, is) => {
                path.from(root, place).iter().any(|it| is_given(it.value)) == *is
            }
            Self::Among(path, _, is_in) => known.contains(&text(path)) == *is_in,
            Self::Outside(path, other) => is_outside(&text(path), &text(other)),
            Self::Twice(paths) => {
                let texts: Vec<_> = paths.iter().map(text).collect();
                !known.insert(texts.join("\0"))
            }
            Self::Changed(paths) => {
                old.is_some_and(|old| paths.iter().any(|it| it.differs(old, root.value)))
            }
            Self::Replaced(key, paths) => {
                let before = old.map(|it| Place::of("", it));
                let before = before.iter();
                let mut before =
                    before.flat_map(|it| scopes.iter().flat_map(|path| path.places(it)));
                let differs = |path: &Path, old: &Place<'_>| path.differs(old.value, place.value);
                before
                    .any(|old| !differs(key, &old) && paths.iter().any(|path| differs(path, &old)))
            }
            Self::Shrunk(path) => {
                old.is_some_and(|old| How::Less.holds(&text(path), &self::text(path.one(old))))
            }
            Self::Created => old.is_none(),
            Self::Was(path) => old.is_some_and(|old| is_given(path.one(old))),
        }
    }
}

impl Operand {
    fn read(word: &'static str) -> Self {
        match word.strip_prefix('#') {
            Some(list) => Self::Length(Path::read(list)),
            None if word.starts_with('{') => Self::Count(Path::several(word)),
            None => Self::Value(Path::read(word)),
        }
    }

    fn text(&self, root: &Place<'_>, place: &Place<'_>) -> String {
        match self {
            Self::Value(path) => path.text(root, place),
            Self::Length(path) => {
                let lists = path.from(root, place).into_iter();
                let lengths = lists.map(|it| match it.value {
                    Value::Array(list) => list.len(),
                    Value::String(text) => text.len(),
                    _ => 0,
                });
                lengths.sum::<usize>().to_string()
            }
            Self::Count(paths) => {
                let given = paths
                    .iter()
                    .filter(|it| it.from(root, place).iter().any(|it| is_given(it.value)));
                given.count().to_string()
            }
        }
    }
}

impl How {
    fn holds(self, left: &str, right: &str) -> bool {
        let order = || {
            let (left, right): (Quantity, Quantity) = (left.parse().ok()?, right.parse().ok()?);
            left.partial_cmp(&right)
        };
        match self {
            Self::Equal => left == right,
            Self::Differs => left != right,
            Self::Like => is_like(left, right),
            Self::Unlike => !is_like(left, right),
            Self::Less => order() == Some(Ordering::Less),
            Self::More => order() == Some(Ordering::Greater),
        }
    }
}

impl Problem {
    fn read(text: &'static str) -> Self {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match name {
            "required" => Self::Required,
            "forbidden" => Self::Forbidden,
            "not-found" => Self::NotFound(Shown::read(value)),
            "duplicate" => Self::Duplicate(Shown::read(value)),
            "invalid" => Self::Invalid(Shown::read(value)),
            "unsupported" => Self::Unsupported(value.split(',').collect()),
            _ => panic!("relations.txt: there is no problem {text}"),
        }
    }
}

impl Shown {
    fn read(word: &'static str) -> Self {
        let text = word.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        match (word, text) {
            ("", _) => Self::Own,
            ("null", _) => Self::Null,
            (_, Some(text)) => Self::Text(text),
            _ => Self::Field(Path::read(word)),
        }
    }

    fn of(value: &Value) -> String {
        if value.is_null() {
            "\"\"".to_owned()
        } else {
            value.to_string()
        }
    }
}

impl Path {
    fn read(word: &'static str) -> Self {
        let (start, rest) = match word.as_bytes().first() {
            Some(b'/') => (Start::Root, &word[1..]),
            Some(b'^') => (Start::List, &word[1..]),
            _ => (Start::Here, word),
        };
        let steps = rest.split('.').filter(|it| !it.is_empty());
        let steps = steps.map(|it| match it.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (it, false),
        });
        Self {
            start,
            steps: steps.collect(),
        }
    }

    /// `{a,b}`, or one path. `{a, b}` is one name, which Kubernetes shows for two fields.
    fn several(word: &'static str) -> Vec<Self> {
        let inner = word.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        if word.contains(", ") {
            return vec![Self::read(word)];
        }
        inner.unwrap_or(word).split(',').map(Self::read).collect()
    }

    /// The places that the path leads to; those that do not exist are null.
    fn from<'a>(&self, root: &Place<'a>, place: &Place<'a>) -> Vec<Place<'a>> {
        match self.start {
            Start::Here => self.places(place),
            Start::Root => self.places(root),
            Start::List => {
                let list = Place {
                    path: place.list.clone(),
                    list: place.list.clone(),
                    value: place.value,
                };
                self.places(&list)
            }
        }
    }

    fn places<'a>(&self, from: &Place<'a>) -> Vec<Place<'a>> {
        let mut found = vec![from.clone()];
        for (name, is_list) in &self.steps {
            let next = found.into_iter().flat_map(|it| {
                let path = super::check::join(&it.path, name);
                let value = &it.value[*name];
                if !is_list {
                    return vec![Place {
                        path,
                        value,
                        list: it.list,
                    }];
                }
                let items = value.as_array().into_iter().flatten().enumerate();
                let items = items.map(|(at, value)| Place {
                    path: format!("{path}[{at}]"),
                    list: path.clone(),
                    value,
                });
                items.collect()
            });
            found = next.collect();
        }
        found
    }

    /// The text of the first value.
    fn text(&self, root: &Place<'_>, place: &Place<'_>) -> String {
        self.from(root, place)
            .first()
            .map(|it| text(it.value))
            .unwrap_or_default()
    }

    fn one<'a>(&self, object: &'a Value) -> &'a Value {
        self.steps.iter().fold(object, |it, (name, _)| &it[*name])
    }

    fn differs(&self, old: &Value, new: &Value) -> bool {
        self.one(old) != self.one(new)
    }
}

/// Whether Go's value is not empty; a pointer to something empty is given.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(it) => !it.is_empty(),
        Value::Array(it) => !it.is_empty(),
        _ => true,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(it) => it.clone(),
        other => other.to_string(),
    }
}

/// Whether a network is no true part of another. What is no network is told by its format.
fn is_outside(text: &str, whole: &str) -> bool {
    let (Ok(part), Ok(whole)) = (text.parse::<IpNet>(), whole.parse::<IpNet>()) else {
        return false;
    };
    part.prefix_len() <= whole.prefix_len() || !whole.trunc().contains(&part)
}

fn is_like(text: &str, pattern: &str) -> bool {
    let pattern = &*pattern.replace('_', " ");
    let (begin, rest) = match pattern.strip_prefix('*') {
        Some(rest) => (false, rest),
        None => (true, pattern),
    };
    match (begin, rest.strip_suffix('*')) {
        (true, Some(part)) => text.starts_with(part),
        (false, Some(part)) => text.contains(part),
        (false, None) => text.ends_with(rest),
        (true, None) => text == rest,
    }
}

/// A text with the values of the fields that it names: `{spec.name}`.
fn filled(text: &'static str, root: &Place<'_>, place: &Place<'_>) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        made.push_str(before);
        match after.split_once('}') {
            Some((name, after)) if !name.contains(['{', ' ']) => {
                made.push_str(&Path::read(name).text(root, place));
                rest = after;
            }
            _ => {
                made.push('{');
                rest = after;
            }
        }
    }
    made + rest
}

#[cfg(test)]
mod tests;
