//! A cluster as a text picture.

use crate::{
    Client, Cluster, Node, Pod,
    address::{LAN_CIDR_V4, LAN_CIDR_V6},
};

/// Nodes and clients side by side under the LAN, pods below their nodes.
pub(crate) fn draw(cluster: &Cluster) -> String {
    let node = |node: &Node| {
        let pods: Vec<&Pod> = cluster
            .pods
            .iter()
            .filter(|pod| pod.node == node.name)
            .collect();
        column(
            &[
                node.name.clone(),
                node.ipv4().to_string(),
                node.ipv6().to_string(),
            ],
            &pod_lines(&pods),
        )
    };
    let client = |client: &Client| {
        column(
            &[
                client.name.clone(),
                client.ipv4().to_string(),
                client.ipv6().to_string(),
            ],
            &[],
        )
    };
    let columns: Vec<Vec<String>> = cluster
        .nodes
        .iter()
        .map(node)
        .chain(cluster.clients.iter().map(client))
        .collect();
    format!(
        "{} lan  {LAN_CIDR_V4}  {LAN_CIDR_V6}\n{}",
        cluster.prefix,
        beside(&columns)
    )
}

/// One line per pod: its name with its addresses, or with `host network`.
fn pod_lines(pods: &[&Pod]) -> Vec<String> {
    let widest = pods.iter().map(|pod| pod.name.len()).max().unwrap_or(0);
    let line = |pod: &&Pod| {
        let Pod {
            name, ipv4, ipv6, ..
        } = pod;
        if pod.is_host_network() {
            return format!("{name:widest$}  host network");
        }
        format!("{name:widest$}  {ipv4}  {ipv6}")
    };
    pods.iter().map(line).collect()
}

/// A box below the LAN with lines of text, and the pods below the box; all lines have one width.
fn column(inside: &[String], below: &[String]) -> Vec<String> {
    let width = inside.iter().map(|it| it.len()).max().unwrap_or(0);
    let foot = if below.is_empty() { "──" } else { "┬─" };
    let mut lines = vec!["══╤═".to_owned(), format!("┌─┴{}┐", "─".repeat(width))];
    lines.extend(inside.iter().map(|text| format!("│ {text:width$} │")));
    lines.push(format!("└─{foot}{}┘", "─".repeat(width.saturating_sub(1))));
    for (position, text) in below.iter().enumerate() {
        let branch = if position + 1 < below.len() {
            '├'
        } else {
            '└'
        };
        lines.push(format!("  {branch}─ {text}"));
    }
    let widest = lines.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    for (position, line) in lines.iter_mut().enumerate() {
        let fill = if position == 0 { "═" } else { " " };
        line.push_str(&fill.repeat(widest - line.chars().count()));
    }
    lines
}

/// Puts columns side by side, aligned at the top.
fn beside(columns: &[Vec<String>]) -> String {
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for row in 0..height {
        let gap = if row == 0 { "══" } else { "  " };
        let cell = |column: &Vec<String>| {
            let blank = || " ".repeat(column.first().map_or(0, |it| it.chars().count()));
            column.get(row).cloned().unwrap_or_else(blank)
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        text.push_str(cells.join(gap).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_on_one_line() {
        let owned = |lines: &[&str]| lines.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let left = column(
            &owned(&["node-a", "10.0.0.1"]),
            &owned(&["web-1  10.1.0.2", "web-2  10.1.0.3"]),
        );
        let right = column(&owned(&["client"]), &[]);
        let expected = "\
══╤═════════════════════╤═══════
┌─┴────────┐          ┌─┴──────┐
│ node-a   │          │ client │
│ 10.0.0.1 │          └────────┘
└─┬────────┘
  ├─ web-1  10.1.0.2
  └─ web-2  10.1.0.3
";
        assert_eq!(beside(&[left, right]), expected);
    }
}
