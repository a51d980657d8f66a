//! The subresources `exec`, `attach` and `portforward` of Pods: requests that become streams
//! (`pkg/registry/core/pod/rest/subresources.go`). What is refused is refused before the upgrade.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluice_streams::{
    Dial, Purpose, Start, Upgrade, Wanted, negotiate, serve_ports, serve_program,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Api;
use crate::answer::{Answer, Content, with_type};
use crate::query::boolean;
use crate::resource::Part;
use crate::status::Status;

/// Most sessions of a lab at the same time.
const SESSIONS: usize = 128;

/// Runs programs in pods.
pub trait Programs: Send + Sync {
    /// A command in a running container.
    ///
    /// # Errors
    ///
    /// The container does not run.
    fn exec(
        &self,
        pod: &Value,
        container: &str,
        command: Vec<String>,
        wanted: Wanted,
    ) -> Result<Start, NotRunning>;

    /// The program of a container.
    ///
    /// # Errors
    ///
    /// The container does not run.
    fn attach(&self, pod: &Value, container: &str, wanted: Wanted) -> Result<Start, NotRunning>;

    /// The way to the ports of a pod's loopback interface.
    ///
    /// # Errors
    ///
    /// No container of the pod runs.
    fn ports(&self, pod: &Value) -> Result<Dial, NotRunning>;
}

/// The reason in kubelet's words, which are no `Status`.
#[derive(Debug)]
pub struct NotRunning(pub String);

/// The places of sessions.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Semaphore>);

impl Default for Sessions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SESSIONS)))
    }
}

impl Sessions {
    fn enter(&self) -> Result<OwnedSemaphorePermit, Status> {
        let place = self.0.clone().try_acquire_owned();
        place.map_err(|_| {
            let why = format!(
                "the lab has at most {SESSIONS} sessions of exec, attach and port-forward at the same time"
            );
            Status::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", why)
        })
    }
}

const fn part(name: &'static str, kind: &'static str) -> Part {
    Part {
        name,
        api_version: "",
        kind,
        verbs: &["create", "get"],
        // Requests are answered before they get here.
        answer: |_, _, _| Err(Status::no_resource()),
    }
}

pub(crate) const EXEC: Part = part("exec", "PodExecOptions");
pub(crate) const ATTACH: Part = part("attach", "PodAttachOptions");
pub(crate) const PORT_FORWARD: Part = part("portforward", "PodPortForwardOptions");

/// A path of one of the subresources.
pub(crate) struct Streams {
    namespace: String,
    pod: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exec,
    Attach,
    Ports,
}

impl Streams {
    pub(super) fn of(path: &str) -> Option<Self> {
        let rest = path.strip_prefix("/api/v1/namespaces/")?;
        let words: Vec<&str> = rest.split('/').collect();
        let &[namespace, "pods", pod, subresource] = words.as_slice() else {
            return None;
        };
        let kind = match subresource {
            "exec" => Kind::Exec,
            "attach" => Kind::Attach,
            "portforward" => Kind::Ports,
            _ => return None,
        };
        Some(Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            kind,
        })
    }
}

/// The work of a session after it was opened.
enum Work {
    Program(Wanted, Start),
    Ports(Dial),
}

impl Api {
    /// Answers 101 and serves the session, or refuses it.
    pub(super) fn open(
        &self,
        mut request: Request<Bytes>,
        streams: &Streams,
        is_certified: bool,
    ) -> Result<Answer, Status> {
        let authorization = request.headers().get(AUTHORIZATION);
        let authorization = authorization.and_then(|it| it.to_str().ok());
        self.authenticate(authorization, is_certified)?;
        if !matches!(*request.method(), Method::GET | Method::POST) {
            return Err(Status::method_not_allowed());
        }
        let programs = self.programs.as_ref().ok_or_else(Status::no_resource)?;
        let pod = self.object("Pod", &streams.namespace, &streams.pod)?;
        let query = request.uri().query().unwrap_or_default().to_owned();
        let ready = match streams.kind {
            Kind::Ports => {
                has_node(&pod)?;
                programs.ports(&pod).map(Work::Ports)
            }
            kind => {
                let asked = Asked::read(&query, kind == Kind::Exec)?;
                let container = container(&pod, asked.container.as_deref())?;
                has_node(&pod)?;
                let wanted = asked.wanted;
                let start = match kind {
                    Kind::Exec => programs.exec(&pod, &container, asked.command, wanted),
                    _ => programs.attach(&pod, &container, wanted),
                };
                start.map(|it| Work::Program(wanted, it))
            }
        };
        let work = match ready {
            Ok(work) => work,
            Err(NotRunning(why)) => {
                return Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, why));
            }
        };
        let purpose = match work {
            Work::Program(..) => Purpose::Program,
            Work::Ports(_) => Purpose::Ports,
        };
        let Upgrade { headers, transport } = match negotiate(request.headers(), purpose) {
            Ok(upgrade) => upgrade,
            Err(refusal) if refusal.code == StatusCode::BAD_REQUEST => {
                return Err(Status::bad_request(refusal.why));
            }
            Err(refusal) => {
                let mut answer = plain(refusal.code, refusal.why);
                for (name, value) in refusal.headers {
                    answer.headers_mut().append(name, value);
                }
                return Ok(answer);
            }
        };
        let ports = match work {
            Work::Ports(_) if transport.asks_for_ports() => ports(&query)?,
            _ => Vec::new(),
        };
        let place = self.sessions.enter()?;
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let _place = place;
            // The client may be gone before it reads the answer.
            let Ok(connection) = upgraded.await else {
                return;
            };
            let connection = TokioIo::new(connection);
            match work {
                Work::Program(wanted, start) => {
                    serve_program(connection, transport, wanted, start).await;
                }
                Work::Ports(dial) => serve_ports(connection, transport, &ports, dial).await,
            }
        });
        let mut answer = Response::new(Content::Whole(None));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        answer.headers_mut().extend(headers);
        Ok(answer)
    }
}

fn plain(code: StatusCode, text: String) -> Answer {
    let mut answer = with_type("text/plain", Content::whole(Bytes::from(text)));
    *answer.status_mut() = code;
    answer
}

/// `PodExecOptions` and `PodAttachOptions`.
struct Asked {
    container: Option<String>,
    command: Vec<String>,
    wanted: Wanted,
}

impl Asked {
    fn read(query: &str, is_exec: bool) -> Result<Self, Status> {
        let mut asked = Self {
            container: None,
            command: Vec::new(),
            wanted: Wanted::default(),
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let wanted = &mut asked.wanted;
            match name.as_ref() {
                "container" if !value.is_empty() => asked.container = Some(value.into_owned()),
                "command" => asked.command.push(value.into_owned()),
                "stdin" => wanted.stdin = boolean(&value),
                "stdout" => wanted.stdout = boolean(&value),
                "stderr" => wanted.stderr = boolean(&value),
                "tty" => wanted.tty = boolean(&value),
                _ => {}
            }
        }
        let wanted = asked.wanted;
        // `ValidatePodExecOptions` and kubelet's `NewOptions`.
        let wrong = if is_exec && asked.command.is_empty() {
            "you must specify at least 1 command for the container"
        } else if !(wanted.stdin || wanted.stdout || wanted.stderr) {
            "you must specify at least 1 of stdin, stdout, stderr"
        } else {
            // A terminal has one output.
            asked.wanted.stderr &= !wanted.tty;
            return Ok(asked);
        };
        Err(Status::bad_request(wrong))
    }
}

/// The ports of `PodPortForwardOptions`, in kubelet's words where they are wrong (`NewV4Options` of `portforward/websocket.go`
/// in `k8s.io/cri-streaming`). Each has two channels, whose number is a byte.
fn ports(query: &str) -> Result<Vec<u16>, Status> {
    let given = form_urlencoded::parse(query.as_bytes());
    let given: Vec<_> = given.filter(|(name, _)| name == "ports").collect();
    let words = given.iter().flat_map(|(_, value)| value.split(','));
    let ports = words.map(|it| {
        let port = it.parse::<u16>().ok().filter(|it| *it > 0);
        port.ok_or_else(|| Status::bad_request(format!("unable to parse {it:?} as a port")))
    });
    let ports = ports.collect::<Result<Vec<u16>, Status>>()?;
    match ports.len() {
        0 => Err(Status::bad_request(
            "query parameter \"port\" is required".to_owned(),
        )),
        1..=128 => Ok(ports),
        _ => Err(Status::bad_request("more than 128 ports".to_owned())),
    }
}

/// The name of the container that a request means (`LocationForContainer` in `pkg/registry/core/pod/strategy.go`).
fn container(pod: &Value, wanted: Option<&str>) -> Result<String, Status> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names = |list: &str| -> Vec<&str> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|it| it["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let ephemeral = names("ephemeralContainers");
    let wrong = match (wanted, containers.as_slice()) {
        (Some(wanted), _)
            if [&containers, &init, &ephemeral]
                .iter()
                .any(|it| it.contains(&wanted)) =>
        {
            return Ok(wanted.to_owned());
        }
        (None, [only]) => return Ok((*only).to_owned()),
        (Some(wanted), _) => format!("container {wanted} is not valid for pod {name}"),
        (None, all) => {
            let all = all.join(" ");
            let mut text = format!(
                "a container name must be specified for pod {name}, choose one of: [{all}]"
            );
            if !init.is_empty() {
                text += &format!(" or one of the init containers: [{}]", init.join(" "));
            }
            if !ephemeral.is_empty() {
                let all = ephemeral.join(" ");
                text += &format!(" or one of the ephemeral containers: [{all}]");
            }
            text
        }
    };
    Err(Status::bad_request(wrong))
}

fn has_node(pod: &Value) -> Result<(), Status> {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let why = format!("pod {name} does not have a host assigned");
        return Err(Status::bad_request(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_checked() {
        let show = |query: &str, is_exec| match Asked::read(query, is_exec) {
            Ok(it) => format!("{:?} {:?} {:?}", it.container, it.command, it.wanted),
            Err(it) => it.to_string(),
        };
        for (query, is_exec, expect) in [
            (
                "command=ls&command=-l+x&container=c&stdout=true&stderr=1&stdin=false",
                true,
                r#"Some("c") ["ls", "-l x"] Wanted { stdin: false, stdout: true, stderr: true, tty: false }"#,
            ),
            (
                "command=sh&stdin=true&stdout=true&stderr=true&tty=true",
                true,
                r#"None ["sh"] Wanted { stdin: true, stdout: true, stderr: false, tty: true }"#,
            ),
            (
                "stdout=true",
                true,
                "you must specify at least 1 command for the container",
            ),
            (
                "command=ls",
                true,
                "you must specify at least 1 of stdin, stdout, stderr",
            ),
            (
                "stdout=true",
                false,
                "None [] Wanted { stdin: false, stdout: true, stderr: false, tty: false }",
            ),
        ] {
            assert_eq!(show(query, is_exec), expect);
        }
    }

    #[test]
    fn ports_are_read() {
        let show = |query: &str| match ports(query) {
            Ok(it) => format!("{it:?}"),
            Err(it) => it.to_string(),
        };
        let many = "ports=1&".repeat(129);
        for (query, expect) in [
            ("ports=80&ports=443,8080&other=1", "[80, 443, 8080]"),
            ("port=80", "query parameter \"port\" is required"),
            ("ports=", "unable to parse \"\" as a port"),
            ("ports=0", "unable to parse \"0\" as a port"),
            ("ports=80,70000", "unable to parse \"70000\" as a port"),
            (&many, "more than 128 ports"),
        ] {
            assert_eq!(show(query), expect, "{query}");
        }
    }

    #[test]
    fn sessions_have_a_limit() {
        let sessions = Sessions::default();
        let mut all: Vec<_> = (0..SESSIONS).map(|_| sessions.enter().unwrap()).collect();
        let refused = sessions.enter().unwrap_err();
        assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
        assert!(
            refused.to_string().contains("at most 128 sessions"),
            "{refused}"
        );
        all.pop();
        assert!(sessions.enter().is_ok());
    }

    #[test]
    fn a_container_is_chosen() {
        let pod = |names: &[&str], init: &[&str]| {
            let list = |names: &[&str]| -> Vec<Value> {
                names.iter().map(|it| json!({ "name": it })).collect()
            };
            json!({
                "metadata": {"name": "p"},
                "spec": {"containers": list(names), "initContainers": list(init)},
            })
        };
        for (pod, wanted, expect) in [
            (pod(&["a"], &[]), None, "a"),
            (pod(&["a", "b"], &[]), Some("b"), "b"),
            (pod(&["a"], &["i"]), Some("i"), "i"),
            (
                pod(&["a"], &[]),
                Some("x"),
                "container x is not valid for pod p",
            ),
            (
                pod(&["a", "b"], &["i"]),
                None,
                "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
            ),
        ] {
            let chosen = container(&pod, wanted).unwrap_or_else(|it| it.to_string());
            assert_eq!(chosen, expect);
        }
        let why = has_node(&pod(&["a"], &[])).unwrap_err();
        assert_eq!(why.to_string(), "pod p does not have a host assigned");
    }
}
