//! The answers of the agent's servers about Services.
//!
//! ```text
//! status socket:
//! /connections      connections of service ports and endpoints
//! /explain          ?from=&to=&interface=: what happens to a packet
//! /services         ?pattern=: a line for each Service
//! /service          ?name=namespace/name: one Service with every endpoint
//!
//! web page:
//! /api/syncs        the last 100 syncs, the oldest first
//! /api/services     as `sluice status --services -o json`
//! /api/service      ?name=namespace/name: as `sluice status --service -o json`
//! /api/connections  connections of each Service since the agent started; ?name=namespace/name: as
//!                   `sluice status --connections -o json`, of one Service
//! /api/nodes        the nodes, and how many endpoints are on each
//! /api/node         ?name=: the endpoints on one node
//! /api/explain      ?from=&to=&interface=: as `sluice explain -o json`
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use sluice_model::NamespacedName;
use sluice_node::Page;
use sluice_node::server::{Tags, await_answer, json, plain, query};
use sluice_plan::inventory::{ServiceSummary, ServiceWalk, Walk};
use sluice_plan::topology::{NodeSummary, NodeWalk};
use sluice_plan::{Planner, explain, inventory, topology};

use crate::connections::FOR_PEOPLE;
use crate::metrics::ServiceMetrics;
use crate::questions::Plans;

const BODY: &str = include_str!("web/page/body.html");

/// The program of the page, whose last part starts it.
const SCRIPT: &str = concat!(
    include_str!("web/page/rates.js"),
    include_str!("web/page/services.js"),
    include_str!("web/page/picture.js"),
    include_str!("web/page/service.js"),
    include_str!("web/page/syncs.js"),
    include_str!("web/page/issues.js"),
    include_str!("web/page/explain.js"),
    include_str!("web/page/nodes.js"),
    include_str!("web/page/policies.js"),
    include_str!("web/page/main.js"),
);

/// The page of an agent. Its requests go to paths below its own.
#[must_use]
pub fn page() -> Page {
    Page::new("agent", "", BODY, SCRIPT)
}

/// The paths of the status socket.
pub fn questions(plans: Plans, metrics: Arc<ServiceMetrics>) -> Router {
    Router::new()
        .route("/explain", get(explain))
        .route("/services", get(services))
        .route("/service", get(service))
        .with_state(plans)
        .route("/connections", get(connections))
        .with_state(metrics)
}

/// The paths of the web page's data.
pub fn data(plans: Plans, metrics: Arc<ServiceMetrics>) -> Router {
    let web = Web {
        plans: plans.clone(),
        metrics,
        tags: Tags::now(),
        services: Kept::default(),
        nodes: Kept::default(),
    };
    Router::new()
        .route("/api/syncs", get(tagged::syncs))
        .route("/api/services", get(tagged::services))
        .route("/api/service", get(tagged::service))
        .route("/api/connections", get(tagged::connections))
        .route("/api/nodes", get(tagged::nodes))
        .route("/api/node", get(tagged::node))
        .with_state(web)
        .route("/api/explain", get(explain).with_state(plans))
}

async fn connections(State(metrics): State<Arc<ServiceMetrics>>) -> Response {
    let Some(connections) = metrics.connections() else {
        let why = format!("{}\n", metrics.plane().uncounted);
        return plain(StatusCode::NOT_FOUND, why);
    };
    connections.refresh(FOR_PEOPLE).await;
    Json(connections.report()).into_response()
}

async fn explain(State(plans): State<Plans>, uri: Uri) -> Response {
    let query = query(&uri);
    question(&plans, move |planner| {
        let of = |name| query.get(name).map(String::as_str);
        let (from, to) = (of("from").unwrap_or_default(), of("to").unwrap_or_default());
        explain::answer(planner, from, to, of("interface"))
    })
    .await
}

async fn services(State(plans): State<Plans>, uri: Uri) -> Response {
    let pattern = query(&uri).remove("pattern").unwrap_or_default();
    match plans.walk(ServiceWalk::new(&pattern)).await {
        Ok((_, services)) => text(&services),
        Err(unavailable) => unavailable,
    }
}

async fn service(State(plans): State<Plans>, uri: Uri) -> Response {
    let name = name(&uri);
    question(&plans, move |planner| one_service(planner, &name)).await
}

fn one_service(planner: &Planner, name: &str) -> Result<impl Serialize + use<>, String> {
    let Some((namespace, name)) = name.split_once('/') else {
        let near = inventory::services(planner, name);
        let near: Vec<String> = near.into_iter().map(|it| it.name).collect();
        let hint = match near.len() {
            0 => String::new(),
            _ => format!(": did you mean {}?", inventory::listed(near)),
        };
        return Err(format!("{name:?} is no Service as NAMESPACE/NAME{hint}"));
    };
    let name = NamespacedName::new(namespace, name);
    inventory::service(planner, &name).ok_or_else(|| explain::unknown(&name, planner))
}

/// An answer as JSON.
fn text(answer: &impl Serialize) -> Response {
    match serde_json::to_string(answer) {
        Ok(text) => json(&text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The answer to a question about the plan: JSON, or one line that says why the question is invalid.
async fn question<T: Serialize + Send + 'static, E: fmt::Display>(
    plans: &Plans,
    ask: impl FnOnce(&Planner) -> Result<T, E> + Send + 'static,
) -> Response {
    let ask = move |planner: &Planner| ask(planner).map_err(|it| it.to_string());
    match await_answer(plans.ask(move |facts| ask(facts.planner()))).await {
        Ok(Ok(answer)) => text(&answer),
        Ok(Err(why)) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
        Err(unavailable) => unavailable,
    }
}

/// The parameter `name`; empty without one.
fn name(uri: &Uri) -> String {
    query(uri).remove("name").unwrap_or_default()
}

#[derive(Clone)]
struct Web {
    plans: Plans,
    metrics: Arc<ServiceMetrics>,
    tags: Tags,
    services: Kept<Vec<ServiceSummary>>,
    nodes: Kept<Vec<NodeSummary>>,
}

/// The last answer about all Services with its revision. Who asks meanwhile waits for the same answer.
type Kept<T> = Arc<tokio::sync::Mutex<Option<(u64, T)>>>;

impl Web {
    /// The answer to a question about all Services, unless the client has the answer of this revision.
    async fn walk<W: Walk>(&self, headers: &HeaderMap, kept: &Kept<W::Answer>, walk: W) -> Response
    where
        W::Answer: Serialize,
    {
        let mut kept = kept.lock().await;
        let revision = self.plans.ask(|facts| facts.planner().revision());
        let revision = match await_answer(revision).await {
            Ok(revision) => revision,
            Err(unavailable) => return unavailable,
        };
        if self.tags.known(headers) == Some(&*revision.to_string()) {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        if kept.as_ref().is_none_or(|it| it.0 != revision) {
            match self.plans.walk(walk).await {
                Ok(answer) => *kept = Some(answer),
                Err(unavailable) => return unavailable,
            }
        }
        let (revision, answer) = kept.as_ref().expect("it is made above");
        self.tags.answer(headers, &revision.to_string(), answer)
    }

    /// The answer to a question about the plan, unless the client has the answer of this revision.
    async fn question<T: Serialize + Send + 'static>(
        &self,
        headers: &HeaderMap,
        ask: impl FnOnce(&Planner) -> Result<T, String> + Send + 'static,
    ) -> Response {
        let known = self.tags.known(headers).and_then(|it| it.parse().ok());
        let answer = self.plans.ask(move |facts| {
            let planner = facts.planner();
            let revision = planner.revision();
            let is_news = known != Some(revision);
            (revision, is_news.then(|| ask(planner)))
        });
        match await_answer(answer).await {
            Ok((_, None)) => StatusCode::NOT_MODIFIED.into_response(),
            Ok((revision, Some(Ok(answer)))) => {
                self.tags.answer(headers, &revision.to_string(), &answer)
            }
            Ok((_, Some(Err(why)))) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
            Err(unavailable) => unavailable,
        }
    }
}

/// Answers with an entity tag.
mod tagged {
    use super::*;

    type Shared = State<Web>;

    pub(super) async fn syncs(State(web): Shared, headers: HeaderMap) -> Response {
        match await_answer(web.plans.ask(|facts| facts.syncs())).await {
            Ok(syncs) => web.tags.answer_by_content(&headers, &syncs),
            Err(unavailable) => unavailable,
        }
    }

    pub(super) async fn services(State(web): Shared, headers: HeaderMap) -> Response {
        web.walk(&headers, &web.services, ServiceWalk::new(""))
            .await
    }

    pub(super) async fn service(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
        let name = name(&uri);
        let ask = move |planner: &Planner| one_service(planner, &name);
        web.question(&headers, ask).await
    }

    pub(super) async fn nodes(State(web): Shared, headers: HeaderMap) -> Response {
        web.walk(&headers, &web.nodes, NodeWalk::default()).await
    }

    pub(super) async fn node(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
        let name = name(&uri);
        let ask = move |planner: &Planner| Ok(topology::node(planner, &name));
        web.question(&headers, ask).await
    }

    /// Connections of each Service.
    #[derive(Serialize)]
    struct Totals {
        /// By `namespace/name`, without those that are 0.
        services: BTreeMap<String, u64>,
        /// The reason why connections are not counted; absent where they are.
        #[serde(skip_serializing_if = "Option::is_none")]
        uncounted: Option<&'static str>,
    }

    pub(super) async fn connections(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
        let Some(connections) = web.metrics.connections() else {
            let totals = Totals {
                services: BTreeMap::new(),
                uncounted: Some(web.metrics.plane().uncounted),
            };
            return web.tags.answer(&headers, "uncounted", &totals);
        };
        connections.refresh(FOR_PEOPLE).await;
        let tag = connections.readings().to_string();
        let of_one = query(&uri).remove("name");
        match of_one {
            Some(name) => web
                .tags
                .answer(&headers, &tag, &connections.report_of(&name)),
            None => {
                let totals = Totals {
                    services: connections.totals(),
                    uncounted: None,
                };
                web.tags.answer(&headers, &tag, &totals)
            }
        }
    }
}
