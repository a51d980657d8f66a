//! From a request to its answer.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use hyper::{Method, Response};
use serde_json::json;

use crate::body::{Body, CutOff};
use crate::fault::{self, Fault, Verb};
use crate::journal::Request;
use crate::list;
use crate::object::Key;
use crate::query::{Query, Streaming};
use crate::resource::Resource;
use crate::route::Target;
use crate::server::Shared;
use crate::status::Status;
use crate::watch::{self, Settings, Twist};
use crate::wire::Line;
use crate::write;

/// Largest body of a request, as etcd limits objects.
const LARGEST_BODY: usize = 3 * 1024 * 1024 / 2;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) line: Arc<Line>,
    /// A certificate of our authority was shown.
    pub(crate) certified: bool,
}

/// Answers one request, or does what the faults say.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    client: Client,
    request: hyper::Request<Incoming>,
) -> Result<Response<Body>, CutOff> {
    let asked = journal_entry(&request, client.line.number);
    shared.journal.push(asked.clone());
    let target = Target::of(&asked.path);
    let verb = verb(&asked, &target);
    let is_watch = verb == Verb::Watch;
    let fault = shared.faults.take(verb, &asked.path);
    if let Some(fault) = &fault {
        if *fault == Fault::Silence {
            std::future::pending::<()>().await;
        }
        let resource = match target {
            Target::Objects { resource, .. } => Some(resource),
            _ => None,
        };
        let revision = shared.store.lock().revision;
        let reply = fault::reply(fault, resource, is_watch, revision, &client.line);
        if let Some(reply) = reply {
            return Ok(reply);
        }
    }
    let (method, body) = (
        request.method().clone(),
        collect(request.into_body()).await?,
    );
    let task = Task {
        shared: &shared,
        client: &client,
        asked: &asked,
        fault: fault.as_ref(),
    };
    let answer = task.run(target, &method, &body);
    let answer = answer.unwrap_or_else(|status| refuse(&status));
    Ok(match fault {
        Some(fault) => fault::shape(answer, &fault, &client.line),
        None => answer,
    })
}

/// One request with all that belongs to it.
struct Task<'a> {
    shared: &'a Arc<Shared>,
    client: &'a Client,
    asked: &'a Request,
    fault: Option<&'a Fault>,
}

impl Task<'_> {
    fn run(self, target: Target, method: &Method, body: &[u8]) -> Result<Response<Body>, Status> {
        match target {
            Target::Version => Ok(version()),
            Target::Health => Ok(text("text/plain; charset=utf-8", "ok")),
            Target::Nothing => {
                self.authenticate()?;
                Err(Status::no_resource())
            }
            Target::Objects {
                resource,
                namespace,
                name,
            } => {
                self.authenticate()?;
                match (method, &name) {
                    (&Method::GET, _) => {}
                    (&Method::POST, None) => {
                        return self.create(resource, namespace.as_deref(), body);
                    }
                    _ => return Err(Status::method_not_allowed()),
                }
                self.acceptable()?;
                let mut query = Query::parse(&self.asked.query, resource)?;
                query.filter.namespace = namespace;
                match name {
                    Some(name) if !query.watch => self.get(resource, query, name),
                    name => {
                        query.filter.name = name;
                        if query.watch {
                            self.watch(resource, query)
                        } else {
                            self.list(resource, &query)
                        }
                    }
                }
            }
        }
    }

    /// Health and version need no credentials, as everywhere; the rest does, if any are set.
    fn authenticate(&self) -> Result<(), Status> {
        let token = self.shared.token.lock().expect("nobody panics with it");
        let given = self.asked.authorization.as_deref();
        let bearer = given.and_then(|it| it.strip_prefix("Bearer "));
        match (token.as_deref(), bearer) {
            _ if self.client.certified => Ok(()),
            (None, _) if !self.shared.options.client_certificates => Ok(()),
            (Some(token), Some(bearer)) if token == bearer => Ok(()),
            _ => Err(Status::unauthorized()),
        }
    }

    fn acceptable(&self) -> Result<(), Status> {
        let accept = self.asked.accept.as_deref().unwrap_or("*/*");
        let known = ["*/*", "application/*", "application/json"];
        let mut kinds = accept
            .split(',')
            .map(|it| it.split(';').next().unwrap_or(it).trim());
        if kinds.any(|it| known.contains(&it)) {
            Ok(())
        } else {
            Err(Status::not_acceptable())
        }
    }

    fn get(
        &self,
        resource: &'static Resource,
        query: Query,
        name: String,
    ) -> Result<Response<Body>, Status> {
        let key = Key {
            namespace: query.filter.namespace.unwrap_or_default(),
            name,
        };
        let found = self
            .shared
            .store
            .lock()
            .collection(resource)
            .get(&key)
            .cloned();
        let missing = || Status::not_found(&resource.full_name(), &key.name);
        Ok(json_text(Body::whole(found.ok_or_else(missing)?.typed())))
    }

    fn list(&self, resource: &'static Resource, query: &Query) -> Result<Response<Body>, Status> {
        let limit = self.shared.options.page_limit;
        let page = list::choose(&self.shared.store.lock(), resource, query, limit)?;
        let pieces = page.body(resource);
        Ok(json_text(Body::pieces(pieces, self.client.line.clone())))
    }

    fn watch(&self, resource: &'static Resource, query: Query) -> Result<Response<Body>, Status> {
        let options = &self.shared.options;
        let settings = Settings {
            streaming: if options.streaming_lists {
                Streaming::Served
            } else {
                Streaming::Refused
            },
            twist: match self.fault {
                Some(Fault::DuplicateEvents) => Twist::Twice,
                Some(Fault::NoBookmarks) => Twist::NoBookmarks,
                Some(Fault::IgnoresInitialEvents) => Twist::NoInitialEvents,
                Some(Fault::LateEnd(changes)) => Twist::LateEnd(*changes),
                _ => Twist::None,
            },
            bookmarks: options.bookmarks,
        };
        let enter = || self.shared.watches.enter(&self.asked.path);
        let store = self.shared.store.clone();
        let pieces = watch::open(store, resource, query, settings, enter)?;
        Ok(json_text(Body::pieces(pieces, self.client.line.clone())))
    }

    fn create(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        body: &[u8],
    ) -> Result<Response<Body>, Status> {
        let object = write::create(&self.shared.store, resource, namespace, body)?;
        let mut answer = json_text(Body::whole(object.to_string()));
        *answer.status_mut() = hyper::StatusCode::CREATED;
        Ok(answer)
    }
}

fn journal_entry(request: &hyper::Request<Incoming>, connection: u64) -> Request {
    let header = |name: HeaderName| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Request {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        user_agent: header(USER_AGENT),
        authorization: header(AUTHORIZATION),
        accept: header(ACCEPT),
        content_type: header(CONTENT_TYPE),
        connection,
    }
}

fn verb(asked: &Request, target: &Target) -> Verb {
    match target {
        _ if asked.method != "GET" => Verb::Write,
        Target::Objects { .. } if asked.is_watch() => Verb::Watch,
        Target::Objects { name: None, .. } => match asked.parameter("continue") {
            Some(token) if !token.is_empty() => Verb::Continue,
            _ => Verb::List,
        },
        _ => Verb::Get,
    }
}

/// Reads a request's body, as far as the API server would.
async fn collect(mut body: Incoming) -> Result<Bytes, CutOff> {
    let mut bytes = BytesMut::new();
    while let Some(frame) =
        std::future::poll_fn(|it| std::pin::Pin::new(&mut body).poll_frame(it)).await
    {
        let frame = frame.map_err(|_| CutOff)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |it| it));
        if bytes.len() > LARGEST_BODY {
            return Err(CutOff);
        }
    }
    Ok(bytes.freeze())
}

fn version() -> Response<Body> {
    let version = json!({
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.0",
        "platform": "linux/amd64",
    });
    json_text(Body::whole(version.to_string()))
}

/// 200 with JSON.
pub(crate) fn json_text(body: Body) -> Response<Body> {
    with_type("application/json", body)
}

fn text(content_type: &'static str, text: &'static str) -> Response<Body> {
    with_type(content_type, Body::whole(text))
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// A page as a proxy in between sends it.
pub(crate) fn html(code: u16) -> Response<Body> {
    let page = "<!DOCTYPE html>\n<html><head><title>Sorry</title></head>\
                <body><h1>Sorry</h1></body></html>\n";
    let mut answer = text("text/html; charset=utf-8", page);
    let code = hyper::StatusCode::from_u16(code);
    *answer.status_mut() = code.unwrap_or(hyper::StatusCode::BAD_GATEWAY);
    answer
}

/// A `Status` with its code and headers.
pub(crate) fn refuse(status: &Status) -> Response<Body> {
    let mut answer = json_text(Body::whole(status.body().to_string()));
    *answer.status_mut() = status.code;
    if let Some(seconds) = status.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}
