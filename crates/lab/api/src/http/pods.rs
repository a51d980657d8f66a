//! Subresources of Pods: log, eviction, binding, ephemeral containers.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::Call;
use super::options::Verb;
use super::proxy::OF_PODS;
use super::streams;
use super::writing::{Part as Written, content};
use crate::answer::{Answer, Content, Pieces, success, with_type};
use crate::history::now;
use crate::query::boolean;
use crate::resource::Part;
use crate::status::Status;

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
        answer: |call, method, name| call.post(method)?.bind(name),
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
        answer: |call, method, name| match *method {
            Method::GET => call.read(Some(name)),
            Method::PUT => call.replace(name, Written::Ephemeral),
            Method::PATCH => call.patch(name, Written::Ephemeral),
            _ => Err(Status::method_not_allowed()),
        },
    },
    OF_PODS,
    streams::EXEC,
    streams::ATTACH,
    streams::PORT_FORWARD,
];

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

    /// Assigns the Pod to a node. What the binding has of metadata is added to that of the Pod.
    fn bind(&self, name: &str) -> Result<Answer, Status> {
        let options = self.options(Verb::Create)?;
        let binding = content("Binding", self.content_type, self.body)?;
        let target = &binding["target"];
        let Some(node) = target["name"].as_str().filter(|it| !it.is_empty()) else {
            return Err(Status::bad_request("target.name: Required value"));
        };
        let kind = target["kind"].as_str().unwrap_or_default();
        if !["", "Node"].contains(&kind) {
            return Err(Status::bad_request(format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"<empty>\", \"Node\""
            )));
        }
        let mut bound = Value::clone(&*self.find(name)?);
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
        self.api.store.bind(bound, options.effect)?;
        Ok(created())
    }
}

/// 201, as kube-apiserver answers.
fn created() -> Answer {
    let mut answer = success(&Value::Null);
    *answer.status_mut() = StatusCode::CREATED;
    answer
}
