//! `sluice lab web`: the lab as a web page.
//!
//! ```text
//! web: listens on the machine ─▶ pages, a process of the lab on its LAN:
//!                                  /                    the lab's page
//!                                  /api/lab, /api/way   from the objects of the lab's API
//!                                  /nodes/NAME/         the agent's page
//!                                  /nodes/NAME/api/…    passed on to the agent, in the node's namespace
//! ```
//!
//! The kernel ends `pages` with the lab. Of the machine's network it has only the socket that `web` made.

mod listening;
mod nodes;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sluice_cluster::client::Client;
use sluice_cluster::enter::{self, Inside};
use sluice_cluster::lab_dir::LabDir;
use sluice_cluster::launch::Program;
use sluice_cluster::names::{LAN, netns_name};
use sluice_http::{Budget, Own};
use sluice_model::NamespacedName;
use sluice_node::{Page, Token, WebServer, chain, guarded};

use super::draw::{View, asked};
use super::{Host, machines};
use crate::args::WebArgs;
use crate::output::say;
use listening::Listening;

/// The variable with the token for the process in the lab: it may not see the file, because the lab has a `/run` of
/// its own.
const TOKEN: &str = "SLUICE_WEB_TOKEN";

/// Serves until Ctrl-C or the lab's end.
pub(super) fn run(args: &WebArgs, host: Host) -> anyhow::Result<ExitCode> {
    let lab_dir = LabDir::of(&args.lab.name)?;
    let server = (host.web_server)(args.web_bind_address, args.web_token_file.clone())?;
    let listener = TcpListener::bind(sluice_http::widened(server.address));
    let listener = listener.with_context(|| format!("listen on {}", server.address))?;
    let address = listener.local_addr()?;
    let path = std::env::current_exe().context("find the path of this program")?;
    let lab = Program {
        path: &path,
        lab_dir: &lab_dir,
    };
    let lan = Inside {
        netns: netns_name(LAN),
        hostname: lab_dir.name().to_owned(),
        ..Inside::default()
    };
    let mut command = lan.command(lab, &path);
    command.args(["lab", "pages", "--name", lab_dir.name()]);
    command.stdin(OwnedFd::from(listener));
    if let Some(token) = &server.token {
        command.env(TOKEN, token.secret());
    }
    if lab_dir.init().is_some() {
        say!(
            "lab {} is at http://{address}/ (Ctrl-C ends it)",
            lab_dir.name()
        );
    }
    let status = enter::run(&lab_dir, &lan, &mut command)?;
    match status.signal() {
        Some(signal) if signal == Signal::SIGKILL as i32 => bail!("lab {} ended", lab_dir.name()),
        _ => Ok(machines::code(status)),
    }
}

/// The state of all requests.
struct Lab {
    name: String,
    /// The data plane of nodes that name none.
    mode: String,
    client: Client,
    host: Host,
}

impl Lab {
    fn view(&self) -> anyhow::Result<View> {
        View::read(&self.client, self.mode.clone(), self.host)
    }
}

/// The usual limit of a process: 256 connections to the page from other machines, 32 of them from one.
const DESCRIPTORS: usize = 1024;

type Shared = State<Arc<Lab>>;

/// Serves on the socket of stdin, in the lab; `sluice lab pages`.
pub(super) fn serve(lab_dir: &LabDir, host: Host) -> anyhow::Result<()> {
    // `sluice lab web` may be killed: this process must end with it.
    set_pdeathsig(Signal::SIGTERM).context("follow the process outside")?;
    let listener = TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let token = std::env::var(TOKEN).ok();
    let token = token.map(|it| Token::new(&it).map_err(|why| anyhow!("the token {why}")));
    let config = WebServer {
        address: listener.local_addr()?,
        token: token.transpose()?,
    };
    let lab = Lab {
        name: lab_dir.name().to_owned(),
        mode: lab_dir.settings()?.mode,
        client: Client::on_lan(lab_dir)?,
        host,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let budget = Budget::new(DESCRIPTORS, Own::default(), Arc::new(()));
        sluice_http::serve(listener, routes(config, lab), budget).await;
        Ok(())
    })
}

fn routes(server: WebServer, lab: Lab) -> Router {
    let page = Page::new(
        "lab",
        sluice_picture::STYLE,
        include_str!("web/page/body.html"),
        concat!(
            include_str!("web/page/way.js"),
            include_str!("web/page/lab.js")
        ),
    );
    let of_agent = sluice_agent::page();
    let pages = Router::new()
        .route("/", get(async move || page.answer()))
        .route("/nodes/{node}/", get(async move || of_agent.answer()));
    let data = Router::new()
        .route("/api/lab", get(whole))
        .route("/api/way", get(way))
        .route("/nodes/{node}/api/{*path}", get(nodes::ask_agent))
        .with_state(Arc::new(lab));
    guarded(server, pages, data)
}

#[derive(Deserialize)]
struct Width {
    width: u32,
}

/// The whole lab, and its picture in a width.
async fn whole(State(lab): Shared, headers: HeaderMap, Query(asked): Query<Width>) -> Response {
    let answer = blocking(lab, move |lab| {
        let view = lab.view()?;
        let listening = Listening::of(&view.pods());
        let topology = view.topology(|it| listening.refuses(it))?;
        let drawing = topology.drawing(asked.width.min(4000));
        Ok(json!({"name": lab.name, "mode": lab.mode, "topology": topology, "drawing": drawing}))
    });
    unless_known(&headers, answer.await)
}

/// A question about one Service.
#[derive(Deserialize)]
struct Asked {
    /// `namespace/name`.
    service: String,
    from: String,
    /// Empty for none.
    #[serde(default)]
    via: String,
    #[serde(default)]
    port: String,
    /// The width of the picture.
    width: u32,
}

async fn way(State(lab): Shared, headers: HeaderMap, Query(question): Query<Asked>) -> Response {
    let answer = blocking(lab, move |lab| {
        let width = question.width.min(4000);
        let (namespace, name) = question.service.split_once('/').unwrap_or_default();
        let given = |it: String| Some(it).filter(|it| !it.is_empty());
        let service = NamespacedName::new(namespace, name);
        let question = asked(
            service,
            given(question.port),
            &question.from,
            given(question.via),
        );
        let view = lab.view()?;
        let listening = Listening::of(&view.pods());
        let way = view.way(&question)?.refused(|it| listening.refuses(it));
        let drawing = way.drawing(width);
        Ok(json!({"way": way, "drawing": drawing}))
    });
    unless_known(&headers, answer.await)
}

/// Runs on a thread that may block, as requests to the API do.
async fn blocking<T: Send + 'static>(
    lab: Arc<Lab>,
    answer: impl FnOnce(&Lab) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(move || answer(&lab)).await?
}

/// JSON with its tag (RFC 9110, section 8.8.3), or nothing for a client that knows the tag.
fn unless_known<T: Serialize>(headers: &HeaderMap, answer: anyhow::Result<T>) -> Response {
    let text = match answer.and_then(|it| Ok(serde_json::to_string(&it)?)) {
        Ok(text) => text,
        Err(error) => {
            let why = chain(error.as_ref()) + "\n";
            return (StatusCode::BAD_REQUEST, why).into_response();
        }
    };
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:x}\"", hasher.finish());
    if headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|it| *it == *tag)
    {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let fields = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::ETAG, tag),
    ];
    (fields, text).into_response()
}
