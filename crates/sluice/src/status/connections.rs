//! The connections of Services as a table.

use sluice_agent::{EndpointConnections, ServiceConnections};

use super::{columns, title};

/// Columns of numbers: connections, active, inactive, weight.
const NUMBERS: usize = 4;

/// One line per service port and family. Where the data plane knows the load of each endpoint, a
/// line for each of them follows, and each line has the columns of the load.
pub(super) fn of(all: &[ServiceConnections]) -> String {
    let mut endpoints = all.iter().flat_map(|it| &it.endpoints);
    let has_load = endpoints.any(|it| it.weight.is_some());
    let name = if has_load {
        "service, endpoint"
    } else {
        "service"
    };
    let mut rows = vec![title(
        "connections,active,inactive,weight,,protocol,family,endpoints",
    )];
    name.clone_into(&mut rows[0][NUMBERS]);
    for it in all {
        rows.push(service(it));
        if has_load {
            rows.extend(it.endpoints.iter().map(endpoint));
        }
    }
    if has_load {
        return columns(&rows, NUMBERS);
    }
    for row in &mut rows {
        row.drain(1..NUMBERS);
    }
    columns(&rows, 1)
}

fn service(it: &ServiceConnections) -> Vec<String> {
    let sum = |of: fn(&EndpointConnections) -> Option<u64>| -> String {
        let total: u64 = it.endpoints.iter().filter_map(of).sum();
        total.to_string()
    };
    let mut name = format!("{}/{}", it.namespace, it.service);
    if !it.port.is_empty() {
        name += &format!(":{}", it.port);
    }
    vec![
        it.connections.to_string(),
        sum(|it| it.active),
        sum(|it| it.inactive),
        String::new(),
        name,
        it.protocol.clone(),
        it.family.clone(),
        it.endpoints.len().to_string(),
    ]
}

fn endpoint(it: &EndpointConnections) -> Vec<String> {
    let or_blank = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let draining = if it.draining { " (draining)" } else { "" };
    vec![
        it.connections.to_string(),
        or_blank(it.active),
        or_blank(it.inactive),
        or_blank(it.weight.map(u64::from)),
        format!("  {}{draining}", it.endpoint),
    ]
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
