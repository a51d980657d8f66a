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
    let client = format!("{}: {}", hit.client_reason, hit.masquerade_reason);
    line(f, "client", &client)?;
    if let Some(ranges) = &hit.source_ranges {
        let verb = if ranges.admitted {
            "admits"
        } else {
            "does not admit"
        };
        let allowed = ranges.allowed.join(", ");
        line(f, "ranges", &format!("{allowed} {verb} the client"))?;
    }
    if let Some(seconds) = hit.affinity_seconds {
        let affinity = format!("a client stays with its endpoint for {seconds} s");
        line(f, "affinity", &affinity)?;
    }
    if let Some(topology) = &hit.topology {
        line(f, "topology", topology)?;
    }
    if hit.endpoints.is_empty() {
        line(f, "endpoints", "none")
    } else {
        write_members(f, &hit.endpoints)
    }
}

fn write_members(f: &mut fmt::Formatter<'_>, members: &[Member]) -> fmt::Result {
    writeln!(f, "  endpoints")?;
    let name = |it: &Option<String>| it.clone().unwrap_or_else(|| "-".into());
    let rows = members.iter().map(|it| {
        let included = if it.included { "in" } else { "out" };
        (
            it.address.to_string(),
            included,
            name(&it.pod),
            name(&it.node),
            &it.reason,
        )
    });
    let rows: Vec<_> = rows.collect();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let of_address = widest(&mut rows.iter().map(|it| it.0.len()));
    let of_pod = widest(&mut rows.iter().map(|it| it.2.chars().count()));
    let of_node = widest(&mut rows.iter().map(|it| it.3.chars().count()));
    for (address, included, pod, node, reason) in &rows {
        let row = format!(
            "{address:of_address$}  {included:3}  {pod:of_pod$}  {node:of_node$}  {reason}"
        );
        writeln!(f, "    {}", row.trim_end())?;
    }
    Ok(())
}
