//! The lines of a watch in each form.

use bytes::Bytes;
use serde_json::json;

use crate::format::Format;
use crate::history::{Event, EventType};
use crate::object::Object;
use crate::resource::Resource;
use crate::selector::Filter;
use crate::table;

impl Format {
    /// The line that tells of a change.
    pub(super) fn line(self, change: EventType, object: &Object) -> Bytes {
        match self {
            Self::Plain => change.line(object),
            Self::Table(include) => {
                change.line_of(table::of_object(object, include).to_string().as_bytes())
            }
        }
    }

    /// What a watch with `filter` is told of an event.
    pub(super) fn event(self, event: &Event, filter: &Filter) -> Option<Bytes> {
        match self {
            Self::Plain => event.line(filter),
            Self::Table(_) => {
                let told = event.told(filter)?;
                Some(self.line(told, &event.seen(told)))
            }
        }
    }

    /// A BOOKMARK line: an empty object that carries nothing but the version.
    pub(super) fn bookmark(self, resource: &Resource, revision: u64, complete: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if complete {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self {
            Self::Plain => {
                let comma = if resource.blank.is_empty() { "" } else { "," };
                let (opening, blank) = (resource.opening(""), resource.blank);
                format!("{opening}\"metadata\":{metadata}{comma}{blank}}}")
            }
            Self::Table(_) => table::blank(&metadata).to_string(),
        };
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }
}
