//! What only Pods have: logs, eviction, binding.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::Call;
use super::writing::Part;
use crate::answer::{Answer, Content, Pieces, json_value, with_type};
use crate::query::boolean;
use crate::status::Status;

/// Where the logs of Pods come from.
pub trait Logs: Send + Sync {
    /// The lines of one container.
    ///
    /// # Errors
    ///
    /// The Pod has no such container, or it did not start yet (400).
    fn read(&self, pod: &Value, options: &LogOptions) -> Result<Pieces, Status>;
}

/// `PodLogOptions` of `core/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `None` for the only one.
    pub container: Option<String>,
    /// The stream goes on with new lines.
    pub follow: bool,
    /// Of the container that ran before.
    pub previous: bool,
    /// Every line begins with its time.
    pub timestamps: bool,
    /// So many lines at most; `None` for all.
    pub tail_lines: Option<u64>,
    /// Lines of so many seconds; `None` for all.
    pub since_seconds: Option<u64>,
    /// Lines after this time; `None` for all.
    pub since_time: Option<String>,
}

impl Call<'_> {
    pub(super) fn log(&self, name: &str) -> Result<Answer, Status> {
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

    /// Deletes the Pod, as there is no budget of disruptions.
    pub(super) fn evict(&self, name: &str) -> Result<Answer, Status> {
        let eviction = self.content()?;
        let options = self.delete_options(&eviction["deleteOptions"])?;
        let key = self.key(name);
        self.api.store.delete_of(self.resource, &key, &options)?;
        Ok(success())
    }

    /// Puts the Pod on a node.
    pub(super) fn bind(&self, name: &str) -> Result<Answer, Status> {
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
            return Err(Status::conflict(self.resource, name, why));
        }
        let mut bound = Value::clone(&pod);
        bound["spec"]["nodeName"] = node.into();
        self.store(&pod, bound, Part::Whole, &self.options()?)?;
        Ok(success())
    }
}

fn success() -> Answer {
    let mut answer = json_value(&json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }));
    *answer.status_mut() = StatusCode::CREATED;
    answer
}
