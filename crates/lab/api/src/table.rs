//! `Table` of `meta.k8s.io/v1`: the cells that kubectl prints, as kube-apiserver computes them
//! (`pkg/printers/internalversion/printers.go`).

mod age;
mod columns;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod objects;
mod path;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod storage;
#[cfg(test)]
mod tests;
pub(crate) mod workload;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::format::{Include, metadata};
use crate::list::Page;
use crate::resource::Resource;
pub(crate) use columns::{Column, Source, Table};
pub(crate) use path::Path;

/// A table with one row.
pub(crate) fn of_object(resource: &Resource, object: &Arc<Value>, include: Include) -> Value {
    let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
    let rows = vec![row(resource, object, include, Timestamp::now())];
    table(resource, &metadata, rows)
}

/// A table of a list.
pub(crate) fn of_page(resource: &Resource, page: &Page, include: Include) -> Value {
    let now = Timestamp::now();
    let rows = page
        .items
        .iter()
        .map(|it| row(resource, &it.value(), include, now));
    table(resource, &page.metadata(), rows.collect())
}

fn table(resource: &Resource, metadata: &Value, rows: Vec<Value>) -> Value {
    let columns = resource.table.columns.iter().map(Column::definition);
    let mut table = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns.collect::<Vec<_>>(),
    });
    table["rows"] = rows.into();
    table
}

/// The row of a stored object: the columns of a kind are the same in all its versions.
fn row(resource: &Resource, object: &Arc<Value>, include: Include, now: Timestamp) -> Value {
    let mut row = json!({"cells": resource.table.cells(object, now)});
    match include {
        Include::None => {}
        Include::Metadata => row["object"] = metadata(object),
        Include::Object => row["object"] = Value::clone(&resource.show(object.clone())),
    }
    row
}

/// The text of a field, or `otherwise`.
fn text<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value
        .as_str()
        .filter(|it| !it.is_empty())
        .unwrap_or(otherwise)
}

/// The items of a list; none when the value is no list.
fn items(value: &Value) -> impl DoubleEndedIterator<Item = &Value> + Clone {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Texts joined by commas, or `<none>`.
fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let joined = texts.collect::<Vec<_>>().join(",");
    if joined.is_empty() {
        NONE.to_owned()
    } else {
        joined
    }
}

/// Labels as `a=b,c=d`, or `<none>`.
fn labels(value: &Value) -> String {
    let labels = value.as_object().into_iter().flatten();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={}", text(value, "")))
        .collect();
    joined(labels.iter().map(String::as_str))
}

const NONE: &str = "<none>";
