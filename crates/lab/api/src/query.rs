//! The parameters of lists and watches, validated as kube-apiserver does.

use sluice_model::{BadSelector, Selector};

use crate::resource::Resource;
use crate::selector::{FieldSelector, Filter};
use crate::status::Status;

/// Parameter `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    NotOlderThan,
    Exact,
}

/// `ListOptions` of the API conventions.
#[derive(Debug, Default)]
pub struct Query {
    /// Whether this is a watch.
    pub watch: bool,
    /// The selectors, the namespace and the name.
    pub filter: Filter,
    /// Parameter `resourceVersion`: 0 means any version.
    pub version: Option<u64>,
    pub version_match: Option<Match>,
    /// Most objects of a page; 0 means all.
    pub limit: usize,
    /// The continue token of the previous page.
    pub resume: Option<String>,
    /// Whether the watch may send bookmarks.
    pub bookmarks: bool,
    pub initial_events: Option<bool>,
    /// The duration of a watch; `None`: the server chooses.
    pub timeout_seconds: Option<u64>,
}

/// The first value of a parameter in a query string.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let found = pairs.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

impl Query {
    /// Reads the query string. Unknown parameters are ignored, as kube-apiserver does.
    ///
    /// # Errors
    ///
    /// A selector or number cannot be read.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, Status> {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "watch" => query.watch = boolean(&value),
                "allowWatchBookmarks" => query.bookmarks = boolean(&value),
                "sendInitialEvents" => query.initial_events = Some(boolean(&value)),
                _ if value.is_empty() => {}
                "labelSelector" => {
                    let labels = Selector::parse(&value).map_err(|it| {
                        let BadSelector { requirement, why } = it;
                        Status::bad_request(format!(
                            "unable to parse requirement: {requirement:?}: {why}"
                        ))
                    });
                    query.filter.labels = labels?;
                }
                "fieldSelector" => {
                    let fields = FieldSelector::parse(&value, resource);
                    query.filter.fields = fields.map_err(Status::bad_request)?;
                }
                "resourceVersion" => query.version = Some(number(&name, &value)?),
                "resourceVersionMatch" => query.version_match = Some(version_match(&value)?),
                "limit" => query.limit = number(&name, &value)? as usize,
                "continue" => query.resume = Some(value.into_owned()),
                "timeoutSeconds" => query.timeout_seconds = Some(number(&name, &value)?),
                _ => {}
            }
        }
        Ok(query)
    }

    /// Refuses a list whose parameters contradict each other.
    pub(crate) fn check_list(&self) -> Result<(), Status> {
        let forbid = |field, why| Err(Status::invalid_options(field, &format!("Forbidden: {why}")));
        let field = "resourceVersionMatch";
        if self.initial_events.is_some() {
            let field = "sendInitialEvents";
            return forbid(field, "sendInitialEvents is forbidden for list");
        }
        match self.version_match {
            None => Ok(()),
            Some(_) if self.version.is_none() => {
                forbid(field, "it needs a resourceVersion to be matched")
            }
            Some(_) if self.resume.is_some() => forbid(field, "it cannot be used with continue"),
            Some(Match::Exact) if self.version == Some(0) => {
                forbid(field, "version 0 cannot be matched exactly")
            }
            Some(_) => Ok(()),
        }
    }

    /// Refuses a watch whose parameters contradict each other. A server that does not stream lists
    /// refuses `sendInitialEvents`.
    pub(crate) fn check_watch(&self, streaming: Streaming) -> Result<(), Status> {
        let forbid = |field, why| Err(Status::invalid_options(field, &format!("Forbidden: {why}")));
        match (self.initial_events, self.version_match) {
            _ if self.resume.is_some() => forbid("continue", "continue is forbidden for watch"),
            (None, None) => Ok(()),
            (None, Some(_)) => forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (Some(_), _) if streaming == Streaming::Refused => forbid(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is \
                 enabled",
            ),
            (Some(_), Some(Match::NotOlderThan)) => Ok(()),
            (Some(_), _) => forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
        }
    }
}

/// How the server treats `sendInitialEvents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// Streams lists through watches (default since Kubernetes 1.34).
    Served,
    /// Refuses it with 422, as servers with the gate `WatchList` off.
    Refused,
    /// Ignores it, as servers before Kubernetes 1.27 do.
    Overlooked,
}

/// Reads a boolean parameter: anything but `0` and `false` is true, as in apimachinery.
pub fn boolean(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn number(name: &str, value: &str) -> Result<u64, Status> {
    let wrong = |_| Status::bad_request(format!("{name}: Invalid value: {value:?}"));
    value.parse().map_err(wrong)
}

fn version_match(value: &str) -> Result<Match, Status> {
    match value {
        "NotOlderThan" => Ok(Match::NotOlderThan),
        "Exact" => Ok(Match::Exact),
        _ => Err(Status::invalid_options(
            "resourceVersionMatch",
            &format!("Unsupported value: {value:?}"),
        )),
    }
}
