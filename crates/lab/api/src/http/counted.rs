//! `/metrics`: what clients ask, and how many objects there are, under the names and with the labels of kube-apiserver
//! (`apiserver/pkg/endpoints/metrics/metrics.go`, `apiserver/pkg/storage/etcd3/metrics`).

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, TextEncoder,
};

use super::{Api, asks_for_watch};
use crate::answer::{Answer, Content, with_type};
use crate::resource::Registry;
use crate::route::{self, Target};

/// The labels of a request. A counter has the `code` of the answer besides.
const LABELS: [&str; 9] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
    "dry_run",
    "code",
];

/// The bounds of kube-apiserver's latencies in seconds.
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Subresources whose request becomes a connection of its own.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// The requests for objects that were answered.
#[derive(Debug)]
pub struct Requests {
    answered: IntCounterVec,
    latencies: HistogramVec,
}

impl Default for Requests {
    fn default() -> Self {
        let answered = Opts::new(
            "apiserver_request_total",
            "Requests for objects that were answered.",
        );
        let latencies = HistogramOpts::new(
            "apiserver_request_duration_seconds",
            "Time until the answer, without watches and connections.",
        );
        let latencies = latencies.buckets(SECONDS.to_vec());
        Self {
            answered: IntCounterVec::new(answered, &LABELS).expect("good names"),
            latencies: HistogramVec::new(latencies, &LABELS[..8]).expect("good names"),
        }
    }
}

/// A request for objects: the values of [`LABELS`] but the last, and when it came.
pub(super) struct Asked {
    labels: [String; 8],
    since: Instant,
}

impl Asked {
    /// `None` for a request that is for no object.
    pub(super) fn of(request: &Request<Bytes>, registry: &Registry) -> Option<Self> {
        let path = route::without_watch(request.uri().path());
        let Target::Objects {
            resource,
            namespace,
            name,
            subresource,
        } = Target::of(&path, registry)
        else {
            return None;
        };
        let method = request.method();
        let is_of_one = name.is_some() || *method == Method::POST;
        let scope = match namespace {
            _ if is_of_one => "resource",
            Some(_) => "namespace",
            None => "cluster",
        };
        let subresource = subresource.unwrap_or_default();
        let content_type = request.headers().get(CONTENT_TYPE);
        let is_apply =
            content_type.is_some_and(|it| it.as_bytes().starts_with(b"application/apply-patch"));
        let verb = match method.as_str() {
            _ if CONNECTIONS.contains(&&*subresource) => "CONNECT",
            _ if asks_for_watch(request) => "WATCH",
            "GET" | "HEAD" if is_of_one => "GET",
            "GET" | "HEAD" => "LIST",
            "DELETE" if !is_of_one => "DELETECOLLECTION",
            "PATCH" if is_apply => "APPLY",
            other => other,
        };
        let is_dry = request
            .uri()
            .query()
            .is_some_and(|it| it.contains("dryRun"));
        let labels = [
            verb,
            &resource.group,
            &resource.version,
            &resource.plural,
            &subresource,
            scope,
            "apiserver",
            if is_dry { "All" } else { "" },
        ];
        Some(Self {
            labels: labels.map(str::to_owned),
            since: Instant::now(),
        })
    }

    fn took(&self) -> Option<Duration> {
        let is_long = ["WATCH", "CONNECT"].contains(&&*self.labels[0]);
        (!is_long).then(|| self.since.elapsed())
    }
}

impl Requests {
    pub(super) fn answered(&self, asked: &Asked, answer: &Answer) {
        let code = answer.status().as_str().to_owned();
        let labels = asked.labels.each_ref();
        let counted: Vec<&String> = labels.into_iter().chain([&code]).collect();
        self.answered.with_label_values(&counted).inc();
        if let Some(took) = asked.took() {
            let latency = self.latencies.with_label_values(&labels);
            latency.observe(took.as_secs_f64());
        }
    }
}

impl Api {
    /// The answer to `/metrics`.
    pub(super) fn counted(&self) -> Answer {
        let registry = prometheus::Registry::new();
        let objects = Opts::new("apiserver_resource_objects", "Objects that are stored.");
        let objects = IntGaugeVec::new(objects, &["group", "resource"]).expect("good names");
        let (answered, latencies) = (&self.requests.answered, &self.requests.latencies);
        let collectors: [Box<dyn prometheus::core::Collector>; 3] = [
            Box::new(answered.clone()),
            Box::new(latencies.clone()),
            Box::new(objects.clone()),
        ];
        for it in collectors {
            registry.register(it).expect("three names");
        }
        let history = self.store.history();
        let kinds = history.registry();
        let state = history.lock();
        for it in kinds.all().filter(|it| it.computed.is_none()) {
            let number = state.collection(it).objects.len();
            let gauge = objects.with_label_values(&[&it.group, &it.plural]);
            gauge.set(number.try_into().unwrap_or(i64::MAX));
        }
        drop(state);
        let mut text = Vec::new();
        let written = TextEncoder::new().encode(&registry.gather(), &mut text);
        written.expect("memory takes all");
        with_type(
            "text/plain; version=0.0.4; charset=utf-8",
            Content::whole(text),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::header::AUTHORIZATION;

    use super::*;
    use crate::store::{Settings, Store};

    #[test]
    fn requests_are_counted_under_kubernetes_names() {
        let api = Arc::new(Api {
            store: Store::new(Settings::default()),
            logs: None,
            token: "t".to_owned(),
            metrics: None,
            programs: None,
            sessions: crate::Sessions::default(),
            requests: Requests::default(),
            user: "admin".to_owned(),
            tokens: None,
            dial: None,
        });
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let ask = |method: &str, path: &str, kind: &str, body: &'static str| {
            let request = Request::builder().method(method).uri(path);
            let request = request.header(AUTHORIZATION, "Bearer t");
            let request = request.header(CONTENT_TYPE, kind);
            let request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
            let answer = runtime.block_on(api.clone().answer_or_pass(request, false));
            let (head, body) = answer.into_parts();
            (head.status.as_u16(), body)
        };
        let maps = "/api/v1/namespaces/default/configmaps";
        let (json, apply) = ("application/json", "application/apply-patch+yaml");
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        let one = format!("{maps}/a");
        for (method, path, kind, code) in [
            ("POST", maps, json, 201),
            ("POST", maps, json, 409),
            ("GET", maps, json, 200),
            ("GET", "/api/v1/configmaps?watch=true", json, 200),
            ("PATCH", &format!("{one}?fieldManager=m"), apply, 200),
            ("GET", &one, json, 200),
            (
                "GET",
                "/api/v1/namespaces/default/pods/none/exec",
                json,
                404,
            ),
            ("GET", "/version", json, 200),
        ] {
            let answer = ask(method, path, kind, map);
            assert_eq!(answer.0, code, "{method} {path}");
        }
        let (code, Content::Whole(Some(text))) = ask("GET", "/metrics", json, "") else {
            panic!("no metrics");
        };
        let text = std::str::from_utf8(&text).unwrap();
        assert_eq!(code, 200);
        for (verb, scope, code) in [
            ("POST", "resource", 201),
            ("POST", "resource", 409),
            ("LIST", "namespace", 200),
            ("WATCH", "cluster", 200),
            ("APPLY", "resource", 200),
            ("GET", "resource", 200),
        ] {
            let line = format!(
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                 resource=\"configmaps\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}} 1\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
        for line in [
            "resource=\"pods\",scope=\"resource\",subresource=\"exec\",verb=\"CONNECT\",version=\"v1\"} 1\n",
            "apiserver_resource_objects{group=\"\",resource=\"configmaps\"} 1\n",
            "verb=\"LIST\",version=\"v1\",le=\"60\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        // A watch lasts as long as its client wants.
        assert!(!text.contains("verb=\"WATCH\",version=\"v1\",le"), "{text}");
        let secret = Request::get("/metrics").body(Bytes::new()).unwrap();
        let refused = runtime.block_on(api.clone().answer_or_pass(secret, false));
        assert_eq!(refused.status().as_u16(), 401);
    }
}
