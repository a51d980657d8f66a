//! The result for a person: lines that line up below those of an explanation.

use std::fmt;

use super::{Evidence, Live};

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |of: fn(&Evidence) -> &str| {
            let widths = self.evidence.iter().map(|it| of(it).chars().count());
            widths.max().unwrap_or(0)
        };
        let (what, text) = (widest(|it| &it.what), widest(|it| &it.text));
        if self.evidence.is_empty() {
            writeln!(f, "  kernel    has nothing about this packet")?
        } else {
            writeln!(f, "  kernel")?
        }
        for it in &self.evidence {
            let row = format!("{:what$}  {:text$}  {}", it.what, it.text, counters(it));
            writeln!(f, "    {}", row.trim_end())?;
        }
        if self.differences.is_empty() {
            return write!(f, "  differs   nothing: the kernel does what the plan says");
        }
        let lines = self
            .differences
            .iter()
            .map(|it| format!("  differs   {it}"));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

fn counters(evidence: &Evidence) -> String {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let packets = evidence
        .packets
        .map(|it| format!("{it} packet{}", plural(it)));
    let bytes = evidence.bytes.map(|it| format!("{it} byte{}", plural(it)));
    let both: Vec<String> = packets.into_iter().chain(bytes).collect();
    both.join(", ")
}
