//! Pictures for a terminal.

use std::fmt;

use crate::topology::{NodeBox, PodBox, Topology};
use crate::way::{Target, Way};

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = self
            .nodes
            .iter()
            .flat_map(|it| &it.pods)
            .chain(&self.unscheduled);
        let cells: Vec<[String; 4]> = pods.map(pod_cells).collect();
        let widths = widths(&cells);
        let mut cells = cells.iter();
        for node in &self.nodes {
            writeln!(f, "{}", head(node))?;
            branches(f, cells.by_ref().take(node.pods.len()), &widths)?;
        }
        if !self.unscheduled.is_empty() {
            writeln!(f, "no node")?;
            branches(f, cells, &widths)?;
        }
        let rows = self.services.iter().map(|it| {
            [
                it.name.clone(),
                it.kind.clone(),
                format!("{}/{}", it.ready, it.endpoints),
                it.frontends.join(", "),
            ]
        });
        let titles = ["SERVICE", "TYPE", "READY", "FRONTENDS"].map(str::to_owned);
        let rows: Vec<[String; 4]> = [titles].into_iter().chain(rows).collect();
        let widths = self::widths(&rows);
        writeln!(f)?;
        rows.iter()
            .try_for_each(|it| writeln!(f, "{}", line(it, &widths)))
    }
}

fn head(node: &NodeBox) -> String {
    let state = match (node.ready, node.unschedulable) {
        (false, _) => "not ready",
        (true, true) => "ready, cordoned",
        (true, false) => "ready",
    };
    let parts = [
        Some(&*node.name),
        node.addresses.first().map(String::as_str),
        node.zone.as_deref(),
        Some(&*node.mode),
        Some(state),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn pod_cells(pod: &PodBox) -> [String; 4] {
    let address = pod.addresses.first();
    [
        pod.name.clone(),
        address.map_or_else(|| "-".to_owned(), Clone::clone),
        pod.state.as_str().to_owned(),
        pod.services.join(", "),
    ]
}

/// Rows below a line, as branches of it.
fn branches<'a>(
    f: &mut fmt::Formatter<'_>,
    rows: impl Iterator<Item = &'a [String; 4]>,
    widths: &[usize; 4],
) -> fmt::Result {
    let mut rows = rows.peekable();
    while let Some(row) = rows.next() {
        let branch = if rows.peek().is_some() {
            "├─"
        } else {
            "└─"
        };
        writeln!(f, "{branch} {}", line(row, widths))?;
    }
    Ok(())
}

fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    let width = |column: usize| {
        let cells = rows.iter().map(|it| it[column].chars().count());
        cells.max().unwrap_or_default()
    };
    std::array::from_fn(width)
}

fn line<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .map(|(it, width)| format!("{it:width$}"));
    let line = cells.collect::<Vec<_>>().join("  ");
    line.trim_end().to_owned()
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.client, self.address)?;
        writeln!(
            f,
            "│ dials {}  ({} of {})",
            self.dialled, self.role, self.service
        )?;
        match &self.rules {
            None => writeln!(f, "no rules: DNS names the endpoints themselves")?,
            Some(rules) => {
                writeln!(f, "rules of {}", rules.node)?;
                for it in &rules.sentences {
                    writeln!(f, "│ {it}")?;
                }
                writeln!(f, "│ {}", rules.reason)?;
            }
        }
        let cells: Vec<[String; 4]> = self.endpoints.iter().map(target_cells).collect();
        let widths = widths(&cells);
        for (at, (target, row)) in self.endpoints.iter().zip(&cells).enumerate() {
            let corner = if at + 1 == cells.len() { "└" } else { "├" };
            let arrow = if target.included || target.share.is_some() {
                format!("─{:>5} ─▶", target.percent().unwrap_or_default())
            } else {
                "─    ✗   ".to_owned()
            };
            writeln!(f, "{corner}{arrow} {}", line(row, &widths))?;
        }
        self.notes().iter().try_for_each(|it| writeln!(f, "{it}"))
    }
}

fn target_cells(target: &Target) -> [String; 4] {
    let sees = target.sees.as_ref().map(|it| format!("sees {it}"));
    let about = [sees.unwrap_or_default(), target.reason.clone()];
    let about: Vec<String> = about.into_iter().filter(|it| !it.is_empty()).collect();
    [
        target.pod.clone().unwrap_or_else(|| "-".to_owned()),
        target.address.to_string(),
        target.node.clone().unwrap_or_else(|| "-".to_owned()),
        about.join(", "),
    ]
}
