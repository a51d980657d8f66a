//! Routes a request and answers it.

pub(crate) mod components;
mod counted;
mod issuer;
pub(crate) mod metrics;
mod options;
mod patching;
pub(crate) mod pods;
pub(crate) mod proxy;
mod removal;
pub(crate) mod reviews;
mod scale;
pub(crate) mod streams;
pub(crate) mod tokens;
pub(crate) mod writing;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use hyper::{Method, Request};

pub use counted::Requests;
pub use metrics::{Metrics, Used};
pub use pods::{LogOptions, Logs};
pub use proxy::Dial;
pub use streams::{NotRunning, Programs, Sessions};

use crate::answer::{self, Answer, Content, refuse};
use crate::discovery;
use crate::format::{Encoding, Format, Include};
use crate::object::Key;
use crate::openapi;
use crate::query::{Query, boolean, parameter};
use crate::read;
use crate::resource::{Resource, Subresource};
use crate::route::{self, Target};
use crate::status::Status;
use crate::store::Store;
use crate::tokens::Tokens;
use crate::user::User;
use crate::watch::{self, Settings};
pub(crate) use options::Verb;
use options::WriteOptions;

/// The Kubernetes API over a store.
pub struct Api {
    pub store: Arc<Store>,
    /// The logs of Pods; `None` without kubelets.
    pub logs: Option<Box<dyn Logs>>,
    /// The bearer token of [`user`](Self::user). A client certificate of the server's authority is valid,
    /// too.
    pub token: String,
    /// The way to pods, for the subresource `proxy`; `None` without one.
    pub dial: Option<Arc<dyn Dial>>,
    /// The programs of pods, for `exec`, `attach` and `portforward`; `None` without kubelets.
    pub programs: Option<Arc<dyn Programs>>,
    pub sessions: Sessions,
    /// For `/metrics`.
    pub requests: Requests,
    /// The user of the clients with a certificate or the token, who has every right.
    pub user: String,
    /// Tokens of ServiceAccounts; `None` when they have none.
    pub tokens: Option<Tokens>,
    /// Measures Pods and Nodes; `None`: nothing is measured.
    pub metrics: Option<Box<dyn Metrics>>,
}

/// A request for objects.
pub(crate) struct Call<'a> {
    api: &'a Api,
    /// The user of the client's certificate or token.
    user: User,
    resource: Arc<Resource>,
    namespace: Option<String>,
    query: &'a str,
    is_watch: bool,
    accept: Option<&'a str>,
    content_type: Option<&'a str>,
    user_agent: Option<&'a str>,
    body: &'a [u8],
}

impl Api {
    /// Answers one request. `is_certified`: whether the client showed a certificate of the server's
    /// authority.
    pub fn answer(&self, request: &Request<Bytes>, is_certified: bool) -> Answer {
        let answer = self.try_answer(request, is_certified);
        let answer = answer.unwrap_or_else(|status| refuse(&status));
        let accept = request
            .headers()
            .get(ACCEPT)
            .and_then(|it| it.to_str().ok());
        match Encoding::of(accept) {
            Encoding::Yaml if !asks_for_watch(request) => answer::yaml(answer),
            _ => answer,
        }
    }

    fn try_answer(&self, request: &Request<Bytes>, is_certified: bool) -> Result<Answer, Status> {
        let header = |name: HeaderName| request.headers().get(name)?.to_str().ok();
        let is_watch = asks_for_watch(request);
        let path = &*route::without_watch(request.uri().path());
        let registry = self.store.history().registry();
        let target = Target::of(path, &registry);
        let user = match target {
            Target::Version => return Ok(answer::version()),
            Target::Health => {
                return answer::health(path, request.uri().query().unwrap_or_default());
            }
            _ => self.authenticate(header(AUTHORIZATION), is_certified)?,
        };
        let Target::Objects {
            resource,
            namespace,
            name,
            subresource,
        } = target
        else {
            let found = discovery::answer(&registry, path, header(ACCEPT))
                .or_else(|| openapi::answer(&registry, path, header(ACCEPT)))
                .or_else(|| self.issuer(path));
            let found = found.or_else(|| (path == "/metrics").then(|| self.counted()));
            return match found {
                Some(answer) if *request.method() == Method::GET => Ok(answer),
                Some(_) => Err(Status::method_not_allowed()),
                None => Err(Status::no_resource()),
            };
        };
        let call = Call {
            api: self,
            user,
            resource,
            namespace,
            query: request.uri().query().unwrap_or_default(),
            is_watch,
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            user_agent: header(USER_AGENT),
            body: request.body(),
        };
        let answer = match (name, subresource) {
            _ if is_watch && *request.method() != Method::GET => Err(Status::method_not_allowed()),
            (None, _) => call.collection(request.method()),
            (Some(name), None) => call.object(request.method(), &name),
            (Some(name), Some(part)) => call.part(request.method(), &name, &part),
        };
        let deprecated = call.resource.deprecated.as_slice();
        answer.map(|it| writing::with_warnings(it, deprecated))
    }
}

impl Call<'_> {
    fn collection(&self, method: &Method) -> Result<Answer, Status> {
        if let Some(computed) = self.resource.computed {
            return (computed.answer)(self, method, None);
        }
        match *method {
            Method::GET => self.read(None),
            Method::POST => self.create(),
            Method::DELETE if self.resource.deletes_collections => self.delete_collection(),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn object(&self, method: &Method, name: &str) -> Result<Answer, Status> {
        if let Some(computed) = self.resource.computed {
            return (computed.answer)(self, method, Some(name));
        }
        match *method {
            Method::DELETE => self.delete(name),
            _ => self.read_or_write(method, name, writing::Part::Whole),
        }
    }

    fn part(&self, method: &Method, name: &str, part: &str) -> Result<Answer, Status> {
        match (part, &self.resource.scale) {
            ("status", _) if self.resource.status == Subresource::Served => {
                self.read_or_write(method, name, writing::Part::Status)
            }
            ("scale", Some(scale)) => self.scale(scale, method, name),
            _ => {
                let found = self.resource.parts.iter().find(|it| it.name == part);
                let part = found.ok_or_else(Status::no_resource)?;
                (part.answer)(self, method, name)
            }
        }
    }

    fn read(&self, name: Option<&str>) -> Result<Answer, Status> {
        let mut query = Query::parse(self.query, &self.resource)?;
        query.filter.namespace = self.namespace.clone();
        let history = self.api.store.history();
        if self.is_watch {
            query.watch = true;
            query.filter.name = name.map(str::to_owned);
            let settings = Settings {
                format: Format::of_watch(self.accept, self.include())?,
                ..Settings::default()
            };
            let opened = watch::open(history.clone(), self.resource.clone(), query, settings)?;
            return Ok(answer::json_text(Content::Pieces(opened.pieces())));
        }
        match name {
            Some(name) => {
                let (key, format) = (self.key(name), self.format()?);
                read::get(history, &self.resource, &key, query.version, format)
            }
            None => read::list(history, &self.resource, &query, None, self.list_format()?),
        }
    }

    /// The form in which the client accepts a list.
    fn list_format(&self) -> Result<Format, Status> {
        Format::of_list(self.accept, self.include(), &self.resource)
    }

    fn include(&self) -> Include {
        Include::of(self.parameter("includeObject").as_deref())
    }

    /// The form in which the client accepts an object.
    fn format(&self) -> Result<Format, Status> {
        Format::of_object(self.accept, self.include(), &self.resource)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.namespace.as_deref().unwrap_or_default(), name)
    }

    fn parameter(&self, name: &str) -> Option<String> {
        parameter(self.query, name).filter(|it| !it.is_empty())
    }

    fn options(&self, verb: Verb) -> Result<WriteOptions, Status> {
        // Nothing is written whose answer the client does not accept.
        self.format()?;
        WriteOptions::parse(self.query, self.user_agent, verb)
    }
}

/// Whether the request is for a watch, by its path or by the parameter.
fn asks_for_watch(request: &Request<Bytes>) -> bool {
    let given = parameter(request.uri().query().unwrap_or_default(), "watch");
    let path = request.uri().path();
    given.is_some_and(|it| boolean(&it)) && *request.method() == Method::GET
        || *route::without_watch(path) != *path
}
