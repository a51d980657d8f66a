//! `Table` of `meta.k8s.io/v1`: what kubectl prints.

use serde_json::{Value, json};

use crate::format::Include;
use crate::list::Page;
use crate::object::Object;
use crate::resource::Resource;

/// A table of one row.
pub(crate) fn of_object(object: &Object, include: Include) -> Value {
    let _ = (object, include);
    json!({})
}

/// A table of a list.
pub(crate) fn of_page(resource: &Resource, page: &Page, include: Include) -> Value {
    let _ = (resource, page, include);
    json!({})
}

/// A table of nothing with `metadata`, as a bookmark.
pub(crate) fn blank(metadata: &Value) -> Value {
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [], "rows": []})
}
