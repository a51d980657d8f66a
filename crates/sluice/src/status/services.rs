//! Services as tables.

use std::collections::HashMap;
use std::fmt::Write;

use sluice_agent::ServiceConnections;
use sluice_plan::inventory::{
    EndpointDetail, FrontendDetail, Group, PortDetail, ServiceDetail, ServiceSummary,
};

use super::{columns, pair, title};

/// Frontends that a line of a Service shows.
const FRONTENDS: usize = 2;

/// A line for each Service. `connections` are `None` where they are not counted.
pub(super) fn table(all: &[ServiceSummary], connections: Option<&[ServiceConnections]>) -> String {
    let mut totals: HashMap<String, u64> = HashMap::new();
    for it in connections.into_iter().flatten() {
        let name = format!("{}/{}", it.namespace, it.service);
        *totals.entry(name).or_default() += it.connections;
    }
    let mut rows = vec![title("service,type,ready,issues,connections,frontends")];
    rows.extend(all.iter().map(|it| {
        let total = totals.get(&it.name).copied().unwrap_or_default();
        vec![
            it.name.clone(),
            it.kind.clone(),
            format!("{}/{}", it.ready, it.endpoints),
            it.issues.len().to_string(),
            connections.map_or_else(|| "-".to_owned(), |_| total.to_string()),
            frontends(&it.frontends),
        ]
    }));
    columns(&rows, 0)
}

fn frontends(all: &[String]) -> String {
    match all.len() {
        0 => "-".to_owned(),
        1..=FRONTENDS => all.join(", "),
        count => format!(
            "{} and {} more",
            all[..FRONTENDS].join(", "),
            count - FRONTENDS
        ),
    }
}

/// One Service with every endpoint.
pub(super) fn detail(
    service: &ServiceDetail,
    connections: Option<&[ServiceConnections]>,
) -> String {
    let summary = &service.summary;
    let (internal, external) = (&service.internal_policy, &service.external_policy);
    let mut rows = vec![
        pair("service", &format!("{} ({})", summary.name, summary.kind)),
        pair(
            "policies",
            &format!("{internal}, {external} (internal, external)"),
        ),
    ];
    if let Some(seconds) = service.affinity_seconds {
        let text = format!("a client stays with its endpoint for {seconds} s");
        rows.push(pair("affinity", &text));
    }
    if service.slices.is_empty() {
        rows.push(pair("slices", &"none"));
    }
    rows.extend(service.slices.iter().map(|it| {
        let (name, family, ports) = (&it.name, &it.address_type, it.ports.join(", "));
        let (ready, all) = (it.ready, it.endpoints);
        pair(
            "slice",
            &format!("{name} ({family}): {ports}; {ready} of {all} ready"),
        )
    }));
    rows.extend(summary.issues.iter().map(|it| pair("issue", it)));
    rows.extend(service.problems.iter().map(|it| pair("problem", it)));
    let mut text = columns(&rows, 0);
    for port in &service.ports {
        write_port(&mut text, &summary.name, port, connections);
    }
    text
}

fn write_port(
    text: &mut String,
    service: &str,
    port: &PortDetail,
    connections: Option<&[ServiceConnections]>,
) {
    let name = match &*port.port {
        "" => "port".to_owned(),
        name => format!("port {name}"),
    };
    let frontends = if port.frontends.is_empty() {
        "no frontend".to_owned()
    } else {
        port.frontends.join(", ")
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n{name} ({}, {}): {frontends}",
        port.protocol, port.family
    );
    for way in &port.ways {
        let _ = writeln!(text, "  {}", self::way(way));
    }
    if port.endpoints.is_empty() {
        text.push_str("  no endpoints\n");
        return;
    }
    let counted = connections.into_iter().flatten().find(|it| {
        format!("{}/{}", it.namespace, it.service) == service
            && (&it.port, &it.protocol, &it.family) == (&port.port, &port.protocol, &port.family)
    });
    let mut rows = vec![title(
        "  endpoint,,node,zone,pod,conditions,connections,why",
    )];
    rows.extend(port.endpoints.iter().map(|it| {
        let of_endpoint = counted.into_iter().flat_map(|it| &it.endpoints);
        let address = it.address.to_string();
        let count = of_endpoint
            .filter(|count| count.endpoint == address)
            .map(|it| it.connections);
        let count = connections.map(|_| count.sum::<u64>());
        endpoint(it, count)
    }));
    text.push_str(&columns(&rows, 0));
}

/// A frontend with the endpoints behind it.
fn way(it: &FrontendDetail) -> String {
    let all = it.used.count + it.unused.iter().map(|it| it.count).sum::<usize>();
    let used = match it.used.count {
        1 if all == 1 => "its endpoint".to_owned(),
        count if count == all => format!("all {all} endpoints"),
        0 => format!("none of {all} endpoints"),
        count => format!("{count} of {all} endpoints: {}", addresses(&it.used)),
    };
    let unused = it.unused.iter();
    let unused = unused.map(|it| format!("; {}: {}", it.reason, addresses(it)));
    let unused: String = unused.collect();
    format!(
        "{} ({}, policy {}): {used}{unused}",
        it.frontend, it.role, it.policy
    )
}

fn addresses(group: &Group) -> String {
    let listed: Vec<String> = group.first.iter().map(ToString::to_string).collect();
    match group.count - listed.len() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn endpoint(it: &EndpointDetail, connections: Option<u64>) -> Vec<String> {
    let name = |it: &Option<String>| it.clone().unwrap_or_else(|| "-".to_owned());
    let node = if it.local {
        format!("{} (here)", name(&it.node))
    } else {
        name(&it.node)
    };
    vec![
        format!("  {}", it.address),
        if it.included { "in" } else { "out" }.to_owned(),
        node,
        name(&it.zone),
        name(&it.pod),
        conditions(it),
        connections.map_or_else(|| "-".to_owned(), |it| it.to_string()),
        it.reason.clone(),
    ]
}

/// Whether an endpoint is ready, in words.
pub(crate) fn conditions(it: &EndpointDetail) -> String {
    let conditions = [
        (it.ready, "ready"),
        (it.serving && !it.ready, "serving"),
        (it.terminating, "terminating"),
    ];
    let conditions = conditions.into_iter().filter(|it| it.0);
    let conditions: Vec<&str> = conditions.map(|it| it.1).collect();
    if conditions.is_empty() {
        "not ready".to_owned()
    } else {
        conditions.join(", ")
    }
}
