//! Connection-tracking entries that outlived the endpoint they lead to.
//!
//! The kernel keeps sending the packets of a known UDP flow where its entry says, whatever the
//! rules say now. A client that never changes its source port would talk to a dead endpoint for
//! ever (Kubernetes issues 125467, 139628). The same happens to a TCP client that dialled while
//! the rules were away: its SYN has an entry that leads to the virtual IP itself, and each SYN it
//! sends again goes the same way.

use std::collections::HashSet;
use std::net::SocketAddr;

use crate::{Frontend, Plan, PortPlan, Route, Verdict};
use sluice_model::Protocol;

/// Entries to delete: flows that clients opened to `frontend`, but for those to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    /// What the client dialled.
    pub frontend: Frontend,
    /// Which flows stay.
    pub keep: Keep,
}

/// Which flows to a frontend stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those to one of these endpoints. Flows that lead nowhere (no endpoint when they began) go.
    Endpoints(Vec<SocketAddr>),
    /// Those to any endpoint: only flows that lead to the frontend itself go.
    Translated,
}

/// What became stale when a service port's plan changed. Only UDP: TCP and SCTP notice by
/// themselves.
#[must_use]
pub fn stale_flows(old: Option<&PortPlan>, new: Option<&PortPlan>) -> Vec<StaleFlows> {
    let udp = [old, new].into_iter().flatten();
    if udp.clone().any(|it| it.key.name.protocol != Protocol::Udp) {
        return Vec::new();
    }
    let frontends = |plan: Option<&PortPlan>| -> Vec<Frontend> {
        let all = plan.into_iter().flat_map(|it| &it.frontends);
        all.map(|it| it.frontend).collect()
    };
    let serving = |plan: Option<&PortPlan>| plan.map(|it| it.serving.clone()).unwrap_or_default();
    let (before, after) = (serving(old), serving(new));
    let (had, has) = (frontends(old), frontends(new));
    let had_set: HashSet<&Frontend> = had.iter().collect();
    let has_set: HashSet<&Frontend> = has.iter().collect();
    let lost_endpoint = before.iter().any(|it| !after.contains(it));
    let first_endpoint = before.is_empty() && !after.is_empty();
    let gone = had.iter().filter(|it| !has_set.contains(it));
    let gone = gone.map(|frontend| StaleFlows {
        frontend: *frontend,
        keep: Keep::Endpoints(Vec::new()),
    });
    let kept = has.iter().filter(|it| {
        let is_new = !had_set.contains(it);
        lost_endpoint || first_endpoint || is_new
    });
    let kept = kept.map(|frontend| StaleFlows {
        frontend: *frontend,
        keep: Keep::Endpoints(after.clone()),
    });
    gone.chain(kept).collect()
}

/// What clients dialled in vain while the rules of a plan were not in place: the flows of every
/// frontend that leads somewhere, unless they were translated.
pub fn untranslated_flows(plan: &Plan) -> Vec<StaleFlows> {
    let planned = plan.ports.values().flat_map(|port| &port.frontends);
    let leads = planned.filter(|it| match it.route {
        Route::Internal(verdict) | Route::External(verdict) => {
            matches!(verdict, Verdict::Balance(_))
        }
        Route::ExternalLocal { .. } => true,
    });
    let stale = leads.map(|it| StaleFlows {
        frontend: it.frontend,
        keep: Keep::Translated,
    });
    stale.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::testing::{NODE, endpoints, planner, service};
    use sluice_model::Event;

    /// `before` and `after`: endpoints of `web`, whose frontends are `10.96.0.1:53` and, when it
    /// says so, an external IP. `expected`: `frontend keeps endpoints`, a line each.
    #[track_caller]
    fn check(protocol: &str, before: Option<&str>, after: Option<&str>, expected: &[&str]) {
        let events = |it: &str| -> Vec<Event> {
            let (members, ext) = match it.strip_suffix(" and 192.0.2.1") {
                Some(members) => (members, "ext=192.0.2.1"),
                None => (it, ""),
            };
            let web = format!("web 10.96.0.1 :53/{protocol} {ext}");
            let members = endpoints(&format!("web:/{protocol}"), members);
            members.into_iter().chain([service(&web)]).collect()
        };
        let plan = |it: Option<&str>| {
            let planner = planner(Settings::for_node(NODE), it.map(events).unwrap_or_default());
            planner.plan().ports.values().next().cloned()
        };
        let stale = stale_flows(plan(before).as_deref(), plan(after).as_deref());
        let stale: Vec<String> = stale
            .iter()
            .map(|it| match &it.keep {
                Keep::Endpoints(keep) => format!("{} keeps {keep:?}", it.frontend),
                Keep::Translated => format!("{} keeps what is translated", it.frontend),
            })
            .collect();
        assert_eq!(stale, expected);
    }

    #[test]
    fn a_lost_endpoint_leaves_stale_flows() {
        check(
            "udp",
            Some("10.0.1.5:53 10.0.1.6:53"),
            Some("10.0.1.6:53"),
            &["10.96.0.1:53/udp keeps [10.0.1.6:53]"],
        );
    }

    #[test]
    fn one_more_endpoint_leaves_none() {
        check(
            "udp",
            Some("10.0.1.5:53"),
            Some("10.0.1.5:53 10.0.1.6:53"),
            &[],
        );
    }

    #[test]
    fn flows_from_before_the_first_endpoint_lead_nowhere() {
        check(
            "udp",
            Some(""),
            Some("10.0.1.5:53"),
            &["10.96.0.1:53/udp keeps [10.0.1.5:53]"],
        );
    }

    #[test]
    fn the_last_endpoint_takes_all_flows_with_it() {
        check(
            "udp",
            Some("10.0.1.5:53"),
            Some(""),
            &["10.96.0.1:53/udp keeps []"],
        );
    }

    #[test]
    fn a_terminating_endpoint_keeps_its_flows() {
        let before = Some("10.0.1.5:53 10.0.1.6:53");
        check("udp", before, Some("10.0.1.5:53~ 10.0.1.6:53"), &[]);
        let after = Some("10.0.1.5:53~! 10.0.1.6:53");
        check(
            "udp",
            before,
            after,
            &["10.96.0.1:53/udp keeps [10.0.1.6:53]"],
        );
    }

    #[test]
    fn a_deleted_service_takes_all_flows_with_it() {
        check(
            "udp",
            Some("10.0.1.5:53"),
            None,
            &["10.96.0.1:53/udp keeps []"],
        );
    }

    #[test]
    fn a_new_service_ends_flows_that_went_past_it() {
        check(
            "udp",
            None,
            Some("10.0.1.5:53"),
            &["10.96.0.1:53/udp keeps [10.0.1.5:53]"],
        );
    }

    #[test]
    fn only_frontends_that_came_or_went() {
        let (with, without) = (Some("10.0.1.5:53 and 192.0.2.1"), Some("10.0.1.5:53"));
        check("udp", with, without, &["192.0.2.1:53/udp keeps []"]);
        check(
            "udp",
            without,
            with,
            &["192.0.2.1:53/udp keeps [10.0.1.5:53]"],
        );
    }

    #[test]
    fn tcp_and_sctp_notice_by_themselves() {
        check("tcp", Some("10.0.1.5:53"), Some(""), &[]);
        check("sctp", Some("10.0.1.5:53"), None, &[]);
    }
}
