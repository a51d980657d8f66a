//! `/statusz` and `/flagz` as the components of Kubernetes 1.36 answer them (KEP-4827, KEP-4828,
//! `component-base/zpages`): text for people, and an object for programs that ask for it.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::plain;
use super::metrics::Shared;

/// The release of Kubernetes whose kube-proxy Sluice takes the place of.
const EMULATED: &str = "1.36";
const GROUP: &str = "config.k8s.io";
const VERSION: &str = "v1beta1";

/// The pages of the metrics server that `/statusz` names.
const PATHS: [&str; 6] = [
    "/configz",
    "/flagz",
    "/healthz",
    "/metrics",
    "/proxyMode",
    "/statusz",
];

pub(super) async fn flagz(State(pages): Shared, headers: HeaderMap) -> Response {
    let flags = &pages.server.flags;
    answer(&headers, "Flagz", json!({ "flags": flags }), || {
        let lines = flags
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        format!("{}{}", heading("flags"), lines.collect::<String>())
    })
}

pub(super) async fn statusz(State(pages): Shared, headers: HeaderMap) -> Response {
    let (started, version) = (pages.started, &pages.server.version);
    let up = Timestamp::now().as_second() - started.as_second();
    let debug = pages.server.set_verbosity.is_some().then_some("/debug");
    let paths: Vec<&str> = debug.into_iter().chain(PATHS).collect();
    let object = json!({
        "startTime": Timestamp::from_second(started.as_second()).unwrap_or(started).to_string(),
        "uptimeSeconds": up,
        "binaryVersion": version,
        "emulationVersion": EMULATED,
        "paths": paths,
    });
    answer(&headers, "Statusz", object, || {
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        format!(
            "{}Started: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version: {version}\nEmulation version: {EMULATED}\nPaths: {}\n",
            heading("statusz"),
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            paths.join(" "),
        )
    })
}

/// The form of a page that a request accepts.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Text,
    Object,
}

/// `None`: neither. Kubernetes has no JSON without group, version and kind.
fn accepted(accept: Option<&str>, kind: &str) -> Option<Form> {
    let Some(accept) = accept else {
        return Some(Form::Text);
    };
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut parameters: Vec<&str> = parts.filter(|it| !it.starts_with("q=")).collect();
        parameters.sort_unstable();
        match media {
            "text/plain" | "text/*" | "*/*" => {
                let is_utf8 = |it: &&str| it.eq_ignore_ascii_case("charset=utf-8");
                parameters.iter().all(is_utf8).then_some(Form::Text)
            }
            "application/json" => {
                let wanted = [
                    format!("as={kind}"),
                    format!("g={GROUP}"),
                    format!("v={VERSION}"),
                ];
                (parameters == wanted).then_some(Form::Object)
            }
            _ => None,
        }
    })
}

fn answer(
    headers: &HeaderMap,
    kind: &'static str,
    mut object: Value,
    text: impl FnOnce() -> String,
) -> Response {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.map(|it| it.to_str().unwrap_or_default());
    match accepted(accept, kind) {
        Some(Form::Text) => plain(StatusCode::OK, text()),
        Some(Form::Object) => {
            object["kind"] = kind.into();
            object["apiVersion"] = format!("{GROUP}/{VERSION}").into();
            object["metadata"] = json!({ "name": "sluice" });
            json_page(&object)
        }
        None => plain(
            StatusCode::NOT_ACCEPTABLE,
            format!(
                "media type not acceptable, must be text/plain or \
                 application/json;g={GROUP};v={VERSION};as={kind}\n"
            ),
        ),
    }
}

/// JSON that no browser interprets as another type.
pub(super) fn json_page(value: &Value) -> Response {
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (nosniff, axum::Json(value)).into_response()
}

/// The head of Kubernetes' pages for people.
fn heading(page: &str) -> String {
    format!(
        "\nsluice {page}\nWarning: This endpoint is not meant to be machine parseable, has no \
         formatting compatibility guarantees and is for debugging purposes only.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_accept_header() {
        let cases = [
            (None, Some(Form::Text)),
            (Some("*/*"), Some(Form::Text)),
            (Some("text/plain; charset=UTF-8"), Some(Form::Text)),
            (Some("text/html, */*;q=0.8"), Some(Form::Text)),
            (Some("text/plain; charset=latin1"), None),
            (
                Some("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"),
                Some(Form::Object),
            ),
            (
                Some("application/json;v=v1beta1;g=config.k8s.io;as=Flagz"),
                None,
            ),
            (Some("application/json"), None),
            (Some(""), None),
        ];
        for (accept, expected) in cases {
            assert_eq!(accepted(accept, "Statusz"), expected, "{accept:?}");
        }
    }
}
