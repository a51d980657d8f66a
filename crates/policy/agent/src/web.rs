//! The data of the web page about policies.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use sluice_model::NamespacedName;
use sluice_node::Handle;
use sluice_node::server::{await_answer, plain, query};
use sluice_policy_plan::reach::{Matrix, Reach, reach_within};
use sluice_policy_plan::{Event, Planner};

use crate::Policies;

/// Most connections that are looked up for one answer: a second or two on a thread of its own.
const LOOKED_UP: usize = 500_000;
/// Most lines about pods.
const LINES: usize = 500;

/// Who may talk to whom.
#[derive(Debug, Serialize)]
struct Drawn {
    namespaces: Vec<String>,
    /// A row for each namespace that connects, of `all`, `some`, `none`, or `-` where there is no pair of pods.
    rows: Vec<Vec<String>>,
    /// The pods that have a part in connections of the namespace that was asked about.
    pods: Vec<Line>,
    /// How many more lines there would be.
    left_out: usize,
}

/// What pods may send to others.
#[derive(Debug, Serialize)]
struct Line {
    from: Vec<String>,
    to: Vec<String>,
    /// The traffic; empty: nothing.
    allowed: Vec<String>,
    everything: bool,
}

/// `/api/policy/matrix?namespace=`: who may talk to whom, as `sluice policy matrix` says it, and the pods of one namespace. 404
/// for an agent that enforces no policies.
pub fn data(policies: Option<Handle<Policies>>) -> Router {
    Router::new()
        .route("/api/policy/matrix", get(matrix))
        .with_state(policies)
}

async fn matrix(State(policies): State<Option<Handle<Policies>>>, uri: Uri) -> Response {
    let Some(policies) = policies else {
        let why = "this agent enforces no network policies: start it with --network-policy\n";
        return plain(StatusCode::NOT_FOUND, why);
    };
    let namespace = query(&uri).remove("namespace").unwrap_or_default();
    let objects = match await_answer(policies.ask(|it| it.planner().objects())).await {
        Ok(objects) => objects,
        Err(response) => return response,
    };
    let drawn = tokio::task::spawn_blocking(move || draw(&objects, &namespace)).await;
    match drawn {
        Ok(Some(drawn)) => Json(drawn).into_response(),
        Ok(None) => {
            let why = "there are too many different pods and ports for this page: see `sluice policy matrix`\n";
            plain(StatusCode::UNPROCESSABLE_ENTITY, why)
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn draw(objects: &[Event], namespace: &str) -> Option<Drawn> {
    let mut planner = Planner::of_cluster();
    planner.absorb_all(objects);
    let all = reach_within(&planner, LOOKED_UP)?;
    let matrix = Matrix::of(&all);
    let is_in = |it: &NamespacedName| *it.namespace == *namespace;
    let of_pods = |it: &&Reach| it.from.iter().chain(&it.to).any(is_in);
    let found = all.iter().filter(of_pods);
    let lines = found.clone().take(LINES).map(|it| Line {
        from: texts(&it.from),
        to: texts(&it.to),
        allowed: texts(&it.allowed),
        everything: it.is_everything(),
    });
    Some(Drawn {
        namespaces: matrix.namespaces.iter().map(ToString::to_string).collect(),
        rows: matrix
            .namespaces
            .iter()
            .map(|it| matrix.row(it).collect())
            .collect(),
        pods: lines.collect(),
        left_out: found.count().saturating_sub(LINES),
    })
}

fn texts<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use sluice_policy_plan::testing::{NODE, events, parse};

    use super::*;

    /// The planner of a node knows all objects, and draws all nodes.
    #[test]
    fn the_whole_cluster_is_drawn() {
        let world = parse(
            "ns a team=red
            ns b team=blue
            pod a/web n2 10.0.0.1 app=web
            pod b/one n1 10.0.0.2 app=one
            pod b/two n2 10.0.0.3 app=two
            np a/web ingress from=/app=one port=tcp:80",
        );
        let mut planner = Planner::new(NODE.into());
        planner.absorb_all(&events(&world));
        let drawn = draw(&planner.objects(), "a").expect("it is small");
        assert_eq!(drawn.namespaces, ["a", "b"]);
        assert_eq!(drawn.rows, [["-", "all"], ["some", "all"]]);
        let to_web = drawn.pods.iter().filter(|it| it.to == ["a/web"]);
        let to_web: Vec<_> = to_web.map(|it| (&*it.from[0], &*it.allowed)).collect();
        assert_eq!(
            to_web,
            [("b/one", &["tcp/80".to_owned()][..]), ("b/two", &[])]
        );
        assert_eq!(drawn.left_out, 0);
    }

    #[test]
    fn what_is_too_large_is_not_drawn() {
        let pods = (0..200).map(|it| format!("pod a/p{it} n1 10.0.1.{it} app=p{it}\n"));
        let policies =
            (0..200).map(|it| format!("np a/p{it} ingress pods=app=p{it} port=tcp:{}\n", it + 1));
        let text: String = pods.chain(policies).collect();
        assert!(draw(&events(&parse(&text)), "a").is_none());
    }
}
