//! GET: one object, a list, a watch.

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
use crate::watch::{self, Orders, Settings};

/// One object.
///
/// # Errors
///
/// There is none.
pub fn get(
    history: &History,
    resource: &'static Resource,
    key: &Key,
    format: Format,
) -> Result<Answer, Status> {
    let found = history.lock().collection(resource).get(key).cloned();
    let found = found.ok_or_else(|| Status::not_found(resource, &key.name))?;
    Ok(match format {
        Format::Plain => json_text(Content::whole(found.typed())),
        Format::Table(include) => json_value(&table::of_object(&found, include)),
    })
}

/// A list; at most `most` objects a page, whatever the client asks for.
///
/// # Errors
///
/// See [`choose`].
pub fn list(
    history: &History,
    resource: &'static Resource,
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

/// A watch.
///
/// # Errors
///
/// See [`watch::open`].
pub fn watch<O: Orders>(
    history: Arc<History>,
    resource: &'static Resource,
    query: Query,
    settings: Settings,
    enter: impl FnOnce() -> O,
) -> Result<Answer, Status> {
    let pieces = watch::open(history, resource, query, settings, enter)?;
    Ok(json_text(Content::Pieces(pieces)))
}
