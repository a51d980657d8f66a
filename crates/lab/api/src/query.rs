//! The parameters of lists and watches, validated as kube-apiserver does.

use std::num::{IntErrorKind, ParseIntError};

use sluice_model::Selector;

use crate::resource::Resource;
use crate::selector::{FieldSelector, Filter};
use crate::status::{Cause, Status};

/// Parameter `resourceVersionMatch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    NotOlderThan,
    Exact,
    /// A value that does not exist.
    Unknown(String),
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
                    let labels = Selector::parse(&value);
                    query.filter.labels = labels.map_err(Status::bad_request)?;
                }
                "fieldSelector" => {
                    let fields = FieldSelector::parse(&value, resource);
                    query.filter.fields = fields.map_err(Status::bad_request)?;
                }
                "resourceVersion" => query.version = Some(version(&value)?),
                "resourceVersionMatch" => query.version_match = Some(Match::of(value.into())),
                "limit" => query.limit = number(&value)? as usize,
                "continue" => query.resume = Some(value.into_owned()),
                "timeoutSeconds" => query.timeout_seconds = Some(number(&value)?),
                _ => {}
            }
        }
        Ok(query)
    }

    /// Refuses a list whose parameters contradict each other (`meta/internalversion/validation`).
    pub(crate) fn check_list(&self) -> Result<(), Status> {
        let mut causes = Vec::new();
        if let Some(given) = &self.version_match {
            causes.extend(
                self.version
                    .is_none()
                    .then(|| forbidden("is forbidden unless resourceVersion is provided")),
            );
            causes.extend(self.without_continue());
            causes.extend(given.unless(&["Exact", "NotOlderThan", ""]));
            let is_any = self.version == Some(0);
            causes.extend(
                (is_any && *given == Match::Exact)
                    .then(|| forbidden("\"exact\" is forbidden for resourceVersion \"0\"")),
            );
        }
        if self.initial_events.is_some() {
            let why = "Forbidden: sendInitialEvents is forbidden for list";
            causes.push(Cause::new("sendInitialEvents", why));
        }
        refuse(&causes)
    }

    /// Refuses a watch whose parameters contradict each other. A server that does not stream lists
    /// refuses `sendInitialEvents`.
    pub(crate) fn check_watch(&self, streaming: Streaming) -> Result<(), Status> {
        let mut causes = Vec::new();
        let wanted = Some(Match::NotOlderThan);
        if self.initial_events.is_some() {
            let why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let wrong = || Cause::new(VERSION_MATCH, why);
            causes.extend((self.version_match != wanted).then(wrong));
            let why = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is \
                       enabled";
            let refused = || Cause::new("sendInitialEvents", why);
            causes.extend((streaming == Streaming::Refused).then(refused));
        }
        if let Some(given) = &self.version_match {
            causes.extend(
                self.initial_events.is_none().then(|| {
                    forbidden("is forbidden for watch unless sendInitialEvents is provided")
                }),
            );
            causes.extend(given.unless(&["NotOlderThan"]));
            causes.extend(self.without_continue());
        }
        refuse(&causes)
    }

    fn without_continue(&self) -> Option<Cause> {
        let resume = self.resume.as_ref();
        resume.map(|_| forbidden("is forbidden when continue is provided"))
    }
}

const VERSION_MATCH: &str = "resourceVersionMatch";

fn forbidden(why: &str) -> Cause {
    let message = format!("Forbidden: {VERSION_MATCH} {why}");
    Cause::new(VERSION_MATCH, message)
}

/// 422 if there are causes.
fn refuse(causes: &[Cause]) -> Result<(), Status> {
    match causes {
        [] => Ok(()),
        causes => Err(Status::invalid_options("ListOptions", causes)),
    }
}

impl Match {
    fn of(value: String) -> Self {
        match value.as_str() {
            "NotOlderThan" => Self::NotOlderThan,
            "Exact" => Self::Exact,
            _ => Self::Unknown(value),
        }
    }

    /// The cause when the value is not among the supported ones.
    fn unless(&self, supported: &[&str]) -> Option<Cause> {
        let given = match self {
            Self::NotOlderThan => "NotOlderThan",
            Self::Exact => "Exact",
            Self::Unknown(given) => given,
        };
        let all: Vec<_> = supported.iter().map(|it| format!("{it:?}")).collect();
        let wrong = || {
            let all = all.join(", ");
            let message = format!("Unsupported value: {given:?}: supported values: {all}");
            Cause::new(VERSION_MATCH, message)
        };
        (!supported.contains(&given)).then(wrong)
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

/// A whole number; negative ones count as 0, which means no limit.
fn number(value: &str) -> Result<u64, Status> {
    let wrong = |it| Status::bad_request(unread("ParseInt", value, &it));
    let number: i64 = value.parse().map_err(wrong)?;
    Ok(number.max(0).cast_unsigned())
}

fn version(value: &str) -> Result<u64, Status> {
    let wrong = |why| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {value:?}: {why}"
        ))
    };
    unsigned(value).map_err(wrong)
}

/// A number as `strconv.ParseUint` reads it. The error is in its words.
pub(crate) fn unsigned(value: &str) -> Result<u64, String> {
    // Go takes no sign.
    let digits = if value.starts_with('+') { "" } else { value };
    digits.parse().map_err(|it| unread("ParseUint", value, &it))
}

/// Why a number is none, in the words of Go's `strconv`.
fn unread(function: &str, value: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {value:?}: {why}")
}
