//! The columns of a kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::items;
use super::path::{Path, shown};

/// The columns of a kind, and what fills them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(super) columns: Vec<Column>,
    /// The value of each column; `None` when each has a path.
    cells: Option<fn(&Value, Timestamp) -> Vec<Value>>,
}

/// One column (`TableColumnDefinition` of `meta.k8s.io/v1`).
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) sort: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// kubectl shows columns above 0 with `-o wide` only.
    pub(crate) priority: i64,
    pub(crate) source: Source,
}

/// Where the value of a column is.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The function of the table knows it.
    Row,
    /// The value at this path, or else the value given here.
    At(Path, Value),
    /// The texts at this path joined by commas, or else the value given here.
    Joined(Path, Value),
    /// The time since the time at this path, or else the value given here.
    Since(Path, Value),
    /// The number of items at this path.
    Count(Path),
}

impl Table {
    /// Reads columns such as `Name, Handler=.handler, Webhooks#=*.webhooks, Age`. After the name: `#` an integer, `!` a
    /// boolean, `%` a date, `+` for `-o wide`. A value is at a path; `|` says what stands for a missing one. `@` is the
    /// time since then, `*` the number of items, `&` their texts.
    pub(crate) fn of(columns: &str) -> Self {
        let columns = columns.split(',').map(|it| Column::read(it.trim()));
        Self {
            columns: columns.collect(),
            cells: None,
        }
    }

    /// As [`of`](Self::of); `cells` has the values of all columns.
    pub(crate) fn rows(columns: &str, cells: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self {
            cells: Some(cells),
            ..Self::of(columns)
        }
    }

    /// The name, and these columns.
    pub(crate) fn with(columns: impl IntoIterator<Item = Column>) -> Self {
        let name = Column::read("Name");
        Self {
            columns: std::iter::once(name).chain(columns).collect(),
            cells: None,
        }
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self.cells {
            Some(cells) => cells(object, now),
            None => {
                let columns = self.columns.iter();
                columns.map(|it| it.cell(object, now)).collect()
            }
        }
    }
}

impl Source {
    fn read(text: &str) -> Self {
        let (path, otherwise) = text.split_once('|').unwrap_or((text, ""));
        let value = serde_json::from_str(otherwise);
        let otherwise = value.unwrap_or_else(|_| otherwise.into());
        let of = |sign: char| path.strip_prefix(sign).map(Path::of);
        match (of('@'), of('*'), of('&')) {
            (Some(path), ..) => Self::Since(path, otherwise),
            (_, Some(path), _) => Self::Count(path),
            (.., Some(path)) => Self::Joined(path, otherwise),
            _ => Self::At(Path::of(path), otherwise),
        }
    }
}

impl Column {
    fn read(text: &str) -> Self {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (name, source),
            None => (text, ""),
        };
        let plain = name.trim_end_matches(['#', '!', '%', '+']);
        let has = |it| name[plain.len()..].contains(it);
        let sort = match () {
            () if has('#') => "integer",
            () if has('!') => "boolean",
            () if has('%') => "date",
            () => "string",
        };
        let source = match (plain, source) {
            ("Name", "") => Source::At(Path::of(".metadata.name"), Value::Null),
            ("Age", "") => Source::Since(Path::of(".metadata.creationTimestamp"), Value::Null),
            (_, "") => Source::Row,
            (_, source) => Source::read(source),
        };
        Self {
            name: plain.to_owned(),
            sort: sort.to_owned(),
            format: if plain == "Name" { "name" } else { "" }.to_owned(),
            description: String::new(),
            priority: i64::from(has('+')),
            source,
        }
    }

    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.sort,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    /// The value of the column (`cellForJSONValue` in `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`).
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Row => Value::Null,
            Source::At(path, otherwise) => {
                let found = path.find(object);
                match (found.as_slice(), self.sort.as_str()) {
                    ([], _) => otherwise.clone(),
                    (all, "string") => {
                        let texts: Vec<_> = all.iter().map(|it| shown(it)).collect();
                        texts.join(" ").into()
                    }
                    ([first @ Value::Number(_), ..], "integer" | "number")
                    | ([first @ Value::Bool(_), ..], "boolean")
                    | ([first @ Value::String(_), ..], "date") => (*first).clone(),
                    _ => Value::Null,
                }
            }
            Source::Since(path, otherwise) => match path.find(object).first() {
                Some(time) => since(time, now).into(),
                None => otherwise.clone(),
            },
            Source::Joined(path, otherwise) => match path.find(object).as_slice() {
                [] => otherwise.clone(),
                all => {
                    let texts: Vec<_> = all.iter().map(|it| shown(it)).collect();
                    texts.join(",").into()
                }
            },
            Source::Count(path) => {
                let found = path.find(object);
                let count = found.first().map_or(0, |it| items(it).count());
                count.into()
            }
        }
    }
}
