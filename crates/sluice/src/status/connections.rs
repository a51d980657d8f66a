//! The connections of Services for people.

use sluice_node::{EndpointConnections, ServiceConnections};

/// One line per service port and family, in the order given. Where the data plane knows how each
/// endpoint is doing, a line for each of them follows.
pub(super) fn of(all: &[ServiceConnections]) -> String {
    let endpoints = || all.iter().flat_map(|it| &it.endpoints);
    match endpoints().any(|it| it.weight.is_some()) {
        true => with_endpoints(all),
        false => table(
            ["connections", "service", "protocol", "family", "endpoints"],
            1,
            all.iter().map(service),
        ),
    }
}

fn with_endpoints(all: &[ServiceConnections]) -> String {
    let title = [
        "connections",
        "active",
        "inactive",
        "weight",
        "service, endpoint",
        "protocol",
        "family",
        "endpoints",
    ];
    let rows = all.iter().flat_map(|it| {
        let [connections, name, protocol, family, endpoints] = service(it);
        let sum = |of: fn(&EndpointConnections) -> Option<u64>| -> String {
            let total: u64 = it.endpoints.iter().filter_map(of).sum();
            total.to_string()
        };
        let first = [
            connections,
            sum(|it| it.active),
            sum(|it| it.inactive),
            String::new(),
            name,
            protocol,
            family,
            endpoints,
        ];
        std::iter::once(first).chain(it.endpoints.iter().map(endpoint))
    });
    table(title, 4, rows)
}

fn endpoint(it: &EndpointConnections) -> [String; 8] {
    let or_blank = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let mut name = format!("  {}", it.endpoint);
    if it.draining {
        name += " (draining)";
    }
    [
        it.connections.to_string(),
        or_blank(it.active),
        or_blank(it.inactive),
        or_blank(it.weight.map(u64::from)),
        name,
        String::new(),
        String::new(),
        String::new(),
    ]
}

fn service(it: &ServiceConnections) -> [String; 5] {
    let mut name = format!("{}/{}", it.namespace, it.service);
    if !it.port.is_empty() {
        name += &format!(":{}", it.port);
    }
    [
        it.connections.to_string(),
        name,
        it.protocol.clone(),
        it.family.clone(),
        it.endpoints.len().to_string(),
    ]
}

/// Lines of columns, the first few of which are numbers.
fn table<const N: usize>(
    title: [&str; N],
    numbers: usize,
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = [title.map(str::to_owned)].into_iter().chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column < numbers {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(
        service: &str,
        port: &str,
        connections: u64,
        endpoints: Vec<EndpointConnections>,
    ) -> ServiceConnections {
        ServiceConnections {
            namespace: "default".to_owned(),
            service: service.to_owned(),
            port: port.to_owned(),
            protocol: "tcp".to_owned(),
            family: "IPv4".to_owned(),
            connections,
            endpoints,
        }
    }

    #[test]
    fn numbers_end_and_names_begin_in_one_column() {
        let endpoints = |count| vec![EndpointConnections::default(); count];
        let all = vec![
            service("web", "http", 12_345, endpoints(3)),
            service("api", "", 7, endpoints(1)),
        ];
        let expected = "\
connections  service           protocol  family  endpoints
      12345  default/web:http  tcp       IPv4    3
          7  default/api       tcp       IPv4    1
";
        assert_eq!(of(&all), expected);
    }

    #[test]
    fn endpoints_follow_their_service_where_their_load_is_known() {
        let endpoint = |endpoint: &str, connections, weight, active| EndpointConnections {
            endpoint: endpoint.to_owned(),
            connections,
            weight: Some(weight),
            active: Some(active),
            inactive: Some(1),
            draining: weight == 0,
        };
        let of_web = vec![
            endpoint("10.244.1.7:8080", 12_000, 100, 40),
            endpoint("10.244.1.8:8080", 345, 0, 2),
        ];
        let of_api = vec![endpoint("10.244.1.9:80", 7, 1, 0)];
        let all = vec![
            service("web", "http", 12_345, of_web),
            service("api", "", 7, of_api),
            service("new", "", 0, Vec::new()),
        ];
        let expected = "\
connections  active  inactive  weight  service, endpoint             protocol  family  endpoints
      12345      42         2          default/web:http              tcp       IPv4    2
      12000      40         1     100    10.244.1.7:8080
        345       2         1       0    10.244.1.8:8080 (draining)
          7       0         1          default/api                   tcp       IPv4    1
          7       0         1       1    10.244.1.9:80
          0       0         0          default/new                   tcp       IPv4    0
";
        assert_eq!(of(&all), expected);
    }
}
