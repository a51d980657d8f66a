//! Connection-tracking entries that lead to an endpoint that is gone.
//!
//! The kernel sends the packets of a known UDP flow where its entry says, whatever the rules say
//! now. A client that never changes its source port would talk to a dead endpoint for ever
//! (Kubernetes issues 125467, 139628). The same happens to a TCP client that dialled while the
//! rules were missing: the entry of its SYN leads to the virtual IP itself, and so does each SYN
//! that it sends again.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::{Frontend, Plan, PortPlan, Route, Verdict};

/// Entries to delete: the flows to `frontend`, except those to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    /// The destination that clients dialled.
    pub frontend: Frontend,
    /// The flows that stay.
    pub keep: Keep,
}

/// The flows to a frontend that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Flows to one of these endpoints.
    Endpoints(Vec<SocketAddr>),
    /// Flows to any endpoint. Flows that lead to the frontend itself are deleted.
    Translated,
}

/// The flows that a change of a service port's plan makes stale: of UDP, and of TCP where the settings say so.
/// Other clients notice a dead endpoint by themselves.
#[must_use]
pub fn stale_flows<'a>(old: Option<&'a PortPlan>, new: Option<&'a PortPlan>) -> Vec<StaleFlows> {
    let mut plans = [old, new].into_iter().flatten();
    if plans.any(|it| it.serving.is_none()) {
        return Vec::new();
    }
    let frontends = |plan: Option<&PortPlan>| -> BTreeSet<Frontend> {
        let all = plan.into_iter().flat_map(|it| &it.frontends);
        all.map(|it| it.frontend).collect()
    };
    let (before, after) = (frontends(old), frontends(new));
    let serving =
        |it: Option<&'a PortPlan>| it.and_then(|it| it.serving.as_deref()).unwrap_or_default();
    let (was_serving, serving) = (serving(old), serving(new));
    let is_first = was_serving.is_empty() && !serving.is_empty();
    let is_changed = is_first || was_serving.iter().any(|it| !serving.contains(it));
    let stale = |frontend: &Frontend, endpoints: &[SocketAddr]| StaleFlows {
        frontend: *frontend,
        keep: Keep::Endpoints(endpoints.to_vec()),
    };
    let gone = before.difference(&after).map(|it| stale(it, &[]));
    let there = after.iter();
    let there = there.filter(|it| is_changed || !before.contains(it));
    gone.chain(there.map(|it| stale(it, serving))).collect()
}

/// The flows that clients opened while the rules of a plan were missing: those to each frontend
/// with endpoints, unless they are translated.
pub fn untranslated_flows(plan: &Plan) -> Vec<StaleFlows> {
    let frontends = plan.ports.values().flat_map(|port| &port.frontends);
    let balanced = frontends.filter(|it| match it.route {
        Route::Internal(verdict) | Route::External(verdict) => {
            matches!(verdict, Verdict::Balance(_))
        }
        Route::ExternalLocal { .. } => true,
    });
    let stale = balanced.map(|it| StaleFlows {
        frontend: it.frontend,
        keep: Keep::Translated,
    });
    stale.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::settings::Settings;
    use crate::testing::{NODE, endpoints, planner, service};

    /// `before` and `after`: endpoints of `web`, whose frontends are `10.96.0.1:53` and, when it
    /// says so, an external IP. `expected`: `frontend keeps endpoints`, a line each.
    #[track_caller]
    fn check(protocol: &str, before: Option<&str>, after: Option<&str>, expected: &[&str]) {
        check_with(&Settings::for_node(NODE), protocol, before, after, expected);
    }

    #[track_caller]
    fn check_with(
        settings: &Settings,
        protocol: &str,
        before: Option<&str>,
        after: Option<&str>,
        expected: &[&str],
    ) {
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
            let planner = planner(settings.clone(), it.map(events).unwrap_or_default());
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

    #[test]
    fn tcp_where_the_settings_say_so() {
        let settings = Settings {
            stale_tcp: true,
            ..Settings::for_node(NODE)
        };
        let before = Some("10.0.1.5:53 10.0.1.6:53");
        let lost = &["10.96.0.1:53/tcp keeps [10.0.1.6:53]"];
        check_with(&settings, "tcp", before, Some("10.0.1.6:53"), lost);
        check_with(
            &settings,
            "tcp",
            before,
            Some("10.0.1.5:53~ 10.0.1.6:53"),
            &[],
        );
        check_with(&settings, "sctp", before, Some("10.0.1.6:53"), &[]);
    }
}
