//! From a request to its answer.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use hyper::{Method, Response, StatusCode};
use sluice_api::answer::{self, Answer, Content, created, json_text, refuse};
use sluice_api::body::collect;
use sluice_api::query::{Query, Streaming};
use sluice_api::watch::{self, Opened, Settings};
use sluice_api::{Format, Include, Key, Resource, Status, Target, authenticate, read};

use crate::body::{Body, CutOff};
use crate::fault::{self, Fault, Verb};
use crate::journal::Request;
use crate::server::Shared;
use crate::watches::Disturbed;
use crate::wire::Line;
use crate::write;

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
    let target = Target::of(&asked.path, &shared.history.registry());
    let verb = verb(&asked, &target);
    let is_watch = matches!(verb, Verb::Watch | Verb::WatchFrom);
    let fault = shared.faults.take(verb, &asked.path);
    if let Some(fault) = &fault {
        if *fault == Fault::Silence {
            std::future::pending::<()>().await;
        }
        if let Fault::Late(pause) = fault {
            tokio::time::sleep(*pause).await;
        }
        let resource = match &target {
            Target::Objects { resource, .. } => Some(&**resource),
            _ => None,
        };
        let revision = shared.history.lock().revision;
        let reply = fault::reply(fault, resource, is_watch, revision);
        if let Some(reply) = reply {
            return Ok(reply.map(|it| Body::of(it, client.line.clone())));
        }
    }
    let (method, body) = (
        request.method().clone(),
        collect(request.into_body()).await.map_err(|_| CutOff)?,
    );
    let task = Task {
        shared: &shared,
        client: &client,
        asked: &asked,
        fault: fault.as_ref(),
    };
    let answer = task.run(target, &method, &body);
    let answer = answer.unwrap_or_else(|status| refuse(&status));
    let answer = answer.map(|it| Body::of(it, client.line.clone()));
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
    fn run(self, target: Target, method: &Method, body: &[u8]) -> Result<Answer, Status> {
        match target {
            Target::Version => Ok(answer::version()),
            Target::Health => answer::health("/healthz", ""),
            Target::Nothing
            | Target::Objects {
                subresource: Some(_),
                ..
            } => {
                self.authenticate()?;
                Err(Status::no_resource())
            }
            Target::Objects {
                resource,
                namespace,
                name,
                subresource: None,
            } => {
                self.authenticate()?;
                match (method, &name) {
                    (&Method::GET, _) => {}
                    (&Method::POST, None) => {
                        return self.create(&resource, namespace.as_deref(), body);
                    }
                    _ => return Err(Status::method_not_allowed()),
                }
                Format::of(self.asked.accept.as_deref(), Include::None)?;
                let mut query = Query::parse(&self.asked.query, &resource)?;
                query.filter.namespace = namespace;
                match name {
                    Some(name) if !query.watch => self.get(&resource, query, name),
                    name => {
                        query.filter.name = name;
                        if query.watch {
                            self.watch(resource, query)
                        } else {
                            self.list(&resource, &query)
                        }
                    }
                }
            }
        }
    }

    /// Health and version need no credentials, as everywhere; the rest does, if any are set.
    fn authenticate(&self) -> Result<(), Status> {
        let token = self.shared.token.lock().expect("nobody panics with it");
        if token.is_none() && !self.shared.options.client_certificates {
            return Ok(());
        }
        let given = self.asked.authorization.as_deref();
        authenticate(given, token.as_deref(), self.client.certified)
    }

    fn get(&self, resource: &Resource, query: Query, name: String) -> Result<Answer, Status> {
        let key = Key {
            namespace: query.filter.namespace.unwrap_or_default(),
            name,
        };
        read::get(
            &self.shared.history,
            resource,
            &key,
            query.version,
            Format::Plain,
        )
    }

    fn list(&self, resource: &Arc<Resource>, query: &Query) -> Result<Answer, Status> {
        let (history, limit) = (&self.shared.history, self.shared.options.page_limit);
        read::list(history, resource, query, limit, Format::Plain)
    }

    fn watch(&self, resource: Arc<Resource>, query: Query) -> Result<Answer, Status> {
        let options = &self.shared.options;
        let mut settings = Settings {
            bookmarks: Some(options.bookmarks),
            ..Settings::default()
        };
        if !options.streaming_lists {
            settings.streaming = Streaming::Refused;
        }
        match self.fault {
            Some(Fault::DuplicateEvents) => settings.copies = 2,
            Some(Fault::NoBookmarks) => settings.bookmarks = None,
            Some(Fault::IgnoresInitialEvents) => settings.streaming = Streaming::Overlooked,
            Some(Fault::LateEnd(changes)) => settings.changes_before_end = *changes,
            _ => {}
        }
        let history = self.shared.history.clone();
        let pieces = match watch::open(history, resource, query, settings)? {
            Opened::Running(watching) => {
                let line = self.client.line.clone();
                let membership = self.shared.watches.enter(&self.asked.path, line);
                Disturbed::pieces(watching, membership)
            }
            ended @ Opened::Ended(_) => ended.pieces(),
        };
        Ok(json_text(Content::Pieces(pieces)))
    }

    fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        body: &[u8],
    ) -> Result<Answer, Status> {
        let object = write::create(&self.shared.history, resource, namespace, body)?;
        Ok(created(&object))
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
        Target::Objects { .. } if asked.is_watch() => match asked.parameter("resourceVersion") {
            Some(version) if !matches!(&*version, "" | "0") => Verb::WatchFrom,
            _ => Verb::Watch,
        },
        Target::Objects { name: None, .. } => match asked.parameter("continue") {
            Some(token) if !token.is_empty() => Verb::Continue,
            _ => Verb::List,
        },
        _ => Verb::Get,
    }
}

/// A page as a proxy in between sends it.
pub(crate) fn html(code: u16) -> Answer {
    let page = "<!DOCTYPE html>\n<html><head><title>Sorry</title></head>\
                <body><h1>Sorry</h1></body></html>\n";
    let mut answer = answer::with_type("text/html; charset=utf-8", Content::whole(page));
    let code = StatusCode::from_u16(code);
    *answer.status_mut() = code.unwrap_or(StatusCode::BAD_GATEWAY);
    answer
}
