//! HTTP answers, whole or streamed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, Stream};
use futures::{FutureExt, StreamExt};
use hyper::body::{Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::status::Status;
use crate::yaml;

/// The chunks of a streamed body.
pub type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer.
pub enum Content {
    /// The whole body; `None` after it was sent.
    Whole(Option<Bytes>),
    Pieces(Pieces),
}

/// An answer before it is sent.
pub type Answer = Response<Content>;

impl Content {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

/// 200 with a body of type JSON.
pub fn json_text(body: Content) -> Answer {
    with_type("application/json", body)
}

/// 200 with a JSON value.
pub(crate) fn json_value(value: &Value) -> Answer {
    json_text(Content::whole(value.to_string()))
}

/// The answer as YAML, if it is JSON.
pub(crate) fn yaml(mut answer: Answer) -> Answer {
    let json = HeaderValue::from_static("application/json");
    if answer.headers().get(CONTENT_TYPE) != Some(&json) {
        return answer;
    }
    let yaml = HeaderValue::from_static("application/yaml");
    answer.headers_mut().insert(CONTENT_TYPE, yaml);
    answer.map(|body| match body {
        Content::Whole(bytes) => Content::Whole(bytes.map(|it| yaml::write(&it))),
        Content::Pieces(pieces) => {
            let whole = pieces.collect::<Vec<_>>();
            let whole = whole.map(|it| yaml::write(&it.concat()));
            Content::Pieces(stream::once(whole).boxed())
        }
    })
}

/// 200 with a body of this content type.
pub fn with_type(content_type: &'static str, body: Content) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// 201 with the object that was created.
pub fn created(object: &Value) -> Answer {
    let mut answer = json_value(object);
    *answer.status_mut() = StatusCode::CREATED;
    answer
}

/// 200 with a `Status` of a success.
pub(crate) fn success(details: &Value) -> Answer {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if !details.is_null() {
        status["details"] = details.clone();
    }
    json_value(&status)
}

/// The answer that carries a `Status`, with its code and `Retry-After`.
pub fn refuse(status: &Status) -> Answer {
    let mut answer = json_value(&status.body());
    *answer.status_mut() = status.code;
    if let Some(seconds) = status.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// The answer to `/version`: the Kubernetes version whose behaviour is served. Commit and date are those of a build of
/// Kubernetes without stamps (`component-base/version/base.go`).
pub fn version() -> Answer {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json_value(&json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.0",
        "gitCommit": "$Format:%H$",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{arch}", std::env::consts::OS),
    }))
}

/// The checks of the server, which are passed by whoever answers.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// The answer to `/healthz`, `/livez`, `/readyz` and to their checks, `/livez/ping` (`handleRootHealth` in
/// `apiserver/pkg/server/healthz`).
///
/// # Errors
///
/// 404: there is no such check.
pub fn health(path: &str, query: &str) -> Result<Answer, Status> {
    let (name, check) = match path.trim_start_matches('/').split_once('/') {
        Some((name, check)) => (name, Some(check)),
        None => (path.trim_start_matches('/'), None),
    };
    let given = |wanted: &str| {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let found = pairs.filter(|(name, _)| name == wanted);
        found
            .map(|(_, value)| value.into_owned())
            .collect::<BTreeSet<_>>()
    };
    let said = match check {
        Some(check) if !CHECKS.contains(&check) => return Err(Status::no_resource()),
        None if !given("verbose").is_empty() => {
            let excluded = given("exclude");
            let mut lines = CHECKS
                .map(|it| {
                    let excluded = if excluded.contains(it) {
                        " excluded:"
                    } else {
                        ""
                    };
                    format!("[+]{it}{excluded} ok\n")
                })
                .concat();
            let unknown = excluded.iter().filter(|it| !CHECKS.contains(&it.as_str()));
            let unknown: Vec<_> = unknown.map(|it| format!("{it:?}")).collect();
            if !unknown.is_empty() {
                let unknown = unknown.join(", ");
                lines += &format!(
                    "warn: some health checks cannot be excluded: no matches for {unknown}\n"
                );
            }
            lines + &format!("{name} check passed\n")
        }
        _ => "ok".to_owned(),
    };
    Ok(with_type("text/plain; charset=utf-8", Content::whole(said)))
}

impl hyper::body::Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|it| Ok(Frame::data(it)))),
            Self::Pieces(pieces) => {
                let piece = pieces.as_mut().poll_next(context);
                piece.map(|it| it.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64))
            }
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}
