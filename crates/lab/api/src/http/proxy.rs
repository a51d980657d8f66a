//! The subresource `proxy` of Pods and Services: requests to what they serve (`ResourceLocation` in
//! `pkg/registry/core/{pod,service}`), over HTTP and HTTPS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, LOCATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Api;
use super::counted::Asked;
use super::streams::Streams;
use crate::answer::{Answer, Content, refuse};
use crate::resource::Part;
use crate::status::Status;
use crate::unverified_client;

/// Timeout of the head of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Headers that are of one connection, or of the API's client.
const OWN: [HeaderName; 8] = [
    HOST,
    CONNECTION,
    AUTHORIZATION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    TE,
    UPGRADE,
    EXPECT,
];

/// Connects to pods.
pub trait Dial: Send + Sync {
    /// A connection; may block for seconds.
    ///
    /// # Errors
    ///
    /// The error of the system call: refused, unreachable, timed out.
    fn dial(&self, target: SocketAddr) -> io::Result<std::net::TcpStream>;
}

/// A TCP connection, or TLS over one.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

const VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

/// The subresource of Pods. Its requests are answered before they get here.
pub(crate) const OF_PODS: Part = Part {
    name: "proxy",
    api_version: "",
    kind: "PodProxyOptions",
    verbs: VERBS,
    answer: |_, _, _| Err(Status::no_resource()),
};

/// The subresource of Services.
pub(crate) const OF_SERVICES: &[Part] = &[Part {
    kind: "ServiceProxyOptions",
    ..OF_PODS
}];

/// What a path asks for.
struct Wanted<'a> {
    namespace: &'a str,
    is_service: bool,
    name: &'a str,
    /// The number or name of a port; empty: the first one of a pod, or the one without a name of a Service.
    port: &'a str,
    is_tls: bool,
    /// The path for the server, with the first slash; empty without any.
    path: &'a str,
}

impl<'a> Wanted<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/api/v1/namespaces/")?;
        let (namespace, rest) = rest.split_once('/')?;
        let (plural, rest) = rest.split_once('/')?;
        let is_service = match plural {
            "services" => true,
            "pods" => false,
            _ => return None,
        };
        let (name, rest) = rest.split_once('/')?;
        let path = rest.strip_prefix("proxy")?;
        if !path.is_empty() && !path.starts_with('/') {
            return None;
        }
        let words: Vec<&str> = name.split(':').collect();
        let (scheme, name, port) = match words[..] {
            [name] => ("http", name, ""),
            [name, port] => ("http", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        Some(Self {
            namespace,
            is_service,
            name,
            port,
            is_tls: scheme == "https",
            path,
        })
    }
}

impl Api {
    /// Answers a request, also one that is passed on or becomes streams. `is_certified`: see [`answer`](Self::answer).
    ///
    /// What only reads is answered at once, on the thread that all connections share. A write is a matter of milliseconds
    /// for each thousand values of its object, and waits for others: it has a thread of its own.
    pub async fn answer_or_pass(
        self: Arc<Self>,
        request: Request<Bytes>,
        is_certified: bool,
    ) -> Answer {
        let asked = Asked::of(&request, &self.store.history().registry());
        let answer = self.clone().try_pass(request, is_certified).await;
        if let Some(asked) = asked {
            self.requests.answered(&asked, &answer);
        }
        answer
    }

    async fn try_pass(self: Arc<Self>, request: Request<Bytes>, is_certified: bool) -> Answer {
        if let Some(stream) = Streams::of(request.uri().path()) {
            let opened = self.open(request, &stream, is_certified);
            return opened.unwrap_or_else(|status| refuse(&status));
        }
        let Some(wanted) = Wanted::of(request.uri().path()) else {
            if matches!(*request.method(), Method::GET | Method::HEAD) {
                return self.answer(&request, is_certified);
            }
            let write = move || self.answer(&request, is_certified);
            let answer = tokio::task::spawn_blocking(write).await;
            return answer.unwrap_or_else(|panic| refuse(&Status::internal(panic)));
        };
        let passed = self.pass(&request, &wanted, is_certified).await;
        passed.unwrap_or_else(|status| refuse(&status))
    }

    async fn pass(
        &self,
        request: &Request<Bytes>,
        wanted: &Wanted<'_>,
        is_certified: bool,
    ) -> Result<Answer, Status> {
        let authorization = request.headers().get(AUTHORIZATION);
        let authorization = authorization.and_then(|it| it.to_str().ok());
        self.authenticate(authorization, is_certified)?;
        let dial = self.dial.clone().ok_or_else(Status::no_resource)?;
        let target = self.target(wanted)?;
        if wanted.path.is_empty() && matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(with_slash(request));
        }
        let failed =
            |error: io::Error| unavailable(format!("error trying to reach service: {error}"));
        let connection = tokio::task::spawn_blocking(move || dial.dial(target)).await;
        let connection = connection.map_err(io::Error::other).flatten();
        let answer = async {
            let connection = connection?;
            connection.set_nonblocking(true)?;
            let connection = TcpStream::from_std(connection)?;
            let connection: Box<dyn Connection> = if wanted.is_tls {
                let tls = TlsConnector::from(unverified_client());
                Box::new(tls.connect(target.ip().into(), connection).await?)
            } else {
                Box::new(connection)
            };
            let connection = TokioIo::new(connection);
            let (mut server, connection) = handshake(connection).await.map_err(io::Error::other)?;
            // The task ends with the answer.
            tokio::spawn(connection);
            let asked = onward(request, wanted, target).map_err(io::Error::other)?;
            server.send_request(asked).await.map_err(io::Error::other)
        };
        let answer = timeout(PATIENCE, answer).await;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let answer = answer.map_err(late).flatten().map_err(failed)?;
        Ok(back(answer))
    }

    fn target(&self, wanted: &Wanted<'_>) -> Result<SocketAddr, Status> {
        let (namespace, name) = (wanted.namespace, wanted.name);
        if wanted.is_service {
            let service = self.object("Service", namespace, name)?;
            return self.endpoint(wanted, &service);
        }
        let pod = self.object("Pod", namespace, name)?;
        let ip = pod["status"]["podIP"].as_str().unwrap_or_default();
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| Status::bad_request(format!("pod {name} has no address yet")))?;
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut ports = containers.filter_map(|it| it["ports"][0]["containerPort"].as_u64());
        let port = match wanted.port {
            "" => ports
                .next()
                .and_then(|it| u16::try_from(it).ok())
                .unwrap_or(80),
            given => given
                .parse()
                .map_err(|_| Status::bad_request(format!("invalid port {given:?}")))?,
        };
        Ok(SocketAddr::new(ip, port))
    }

    /// One ready address of a Service, another one each time.
    fn endpoint(&self, wanted: &Wanted<'_>, service: &Value) -> Result<SocketAddr, Status> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let name = wanted.name;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let port = match wanted.port.parse::<u64>() {
            Err(_) => wanted.port.to_owned(),
            Ok(number) => {
                let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let found = ports.find(|it| it["port"] == number);
                let missing = || {
                    unavailable(format!(
                        "no service port {number} found for service {name:?}"
                    ))
                };
                text(&found.ok_or_else(missing)?["name"])
            }
        };
        let held = self.store.get("Endpoints", wanted.namespace, name);
        let subsets = held
            .iter()
            .flat_map(|it| it["subsets"].as_array().into_iter().flatten());
        let all = subsets.filter_map(|subset| {
            let mut ports = subset["ports"].as_array()?.iter();
            let port = ports.find(|it| text(&it["name"]) == port)?["port"].as_u64()?;
            let port = u16::try_from(port).ok()?;
            let addresses = subset["addresses"].as_array()?.iter();
            let ips = addresses.filter_map(|it| it["ip"].as_str()?.parse::<IpAddr>().ok());
            Some(ips.map(move |it| SocketAddr::new(it, port)))
        });
        let all: Vec<SocketAddr> = all.flatten().collect();
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let none = || unavailable(format!("no endpoints available for service {name:?}"));
        let chosen = turn.checked_rem(all.len()).and_then(|it| all.get(it));
        chosen.copied().ok_or_else(none)
    }
}

fn unavailable(message: String) -> Status {
    Status::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "ServiceUnavailable",
        message,
    )
}

/// Relative links of a page need the slash at the end of its address.
fn with_slash(request: &Request<Bytes>) -> Answer {
    let uri = request.uri();
    let query = uri.query().map_or(String::new(), |it| format!("?{it}"));
    let mut answer = Response::new(Content::whole(Bytes::new()));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(&format!("{}/{query}", uri.path())) {
        answer.headers_mut().insert(LOCATION, to);
    }
    answer
}

/// The request to a server.
fn onward(
    request: &Request<Bytes>,
    wanted: &Wanted<'_>,
    target: SocketAddr,
) -> hyper::http::Result<Request<Full<Bytes>>> {
    let path = if wanted.path.is_empty() {
        "/"
    } else {
        wanted.path
    };
    let query = request
        .uri()
        .query()
        .map_or(String::new(), |it| format!("?{it}"));
    let mut onward = Request::builder()
        .method(request.method())
        .uri(format!("{path}{query}"))
        .header(HOST, target.to_string());
    for (name, value) in request.headers().iter().filter(|(it, _)| !OWN.contains(it)) {
        onward = onward.header(name, value);
    }
    onward.body(Full::new(request.body().clone()))
}

/// The server's answer to the client; its body follows as it comes.
fn back(answer: Response<Incoming>) -> Answer {
    let (mut head, body) = answer.into_parts();
    for name in OWN {
        head.headers.remove(name);
    }
    let pieces = stream::unfold(body, |mut body| async {
        loop {
            if let Ok(piece) = body.frame().await?.ok()?.into_data() {
                return Some((piece, body));
            }
        }
    });
    Response::from_parts(head, Content::Pieces(Box::pin(pieces)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_scheme_object_and_port() {
        let show = |path: &str| {
            Wanted::of(path).map(|it| {
                let kind = if it.is_service { "service" } else { "pod" };
                let tls = if it.is_tls { "s" } else { "" };
                format!(
                    "http{tls} {kind} {}/{} {:?} {:?}",
                    it.namespace, it.name, it.port, it.path
                )
            })
        };
        let base = "/api/v1/namespaces/shop";
        for (path, expected) in [
            ("pods/web/proxy", Some(r#"http pod shop/web "" """#)),
            (
                "pods/web:8080/proxy/",
                Some(r#"http pod shop/web "8080" "/""#),
            ),
            (
                "services/web:http/proxy/a/b",
                Some(r#"http service shop/web "http" "/a/b""#),
            ),
            (
                "services/https:web:443/proxy/",
                Some(r#"https service shop/web "443" "/""#),
            ),
            ("services/a:b:c:d/proxy/", None),
            ("services/web", None),
            ("services/web/proxyx", None),
            ("nodes/web/proxy", None),
        ] {
            let path = format!("{base}/{path}");
            assert_eq!(show(&path).as_deref(), expected, "{path}");
        }
    }
}
