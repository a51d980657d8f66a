//! The explanation for a person: a few lines that line up.

use std::fmt;

use crate::explain::{Explanation, Hit, Member};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} → {}/{}",
            self.source, self.destination, self.protocol
        )?;
        if let Some(interface) = &self.interface {
            write!(f, " via {interface}")?;
        }
        writeln!(f, " on {}", self.node)?;
        match &self.service {
            Some(hit) => write_hit(f, hit)?,
            None => line(f, "service", "none")?,
        }
        for note in &self.notes {
            line(f, "note", note)?;
        }
        write!(f, "  {:<9} {}", "verdict", self.reason)
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "  {name:<9} {text}")
}

fn write_hit(f: &mut fmt::Formatter<'_>, hit: &Hit) -> fmt::Result {
    line(f, "service", &format!("{} ({})", hit.port, hit.role))?;
    line(f, "policy", &hit.policy)?;
    line(
        f,
        "client",
        &format!("{}: {}", hit.client_reason, hit.masquerade_reason),
    )?;
    if let Some(ranges) = &hit.source_ranges {
        let admitted = if ranges.admitted {
            "admits"
        } else {
            "does not admit"
        };
        let allowed = ranges.allowed.join(", ");
        line(f, "ranges", &format!("{allowed} {admitted} the client"))?;
    }
    if let Some(seconds) = hit.affinity_seconds {
        line(
            f,
            "affinity",
            &format!("a client stays with its endpoint for {seconds} s"),
        )?;
    }
    if let Some(topology) = &hit.topology {
        line(f, "topology", topology)?;
    }
    match hit.endpoints.is_empty() {
        true => line(f, "endpoints", "none"),
        false => write_members(f, &hit.endpoints),
    }
}

fn write_members(f: &mut fmt::Formatter<'_>, members: &[Member]) -> fmt::Result {
    writeln!(f, "  endpoints")?;
    let rows: Vec<[String; 5]> = members
        .iter()
        .map(|it| {
            [
                it.address.to_string(),
                if it.included { "in" } else { "out" }.into(),
                it.pod.clone().unwrap_or_else(|| "-".into()),
                it.node.clone().unwrap_or_else(|| "-".into()),
                it.reason.clone(),
            ]
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = [width(0), 3, width(2), width(3)];
    for row in &rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(widths) {
            text += &format!("{cell:<width$}  ");
        }
        text += &row[4];
        writeln!(f, "    {}", text.trim_end())?;
    }
    Ok(())
}
