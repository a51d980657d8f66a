//! `metrics.k8s.io`: what Pods and Nodes use, measured for each request and never stored.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::Call;
use crate::answer::{Answer, json_value};
use crate::history::now;
use crate::object::Object;
use crate::query::Query;
use crate::resource::Computed;
use crate::status::Status;

/// CPU time and memory of containers and nodes, for `kubectl top`.
pub trait Metrics: Send + Sync {
    /// What each running container of a Pod uses, by name.
    fn containers(&self, pod: &Value) -> Vec<(String, Used)>;
    /// What a Node uses: its agent and its Pods.
    fn node(&self, node: &Value) -> Option<Used>;
}

/// CPU time and memory of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time per time, in billionths of a CPU.
    pub cpu: u64,
    /// Resident memory in bytes.
    pub memory: u64,
    /// The time over which `cpu` is the mean.
    pub window: Duration,
}

/// The kinds of this group.
pub(crate) const MEASURED: Option<Computed> = Some(Computed {
    verbs: &["get", "list"],
    answer: |call, method, name| call.measured(method, name),
});

impl Call<'_> {
    /// A list or one object of a collection that is measured.
    fn measured(&self, method: &Method, name: Option<&str>) -> Result<Answer, Status> {
        if *method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let mut query = Query::parse(self.query, &self.resource)?;
        query.filter.namespace = self.namespace.clone();
        query.filter.name = name.map(str::to_owned);
        let history = self.api.store.history();
        // Measurements have the names and labels of the Pods and Nodes of the core group.
        let measured = history.registry();
        let measured = measured.of_path("", "v1", &self.resource.plural);
        let objects: Vec<_> = measured.map_or_else(Vec::new, |it| {
            let state = history.lock();
            let objects = state.collection(it).objects.values();
            objects
                .filter(|it| query.filter.matches(it))
                .cloned()
                .collect()
        });
        let mut items = objects.iter().filter_map(|it| self.of_object(it));
        if let Some(name) = name {
            let found = items.next();
            return match found {
                Some(it) => Ok(json_value(&it)),
                None => Err(Status::not_found(&self.resource, name)),
            };
        }
        Ok(json_value(&json!({
            "kind": format!("{}List", self.resource.kind),
            "apiVersion": self.resource.api_version(),
            "metadata": {},
            "items": items.collect::<Vec<_>>(),
        })))
    }

    fn of_object(&self, object: &Object) -> Option<Value> {
        let (metrics, value) = (self.api.metrics.as_ref()?, object.value());
        let usage = |it: &Used| json!({"cpu": format!("{}n", it.cpu), "memory": format!("{}Ki", it.memory / 1024)});
        let metadata = json!({
            "name": value["metadata"]["name"], "namespace": value["metadata"]["namespace"],
            "labels": value["metadata"]["labels"], "creationTimestamp": now(),
        });
        let mut measured = json!({
            "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata,
            "timestamp": now(),
        });
        let window = if self.resource.namespaced {
            let containers = metrics.containers(&value);
            let window = containers.first()?.1.window;
            let each = containers
                .iter()
                .map(|(name, it)| json!({"name": name, "usage": usage(it)}));
            measured["containers"] = each.collect();
            window
        } else {
            let used = metrics.node(&value)?;
            measured["usage"] = usage(&used);
            used.window
        };
        measured["window"] = format!("{}.{:03}s", window.as_secs(), window.subsec_millis()).into();
        Some(measured)
    }
}
