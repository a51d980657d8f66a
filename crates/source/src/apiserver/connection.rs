//! Requests and answers: one connection pool that is made anew when credentials may have changed.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connection as Connected, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt as _};
use kube::core::Status;
use sluice_model::ApiRequest;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};
use tower_http::timeout::TimeoutBody;

use super::Observer;
use super::access::{Access, Client};
use super::causes::chain;
use super::failure::Failure;
use super::proxy::{proxy, tunnel};
use super::trust;

/// TCP notices a dead server after 15 + 3 * 10 seconds without a byte. One whose TCP goes on answering is noticed by
/// [`Timeouts::silence`](super::Timeouts::silence).
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Timeout for a TCP connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Credentials older than this are read again after a failure.
const OLD: Duration = Duration::from_secs(60);

/// The longest body of a refusal that is read, in bytes.
const MAX_STATUS: usize = 64 << 10;

/// One user of the API server: all its requests, and the credentials they carry.
///
/// A [`tower::Service`], so that kube's client can use it. It adds what kube's own layers do not
/// have: the limit of requests a second, a timeout for each answer, credentials that are read
/// again, and a report of every request to the [`Observer`]. An answer that is no success is a
/// [`Failure`].
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    client: Client,
    observer: Observer,
    /// Timeout for the head of an answer, and for the next bytes of a list.
    timeout: Duration,
    /// Locked while credentials are read: a plugin is run once, not once for each kind.
    opened: Mutex<Option<Opened>>,
    answered: Notify,
}

/// A connection pool and its credentials.
struct Opened {
    client: kube::Client,
    since: Instant,
    /// The files of the credentials may have been replaced since they were read.
    is_old: bool,
}

impl Connection {
    pub(super) fn new(client: Client, observer: Observer, timeout: Duration) -> Self {
        Self(Arc::new(Inner {
            client,
            observer,
            timeout,
            opened: Mutex::new(None),
            answered: Notify::new(),
        }))
    }

    /// kube's client over this connection. Only inside the runtime that will use it.
    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Waits for the next answer to any request, whatever its status.
    pub(super) fn answered(&self) -> impl Future<Output = ()> {
        self.0.answered.notified()
    }

    /// Sends a request and waits for the head of the answer.
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, Failure> {
        let this = &*self.0;
        let is_watch = is_watch(&request);
        let waited = (!is_watch).then(|| this.turn());
        if let Some(waited) = waited {
            tokio::time::sleep(waited).await;
        }
        let (method, start) = (request.method().clone(), Instant::now());
        let sent = request.body().size_hint().exact();
        let answered = timeout(this.timeout, self.exchange(request)).await;
        let answered = answered.unwrap_or_else(|_| {
            let seconds = this.timeout.as_secs_f64();
            Err(Failure::Unanswered(format!("nothing for {seconds} s")))
        });
        let answered = answered.map_err(|it| it.at(&this.client.host));
        let observation = Observation {
            connection: self.0.clone(),
            method,
            code: answered.as_ref().ok().map(|it| it.status().as_u16()),
            elapsed: start.elapsed(),
            waited,
            sent,
            received: None,
        };
        let answered = answered.map(|response| {
            // A watch is observed now: its body may last for ever.
            let observation = Some(observation).filter(|_| !is_watch);
            response.map(|body| counted(body, observation))
        });
        if answered.is_ok() {
            this.answered.notify_waiters();
        }
        let outcome = match answered {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(refused(response, this.timeout).await),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &outcome {
            this.suspect_credentials(failure).await;
        }
        outcome
    }

    async fn exchange(&self, mut request: Request<Body>) -> Result<Response<Body>, Failure> {
        let headers = request.headers_mut();
        let agent = HeaderValue::from_str(&self.0.client.access.user_agent);
        headers.insert(USER_AGENT, agent.map_err(|it| Failure::Broken(chain(&it)))?);
        let json = HeaderValue::from_static("application/json");
        headers.insert(ACCEPT, json.clone());
        headers.insert(CONTENT_TYPE, json);
        let pool = self.pool().await?;
        let answered = pool.send(request).await;
        answered.map_err(|error| Failure::of_connection(&error))
    }

    /// The connection pool, made anew when the credentials may have been replaced.
    async fn pool(&self) -> Result<kube::Client, Failure> {
        let mut opened = self.0.opened.lock().await;
        if let Some(current) = opened.as_ref().filter(|it| !it.is_old) {
            return Ok(current.client.clone());
        }
        let client = match (open(&self.0.client.access).await, &*opened) {
            (Ok(client), _) => client,
            // A file that is being replaced must not end a connection that works.
            (Err(error), Some(old)) => {
                let error = chain(&*error);
                tracing::debug!(error, "credentials cannot be read again: the old ones stay");
                old.client.clone()
            }
            (Err(error), None) => return Err(Failure::Broken(chain(&*error))),
        };
        *opened = Some(Opened {
            client: client.clone(),
            since: Instant::now(),
            is_old: false,
        });
        Ok(client)
    }
}

impl Inner {
    /// How long the next request waits because of the limit of requests a second.
    fn turn(&self) -> Duration {
        // Nothing panics with the lock held.
        let bucket = self.client.bucket.lock();
        let mut bucket = bucket.unwrap_or_else(PoisonError::into_inner);
        let wait = bucket.as_mut().map(|it| it.turn(Instant::now()));
        wait.unwrap_or_default()
    }

    /// After some failures everything is read anew: certificates and tokens are replaced while
    /// we run, and a plugin may know a new one.
    async fn suspect_credentials(&self, failure: &Failure) {
        if let Some(opened) = self.opened.lock().await.as_mut() {
            opened.is_old |= match failure.code() {
                Some(code) => code == 401,
                None => opened.since.elapsed() > OLD,
            };
        }
    }
}

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, kube::Error>;

/// A request that was answered or has failed. Its end is the end of its body: the observer learns of
/// it when this is dropped.
struct Observation {
    connection: Arc<Inner>,
    method: Method,
    code: Option<u16>,
    elapsed: Duration,
    waited: Option<Duration>,
    sent: Option<u64>,
    received: Option<u64>,
}

/// Counts the bytes of a body, and keeps the observation until the body has ended.
fn counted(body: Body, mut observation: Option<Observation>) -> Answer {
    let body = body.map_frame(move |frame| {
        if let Some(observation) = &mut observation {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            observation.received = Some(observation.received.unwrap_or_default() + bytes);
        }
        frame
    });
    body.boxed_unsync()
}

impl Drop for Observation {
    fn drop(&mut self) {
        let connection = &self.connection;
        (connection.observer)(&ApiRequest {
            method: self.method.as_str(),
            host: &connection.client.host,
            code: self.code,
            elapsed: self.elapsed,
            waited: self.waited,
            sent: self.sent,
            received: self.received,
        });
    }
}

impl tower::Service<Request<Body>> for Connection {
    type Response = Response<TimeoutBody<Answer>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        // The follower decides how long a watch may be silent.
        let idle = if is_watch(&request) {
            Duration::MAX
        } else {
            this.0.timeout
        };
        Box::pin(async move {
            let response = this.send(request).await?;
            Ok(response.map(|body| TimeoutBody::new(idle, body)))
        })
    }
}

/// Watches do not count against the limit of requests a second, as in client-go.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|it| it == "watch=true")
}

/// Reads the credentials and makes a connection pool; connects to nothing yet.
pub(super) async fn open(access: &Access) -> Result<kube::Client, BoxError> {
    let config = access.config().await?;
    // A plugin may run for long: the watches must not wait for it.
    tokio::task::spawn_blocking(move || pool(&config)).await?
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
    C::Response: Connected + Read + Write + Send + Unpin,
    C::Future: Send,
    C::Error: Into<BoxError>,
{
    let tls = trust::connector(config, connector)?;
    let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(kube::Client::new(service, "default"))
}

/// A body of at most `longest` bytes.
pub(super) async fn whole<B>(body: B, longest: usize) -> Result<Bytes, BoxError>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let read = Limited::new(body, longest).collect().await;
    read.map(|it| it.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return format!("it is longer than {} MiB", longest >> 20).into();
        }
        error
    })
}

/// The failure of a refusal. `longest`: timeout for the next bytes of its body.
async fn refused(response: Response<Answer>, longest: Duration) -> Failure {
    let code = response.status().as_u16();
    let header = response.headers().get(RETRY_AFTER);
    let header = header.and_then(|it| it.to_str().ok()?.parse().ok());
    let header = header.map(Duration::from_secs);
    let body = TimeoutBody::new(longest, response.into_body());
    // If the body breaks off, the status code has to be enough.
    let text = whole(body, MAX_STATUS).await.unwrap_or_default();
    let status = serde_json::from_slice(&text).unwrap_or_else(|_| {
        let start = String::from_utf8_lossy(&text)
            .chars()
            .take(200)
            .collect::<String>();
        Status::failure(&start, "")
    });
    match status.with_code(code).into() {
        Failure::Refused {
            code,
            message,
            retry_after,
        } => Failure::Refused {
            code,
            message,
            retry_after: header.or(retry_after),
        },
        failure => failure,
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::body::Bytes;

    use super::whole;
    use crate::apiserver::runtime;

    #[test]
    fn a_body_without_an_end_is_given_up() {
        let read = |bytes: usize| {
            let body = Full::new(Bytes::from(vec![b'x'; bytes]));
            runtime().unwrap().block_on(whole(body, 1 << 20))
        };
        assert_eq!(read(1 << 20).unwrap().len(), 1 << 20);
        let error = read((1 << 20) + 1).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 1 MiB");
    }
}
