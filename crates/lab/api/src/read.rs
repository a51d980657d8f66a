//! GET, LIST and WATCH.

use std::sync::Arc;

use crate::answer::{Answer, Content, json_text, json_value};
use crate::format::Format;
use crate::history::History;
use crate::list::choose;
use crate::object::Key;
use crate::query::Query;
use crate::resource::Resource;
use crate::status::Status;
use crate::table;

/// GET of one object.
///
/// # Errors
///
/// 404: it does not exist.
pub fn get(
    history: &History,
    resource: &Resource,
    key: &Key,
    format: Format,
) -> Result<Answer, Status> {
    let found = history.lock().collection(resource).get(key).cloned();
    let found = found.ok_or_else(|| Status::not_found(resource, &key.name))?;
    Ok(match format {
        Format::Plain => json_text(Content::whole(found.typed(resource))),
        Format::Table(include) => json_value(&table::of_object(resource, &found, include)),
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
    Ok(match format {
        Format::Plain => json_text(Content::Pieces(page.body(resource))),
        Format::Table(include) => json_value(&table::of_page(resource, &page, include)),
    })
}
