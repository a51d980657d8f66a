//! The pages below `/debug/`, served while profiling is on.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::answer::{plain, query};
use super::profile;

/// Most bytes of a request that sets the verbosity.
const LARGEST_VERBOSITY: usize = 64;
/// Timeout of the body of that request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Duration in seconds of a profile whose request names none, as in Go.
const PROFILE_SECONDS: u64 = 30;
/// Longest duration of a profile in seconds.
const LONGEST_PROFILE_SECONDS: u64 = 120;

/// The page `/debug/pprof/`.
const INDEX: &str = "\
/debug/pprof/

profile  CPU profile for `go tool pprof`; ?seconds=N, 30 by default
cmdline  the command line, its words separated by NUL
";

/// Sets the verbosity. The error tells why the text is no verbosity.
pub type SetVerbosity = fn(&str) -> Result<(), String>;

struct Shared {
    set_verbosity: SetVerbosity,
    /// Locked during a profile: a process has one profiling timer.
    timer: Mutex<()>,
}

pub(super) fn routes(set_verbosity: SetVerbosity) -> Router {
    let shared = Shared {
        set_verbosity,
        timer: Mutex::new(()),
    };
    Router::new()
        .route("/debug/pprof/", get(async || plain(StatusCode::OK, INDEX)))
        .route("/debug/pprof/cmdline", get(command_line))
        .route("/debug/pprof/profile", get(cpu_profile))
        .route("/debug/flags/v", put(put_verbosity))
        .layer(DefaultBodyLimit::max(LARGEST_VERBOSITY))
        .with_state(Arc::new(shared))
}

async fn command_line() -> Response {
    let words: Vec<_> = env::args_os().collect();
    let words: Vec<&[u8]> = words.iter().map(|it| it.as_bytes()).collect();
    plain(
        StatusCode::OK,
        String::from_utf8_lossy(&words.join(&0)).into_owned(),
    )
}

async fn cpu_profile(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let seconds = match query(&uri).get("seconds").map(|it| it.parse()) {
        None => PROFILE_SECONDS,
        Some(Ok(seconds @ 1..=LONGEST_PROFILE_SECONDS)) => seconds,
        Some(_) => {
            let range = format!("seconds must be from 1 to {LONGEST_PROFILE_SECONDS}\n");
            return plain(StatusCode::BAD_REQUEST, range);
        }
    };
    let Ok(_locked) = shared.timer.try_lock() else {
        let why = "another profile is being taken\n";
        return plain(StatusCode::INTERNAL_SERVER_ERROR, why);
    };
    match profile::record(Duration::from_secs(seconds)).await {
        Ok(profile) => {
            let head = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"profile\"",
                ),
            ];
            (head, profile).into_response()
        }
        Err(problem) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n")),
    }
}

async fn put_verbosity(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let body = match timeout(BODY_TIMEOUT, String::from_request(request, &())).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refused.into_response(),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body is not complete\n"),
    };
    let text = body.trim();
    match (shared.set_verbosity)(text) {
        Ok(()) => plain(StatusCode::OK, format!("successfully set v to {text}\n")),
        Err(problem) => plain(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}
