//! Watch events as lines, in each form.

use bytes::Bytes;
use serde_json::json;

use crate::format::Format;
use crate::history::{Event, EventType};
use crate::object::Object;
use crate::resource::Resource;
use crate::selector::Filter;
use crate::table;

impl Format {
    /// The line of a watch event.
    pub(super) fn line(self, resource: &Resource, change: EventType, object: &Object) -> Bytes {
        match self {
            Self::Plain => change.line(resource, object),
            Self::Table(include) => {
                let table = table::of_object(resource, object, include);
                change.line_with(table.to_string().as_bytes())
            }
        }
    }

    /// The line for a watch with `filter`, if it gets the event.
    pub(super) fn event(
        self,
        resource: &Resource,
        event: &Event,
        filter: &Filter,
    ) -> Option<Bytes> {
        match self {
            Self::Plain => event.line(resource, filter),
            Self::Table(_) => {
                let event_type = event.event_type(filter)?;
                Some(self.line(resource, event_type, &event.object_for(event_type)))
            }
        }
    }

    /// The line of a BOOKMARK: an empty object with a version.
    pub(super) fn bookmark(self, resource: &Resource, revision: u64, complete: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if complete {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self {
            Self::Plain => {
                let mut blank = json!({"metadata": metadata});
                // Nothing in it can have the wrong type.
                let _ = resource.schema.decode(&mut blank);
                format!("{}{}", resource.opening(""), &blank.to_string()[1..])
            }
            Self::Table(_) => table::blank(&metadata).to_string(),
        };
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }
}
