//! GET, LIST and WATCH.

use std::sync::Arc;

use serde_json::json;

use crate::answer::{Answer, Content, json_text, json_value};
use crate::format::{Format, metadata};
use crate::history::History;
use crate::list::{Page, choose};
use crate::object::Key;
use crate::query::Query;
use crate::resource::Resource;
use crate::status::Status;
use crate::table;

/// GET of one object, which must not be older than `version`.
///
/// # Errors
///
/// 404: it does not exist. 504: the version is in the future.
pub fn get(
    history: &History,
    resource: &Resource,
    key: &Key,
    version: Option<u64>,
    format: Format,
) -> Result<Answer, Status> {
    let state = history.lock();
    if let Some(version) = version.filter(|it| *it > state.revision) {
        return Err(Status::too_large_version(version, state.revision));
    }
    let found = state.collection(resource).get(key).cloned();
    drop(state);
    let found = found.ok_or_else(|| Status::not_found(resource, &key.name))?;
    Ok(match format {
        Format::Plain => json_text(Content::whole(found.typed(resource))),
        _ => json_value(&format.object(resource, &found.value())),
    })
}

/// LIST, with at most `most` objects a page, whatever limit the client asks for.
///
/// # Errors
///
/// See [`choose`].
pub fn list(
    history: &History,
    resource: &Arc<Resource>,
    query: &Query,
    most: Option<usize>,
    format: Format,
) -> Result<Answer, Status> {
    let page = choose(&history.lock(), resource, query, most)?;
    Ok(answer(resource, page, format))
}

/// The answer that carries a page of a list.
pub(crate) fn answer(resource: &Arc<Resource>, page: Page, format: Format) -> Answer {
    match format {
        Format::Plain => json_text(Content::Pieces(page.body(resource))),
        Format::Table(include) | Format::Rows(include) => {
            json_value(&table::of_page(resource, &page, include))
        }
        Format::Metadata | Format::MetadataList => {
            let items = page.items.iter().map(|it| metadata(&it.value()));
            json_value(&json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata(),
                "items": items.collect::<Vec<_>>(),
            }))
        }
    }
}
