//! Requests and answers: one connection pool that is made anew when credentials may have changed.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt as _};
use serde::Deserialize;
use sluice_yaml::escaped;
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};

use super::access::{Client, chain};
use super::observe::{Observe, Observed};
use super::proxy::{proxy, tunnel};

/// A dead peer is noticed after this much silence and these probes: 15 + 3 * 10 seconds, as
/// client-go does with HTTP/2 pings.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// For a connection to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// Credentials older than this are read again after a failure.
const OLD: Duration = Duration::from_secs(60);

/// The longest explanation of an error that is read.
const MAX_STATUS: usize = 64 << 10;

/// Whether a request counts against the limit of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It waits for its turn.
    Limited,
    /// A watch: it goes out at once, as in client-go.
    Free,
}

/// What came instead of a good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer, or one that broke off: what happened.
    Unreachable(String),
    /// An answer that makes no sense.
    Garbage(String),
    /// The server said no.
    Refused(Refusal),
}

/// A status of the API server that is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    /// For a person.
    pub(super) message: String,
    /// The server has not seen the version yet that was asked for.
    pub(super) is_too_new: bool,
    pub(super) retry_after: Option<Duration>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(why) => f.write_str(why),
            Self::Garbage(why) => write!(f, "the server sent garbage: {why}"),
            Self::Refused(it) => write!(f, "the server answered {}: {}", it.code, it.message),
        }
    }
}

/// `Status` (meta/v1), in the body of an answer or as the object of an ERROR event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    code: Option<u16>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
}

impl Status {
    /// What it says; `code` counts where it says none.
    pub(super) fn refusal(self, code: u16) -> Refusal {
        let message = self.message.unwrap_or_default();
        let details = self.details.unwrap_or_default();
        let mut causes = details.causes.into_iter().flatten();
        // client-go knows it by cause, older servers only say it (`apimachinery/pkg/api/errors`).
        let by_cause = causes.any(|it| it.reason.as_deref() == Some("ResourceVersionTooLarge"));
        Refusal {
            code: self.code.filter(|it| *it > 0).unwrap_or(code),
            is_too_new: by_cause || message.contains("Too large resource version"),
            message: escaped(&message),
            retry_after: details.retry_after_seconds.map(Duration::from_secs),
        }
    }
}

/// The body of a good answer, piece by piece.
pub(super) struct Answer(Body);

impl Answer {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        while let Some(frame) = self.0.frame().await {
            let frame = frame.map_err(|it| Failure::Unreachable(chain(&it)))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Talks to the API server. Lives in one runtime.
pub(super) struct Http {
    client: Client,
    observer: Arc<dyn Observe>,
    opened: RefCell<Option<Opened>>,
    /// One opens, the others wait for it: a plugin is run once, not four times.
    opening: tokio::sync::Mutex<()>,
}

/// A connection pool and its credentials.
struct Opened {
    client: kube::Client,
    since: Instant,
    /// They may have been replaced since.
    is_doubted: bool,
}

impl Http {
    pub(super) fn new(client: Client, observer: Arc<dyn Observe>) -> Self {
        Self {
            client,
            observer,
            opened: RefCell::new(None),
            opening: tokio::sync::Mutex::new(()),
        }
    }

    /// Sends a request and waits for the head of the answer, `patience` at most.
    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
        (pace, patience): (Pace, Duration),
    ) -> Result<Answer, Failure> {
        if pace == Pace::Limited {
            self.turn().await;
        }
        let request = request
            .header(USER_AGENT, &self.client.access.user_agent)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|it| Failure::Unreachable(chain(&it)))?;
        let (method, start) = (request.method().clone(), Instant::now());
        let answered = timeout(patience, self.exchange(request)).await;
        let answered = answered.unwrap_or_else(|_| {
            let patience = patience.as_secs();
            Err(Failure::Unreachable(format!("no answer for {patience} s")))
        });
        self.observer.request(Observed {
            method: method.as_str(),
            host: &self.client.host,
            code: answered.as_ref().ok().map(|it| it.status().as_u16()),
            took: start.elapsed(),
        });
        let outcome = match answered {
            Ok(response) if response.status().is_success() => Ok(Answer(response.into_body())),
            Ok(response) => Err(Failure::Refused(refused(response, patience).await)),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &outcome {
            self.doubt_credentials(failure);
        }
        outcome
    }

    async fn turn(&self) {
        let wait = match self.client.bucket.lock() {
            Ok(mut bucket) => bucket.as_mut().map(|it| it.turn(Instant::now())),
            Err(_) => None,
        };
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let client = self.client().await?;
        let answered = client.send(request).await;
        answered.map_err(|error| Failure::Unreachable(chain(&error)))
    }

    async fn client(&self) -> Result<kube::Client, Failure> {
        let opened = |is_wanted: fn(&Opened) -> bool| {
            let opened = self.opened.borrow();
            let opened = opened.as_ref().filter(|it| is_wanted(it));
            opened.map(|it| it.client.clone())
        };
        if let Some(client) = opened(|it| !it.is_doubted) {
            return Ok(client);
        }
        let _turn = self.opening.lock().await;
        if let Some(client) = opened(|it| !it.is_doubted) {
            return Ok(client);
        }
        let client = match (self.open().await, opened(|_| true)) {
            (Ok(client), _) => client,
            // A file that is being replaced must not cost us what still works.
            (Err(error), Some(old)) => {
                let error = chain(&*error);
                tracing::debug!(error, "credentials cannot be read again: the old ones stay");
                old
            }
            (Err(error), None) => return Err(Failure::Unreachable(chain(&*error))),
        };
        *self.opened.borrow_mut() = Some(Opened {
            client: client.clone(),
            since: Instant::now(),
            is_doubted: false,
        });
        Ok(client)
    }

    /// After some failures everything is read anew: certificates and tokens are replaced while
    /// we run, and a plugin may know a new one.
    fn doubt_credentials(&self, failure: &Failure) {
        if let Some(opened) = self.opened.borrow_mut().as_mut() {
            opened.is_doubted |= match failure {
                Failure::Refused(it) => it.code == 401,
                _ => opened.since.elapsed() > OLD,
            };
        }
    }

    /// Reads the credentials and makes a connection pool; connects to nothing yet.
    pub(super) async fn open(&self) -> Result<kube::Client, BoxError> {
        let config = self.client.access.config().await?;
        // It may run a plugin and wait for it: the watches must not.
        tokio::task::spawn_blocking(move || pool(&config)).await?
    }
}

fn pool(config: &Config) -> Result<kube::Client, BoxError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    let (server, explicit) = (&config.cluster_url, config.proxy_url.as_ref());
    match proxy(server, explicit, &Matcher::from_env())? {
        Some(proxy) => pool_over(config, tunnel(&proxy, tcp)),
        None => pool_over(config, tcp),
    }
}

fn pool_over<C>(config: &Config, connector: C) -> Result<kube::Client, BoxError>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin,
    C::Future: Send,
    C::Error: Into<BoxError>,
{
    let tls = config.rustls_https_connector_with_connector(connector)?;
    let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(kube::Client::new(service, "default"))
}

async fn refused(response: Response<Body>, patience: Duration) -> Refusal {
    let code = response.status().as_u16();
    let header = response.headers().get(RETRY_AFTER);
    let header = header.and_then(|it| it.to_str().ok()?.parse().ok());
    let header = header.map(Duration::from_secs);
    let (mut answer, mut text) = (Answer(response.into_body()), Vec::new());
    let read = async {
        while let Ok(Some(piece)) = answer.next().await {
            text.extend_from_slice(&piece);
            if text.len() > MAX_STATUS {
                break;
            }
        }
    };
    // What has come by then has to do.
    let _ = timeout(patience, read).await;
    let status: Status = serde_json::from_slice(&text).unwrap_or_else(|_| Status {
        message: Some(String::from_utf8_lossy(&text).chars().take(200).collect()),
        ..Status::default()
    });
    let refusal = status.refusal(code);
    Refusal {
        code,
        retry_after: header.or(refusal.retry_after),
        ..refusal
    }
}
