//! Subresources of Pods: log, eviction, binding.

use hyper::{Method, StatusCode};
use serde_json::Value;

use super::Call;
use super::options::Verb;
use super::proxy::OF_PODS;
use super::streams;
use super::writing::Part as Written;
use crate::answer::{Answer, Content, Pieces, success, with_type};
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
        let eviction = self.content()?;
        let options = self.delete_options(&eviction["deleteOptions"])?;
        let key = self.key(name);
        self.api.store.delete_of(&self.resource, &key, &options)?;
        Ok(created())
    }

    /// Assigns the Pod to a node.
    fn bind(&self, name: &str) -> Result<Answer, Status> {
        let binding = self.content()?;
        let Some(node) = binding["target"]["name"].as_str() else {
            return Err(Status::bad_request("target.name is missing"));
        };
        let pod = self.find(name)?;
        if pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|it| !it.is_empty())
        {
            let why = "the pod is already assigned to a node";
            return Err(Status::conflict(&self.resource, name, why));
        }
        let mut bound = Value::clone(&pod);
        bound["spec"]["nodeName"] = node.into();
        self.store(&pod, bound, Written::Whole, &self.options(Verb::Create)?)?;
        Ok(created())
    }
}

/// 201, as kube-apiserver answers.
fn created() -> Answer {
    let mut answer = success(&Value::Null);
    *answer.status_mut() = StatusCode::CREATED;
    answer
}
