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
            &pods.iter().copied().map(pod_lines).collect::<Vec<_>>(),
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
    let rows = rows(columns)
        .iter()
        .map(|it| beside(it))
        .collect::<Vec<_>>();
    format!(
        "{} lan  {LAN_CIDR_V4}  {LAN_CIDR_V6}\n{}",
        cluster.prefix,
        rows.join("\n")
    )
}

/// A box below the LAN with lines of text, and below the box the lines of each pod; all lines have one
/// width.
fn column(inside: &[String], pods: &[Vec<String>]) -> Vec<String> {
    let width = inside.iter().map(|it| it.len()).max().unwrap_or(0);
    let foot = if pods.is_empty() { "──" } else { "┬─" };
    let mut lines = vec!["══╤═".to_owned(), format!("┌─┴{}┐", "─".repeat(width))];
    lines.extend(inside.iter().map(|text| format!("│ {text:width$} │")));
    lines.push(format!("└─{foot}{}┘", "─".repeat(width.saturating_sub(1))));
    for (position, pod) in pods.iter().enumerate() {
        let (branch, stem) = if position + 1 < pods.len() {
            ("├─", "│ ")
        } else {
            ("└─", "  ")
        };
        let before = [branch].into_iter().chain(std::iter::repeat(stem));
        lines.extend(
            before
                .zip(pod)
                .map(|(before, line)| format!("  {before} {line}")),
        );
    }
    let widest = lines.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    for (position, line) in lines.iter_mut().enumerate() {
        let fill = if position == 0 { "═" } else { " " };
        line.push_str(&fill.repeat(widest - line.chars().count()));
    }
    lines
}

/// A pod with its addresses, IPv6 below IPv4: two nodes and a client are less than 80 characters wide.
fn pod_lines(pod: &Pod) -> Vec<String> {
    let name = &pod.name;
    if pod.is_host_network() {
        return vec![format!("{name}  host network")];
    }
    let indent = name.len();
    vec![
        format!("{name}  {}", pod.ipv4),
        format!("{:indent$}  {}", "", pod.ipv6),
    ]
}

/// Columns in rows of at most 80 characters.
fn rows(columns: Vec<Vec<String>>) -> Vec<Vec<Vec<String>>> {
    let mut rows: Vec<Vec<Vec<String>>> = Vec::new();
    let mut used = 0;
    for column in columns {
        let width = column.first().map_or(0, |it| it.chars().count() + 2);
        match rows.last_mut() {
            Some(row) if used + width <= 82 => row.push(column),
            _ => {
                rows.push(vec![column]);
                used = 0;
            }
        }
        used += width;
    }
    rows
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
        let pod = |text: &[&str]| owned(text);
        let left = column(
            &owned(&["node-a", "10.0.0.1"]),
            &[
                pod(&["web-1  10.1.0.2", "       fd00::2"]),
                pod(&["web-2  10.1.0.3"]),
            ],
        );
        let right = column(&owned(&["client"]), &[]);
        let expected = "\
══╤═════════════════════╤═══════
┌─┴────────┐          ┌─┴──────┐
│ node-a   │          │ client │
│ 10.0.0.1 │          └────────┘
└─┬────────┘
  ├─ web-1  10.1.0.2
  │         fd00::2
  └─ web-2  10.1.0.3
";
        assert_eq!(beside(&[left.clone(), right]), expected);
        let four = rows(vec![left; 4]);
        assert_eq!(four.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    }
}
