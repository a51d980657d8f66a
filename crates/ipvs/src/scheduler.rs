//! How virtual servers choose among their real servers.

use std::sync::Arc;

use sluice_core::plan::{Pool, PortPlan};

use crate::object::{Balancing, Hashing, Server};

/// How a virtual server of this port chooses. `usual`: the scheduler of Services that ask for none.
pub(crate) fn balancing(
    port: &PortPlan,
    usual: &Arc<str>,
    server: &Server,
    pool: Option<&Pool>,
) -> Balancing {
    let persistence = port.affinity_seconds;
    if persistence.is_some() && matches!(server, Server::Mark(..)) {
        // A persistent virtual server of a mark does not translate ports
        // (`ip_vs_sched_persist`, ip_vs_core.c), so its clients stay by hash.
        return Balancing {
            scheduler: "mh".into(),
            hashing: Hashing {
                fallback: true,
                port: false,
            },
            persistence: None,
        };
    }
    let scheduler = match &port.scheduler {
        Some(asked) => asked.clone(),
        None => weighted(usual, pool),
    };
    Balancing {
        hashing: Hashing {
            // Without it, clients whose bucket is a real server that drains are refused
            // (`ip_vs_sh_get`, ip_vs_sh.c; `ip_vs_mh_get`, ip_vs_mh.c, whose buckets follow the
            // last weight that was not 0).
            fallback: matches!(&*scheduler, "sh" | "mh"),
            // kube-proxy's choice: without it `mh` has no chance against clients behind NAT.
            port: &*scheduler == "mh",
        },
        scheduler,
        persistence,
    }
}

/// The scheduler that minds weights, where the pool has any that differ: the one that nobody asked
/// for in particular would ignore them.
fn weighted(scheduler: &Arc<str>, pool: Option<&Pool>) -> Arc<str> {
    let weights = pool.into_iter().flat_map(Pool::endpoints);
    let mut weights = weights.map(|it| it.weight).filter(|it| *it > 0);
    let first = weights.next();
    let differ = weights.any(|it| Some(it) != first);
    match &**scheduler {
        "rr" if differ => "wrr".into(),
        "lc" if differ => "wlc".into(),
        _ => scheduler.clone(),
    }
}
