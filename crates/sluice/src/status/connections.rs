//! The connections of Services for people.

use sluice_agent::ServiceConnections;

/// One line per service port and family, in the order given.
pub(super) fn of(all: &[ServiceConnections]) -> String {
    let title = ["connections", "service", "protocol", "family", "endpoints"].map(str::to_owned);
    let rows: Vec<[String; 5]> = [title].into_iter().chain(all.iter().map(row)).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|it| it[column].chars().count());
        lengths.max().unwrap_or_default()
    };
    let [count, name, protocol, family] = [0, 1, 2, 3].map(width);
    let lines = rows.iter().map(|[a, b, c, d, e]| {
        format!("{a:>count$}  {b:name$}  {c:protocol$}  {d:family$}  {e}\n")
    });
    lines.collect()
}

fn row(it: &ServiceConnections) -> [String; 5] {
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

#[cfg(test)]
mod tests {
    use sluice_agent::EndpointConnections;

    use super::*;

    #[test]
    fn numbers_end_and_names_begin_in_one_column() {
        let service = |service: &str, port: &str, connections, endpoints| ServiceConnections {
            namespace: "default".to_owned(),
            service: service.to_owned(),
            port: port.to_owned(),
            protocol: "tcp".to_owned(),
            family: "IPv4".to_owned(),
            connections,
            endpoints: vec![EndpointConnections::default(); endpoints],
        };
        let all = vec![service("web", "http", 12_345, 3), service("api", "", 7, 1)];
        let expected = "\
connections  service           protocol  family  endpoints
      12345  default/web:http  tcp       IPv4    3
          7  default/api       tcp       IPv4    1
";
        assert_eq!(of(&all), expected);
    }
}
