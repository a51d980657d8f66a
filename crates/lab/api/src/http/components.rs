//! `componentstatuses`: deprecated since Kubernetes 1.19, and in tutorials to this day. The parts of the control plane are one
//! process here, which answers: all are healthy (`pkg/registry/core/componentstatus`).

use std::sync::Arc;

use hyper::Method;
use serde_json::{Map, Value, json};

use super::Call;
use crate::answer::Answer;
use crate::list::Page;
use crate::object::{Key, Object};
use crate::query::Query;
use crate::read;
use crate::resource::Computed;
use crate::status::Status;

const NAMES: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

pub(crate) const HEALTHY: Option<Computed> = Some(Computed {
    verbs: &["get", "list"],
    answer: |call, method, name| call.components(method, name),
});

impl Call<'_> {
    fn components(&self, method: &Method, name: Option<&str>) -> Result<Answer, Status> {
        if *method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let query = Query::parse(self.query, &self.resource)?;
        let all = NAMES.map(|name| {
            let conditions = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
            let body = Map::from_iter([
                ("metadata".to_owned(), json!({"name": name})),
                ("conditions".to_owned(), conditions),
            ]);
            Arc::new(Object::freeze(
                self.resource.clone(),
                Key::new("", name),
                0,
                body,
            ))
        });
        if let Some(name) = name {
            let found = all.iter().find(|it| it.key.name == name);
            let found: &Arc<Object> =
                found.ok_or_else(|| Status::not_found(&self.resource, name))?;
            return self.shown(&found.value());
        }
        let items = all.into_iter().filter(|it| query.filter.matches(it));
        let page = Page {
            revision: self.api.store.revision(),
            items: items.collect::<Vec<_>>(),
            ..Page::default()
        };
        Ok(read::answer(&self.resource, page, self.list_format()?))
    }
}

/// The cells of a ComponentStatus (`printComponentStatus`).
pub(crate) fn cells(object: &Value, _: jiff::Timestamp) -> Vec<Value> {
    let conditions = object["conditions"].as_array().into_iter().flatten();
    let healthy = conditions.last().unwrap_or(&Value::Null);
    let status = match healthy["status"].as_str() {
        Some("True") => "Healthy",
        Some("False") => "Unhealthy",
        _ => "Unknown",
    };
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    vec![
        object["metadata"]["name"].clone(),
        status.into(),
        text(&healthy["message"]).into(),
        text(&healthy["error"]).into(),
    ]
}
