//! Watch events as lines, in each form.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::format::{Format, Include};
use crate::history::{Event, EventType};
use crate::object::Object;
use crate::resource::Resource;
use crate::selector::Filter;

impl Format {
    /// The line of a watch event.
    pub(super) fn line(self, resource: &Resource, change: EventType, object: &Object) -> Bytes {
        match self {
            Self::Plain => change.line(resource, object),
            _ => {
                let shown = self.object(resource, &object.value());
                change.line_with(shown.to_string().as_bytes())
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
        if self == Self::Plain {
            return event.line(resource, filter);
        }
        let event_type = event.event_type(filter)?;
        Some(self.line(resource, event_type, &event.object_for(event_type)))
    }

    /// The line of a BOOKMARK: an empty object with a version.
    pub(super) fn bookmark(self, resource: &Resource, revision: u64, complete: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if complete {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut blank = json!({"metadata": metadata});
        // Nothing in it can have the wrong type.
        let _ = resource.schema.decode(&mut blank);
        let object = match self {
            Self::Plain => format!("{}{}", resource.opening(), &blank.to_string()[1..]),
            // The annotation is in the object, and clients wait for it.
            Self::Table(Include::None) if complete => {
                shown(Self::Table(Include::Metadata), resource, blank)
            }
            Self::Rows(Include::None) if complete => {
                shown(Self::Rows(Include::Metadata), resource, blank)
            }
            _ => shown(self, resource, blank),
        };
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }
}

fn shown(format: Format, resource: &Resource, mut blank: Value) -> String {
    blank["kind"] = resource.kind.clone().into();
    blank["apiVersion"] = resource.api_version().into();
    format.object(resource, &Arc::new(blank)).to_string()
}
