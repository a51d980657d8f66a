//! Subresources of Pods: log, eviction, binding, ephemeral containers, resize.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::Call;
use super::options::Verb;
use super::proxy::OF_PODS;
use super::streams;
use super::writing::{Part as Written, content, with_warnings};
use crate::answer::{Answer, Content, Pieces, success, with_type};
use crate::body;
use crate::history::now;
use crate::query::boolean;
use crate::resource::{BINDING, Computed, Part};
use crate::status::{Cause, Status, each};

/// Reads the logs of Pods.
pub trait Logs: Send + Sync {
    /// The log of one container.
    ///
    /// # Errors
    ///
    /// 400: the Pod has no such container, or the container has not started yet.
    fn read(&self, pod: &Value, options: &LogOptions) -> Result<Pieces, Status>;
}

/// `PodLogOptions` of `core/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// Whether the stream goes on with new lines.
    pub follow: bool,
    /// Whether to read the log of the container before its last restart.
    pub previous: bool,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Most lines, from the end; `None` for all.
    pub tail_lines: Option<u64>,
    /// Only lines of the last seconds, this many; `None` for all.
    pub since_seconds: Option<u64>,
    /// Only lines after this time, RFC 3339; `None` for all.
    pub since_time: Option<String>,
}

/// The subresources of Pods.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "binding",
        api_version: "",
        kind: "Binding",
        verbs: &["create"],
        answer: |call, method, name| call.post(method)?.bind(Some(name)),
    },
    Part {
        name: "eviction",
        api_version: "policy/v1",
        kind: "Eviction",
        verbs: &["create"],
        answer: |call, method, name| call.post(method)?.evict(name),
    },
    Part {
        name: "log",
        api_version: "",
        kind: "Pod",
        verbs: &["get"],
        answer: |call, method, name| match *method {
            Method::GET => call.log(name),
            _ => Err(Status::method_not_allowed()),
        },
    },
    Part {
        name: "ephemeralcontainers",
        api_version: "",
        kind: "Pod",
        verbs: &["get", "patch", "update"],
        answer: |call, method, name| call.read_or_write(method, name, Written::Ephemeral),
    },
    Part {
        name: "resize",
        api_version: "",
        kind: "Pod",
        verbs: &["get", "patch", "update"],
        answer: |call, method, name| call.read_or_write(method, name, Written::Resize),
    },
    OF_PODS,
    streams::EXEC,
    streams::ATTACH,
    streams::PORT_FORWARD,
];

/// Bindings of Pods by their names, as schedulers wrote them before `pods/binding`.
pub(crate) const OF_BINDINGS: Option<Computed> = Some(Computed {
    verbs: &["create"],
    answer: |call, method, name| match name {
        None => call.post(method)?.bind(None),
        Some(_) => Err(Status::no_resource()),
    },
});

impl Call<'_> {
    /// Refuses all methods but POST.
    pub(super) fn post(&self, method: &Method) -> Result<&Self, Status> {
        match *method {
            Method::POST => Ok(self),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn log(&self, name: &str) -> Result<Answer, Status> {
        let pod = self.find(name)?;
        let number = |name: &str| match self.parameter(name) {
            None => Ok(None),
            Some(text) => {
                let wrong = |_| Status::bad_request(format!("{name}: Invalid value: {text:?}"));
                text.parse().map(Some).map_err(wrong)
            }
        };
        let flag = |name: &str| self.parameter(name).is_some_and(|it| boolean(&it));
        let options = LogOptions {
            container: self.parameter("container"),
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            tail_lines: number("tailLines")?,
            since_seconds: number("sinceSeconds")?,
            since_time: self.parameter("sinceTime"),
        };
        let logs = self.api.logs.as_ref().ok_or_else(Status::no_resource)?;
        let pieces = logs.read(&pod, &options)?;
        Ok(with_type("text/plain", Content::Pieces(pieces)))
    }

    /// Deletes the Pod. There are no PodDisruptionBudgets.
    fn evict(&self, name: &str) -> Result<Answer, Status> {
        let eviction = content("Eviction", self.content_type, self.body)?;
        let options = self.delete_options(&eviction["deleteOptions"])?;
        let key = self.key(name);
        self.api.store.delete_of(&self.resource, &key, &options)?;
        Ok(created())
    }

    /// Assigns a Pod to a node: the Pod of the path, or that with the name of the binding. What the binding has of metadata
    /// is added to that of the Pod (`BindingREST` in `pkg/registry/core/pod/storage/storage.go`).
    fn bind(&self, path: Option<&str>) -> Result<Answer, Status> {
        let Some(namespace) = self.namespace.as_deref() else {
            return Err(Status::method_not_allowed());
        };
        let options = self.options(Verb::Create)?;
        let mut binding = content(&BINDING.kind, self.content_type, self.body)?;
        body::fit(&BINDING, Some(namespace), &mut binding)?;
        let warnings = self.check(&BINDING, &mut binding, &options)?;
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        if path.is_some_and(|it| it != name) {
            let why = "name in URL does not match name in Binding object";
            return Err(Status::bad_request(why));
        }
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let target = &binding["target"];
        let text = |field: &str| target[field].as_str().unwrap_or_default();
        let (kind, node) = (text("kind"), text("name"));
        let mut causes = Vec::new();
        if !["", "Node"].contains(&kind) {
            let why =
                format!("Unsupported value: {kind:?}: supported values: \"<empty>\", \"Node\"");
            causes.push(Cause::new("target.kind", why));
        }
        if node.is_empty() {
            causes.push(Cause::new("target.name", "Required value"));
        }
        if !causes.is_empty() {
            return Err(Status::failed(each(&causes)));
        }
        let mut bound = Value::clone(&*self.api.object("Pod", namespace, name)?);
        for field in ["resourceVersion", "uid"] {
            if let Some(given) = binding["metadata"][field].as_str() {
                bound["metadata"][field] = given.into();
            }
        }
        for field in ["annotations", "labels"] {
            for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                bound["metadata"][field][key] = value.clone();
            }
        }
        bound["spec"]["nodeName"] = node.into();
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now()});
        let conditions = &mut bound["status"]["conditions"];
        match conditions.as_array_mut() {
            None => *conditions = json!([scheduled]),
            Some(all) => {
                all.retain(|it| it["type"] != scheduled["type"]);
                all.push(scheduled);
            }
        }
        if let Some(status) = bound["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        self.api.store.bind(bound, options.effect)?;
        Ok(with_warnings(created(), &warnings))
    }
}

/// 201, as kube-apiserver answers.
fn created() -> Answer {
    let mut answer = success(&Value::Null);
    *answer.status_mut() = StatusCode::CREATED;
    answer
}
