//! The trace for a person: a line for each hook and rule, in columns.

use std::fmt;

use sluice_model::Protocol;
use sluice_plane::Sighting;

use super::{Answer, End, Hop, Stage, Trace};

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent_from = self.sent_from.as_deref();
        let (to, protocol) = (self.destination, &self.protocol);
        match sent_from {
            Some(place) => writeln!(f, "trace of a packet to {to}/{protocol} from {place}")?,
            None => writeln!(f, "trace of the first packet to {to}/{protocol}")?,
        }
        write_programs(f, &self.programs)?;
        let widths = widths(self);
        for stage in &self.stages {
            write_stage(f, stage, widths)?;
        }
        let textless = |it: &&Hop| it.handle.is_some() && it.text.is_none();
        match self.hops().filter(textless).count() {
            0 => {}
            1 => line(
                f,
                "missing",
                "the text of a rule, which no program has printed in time",
            )?,
            count => {
                let text =
                    format!("the text of {count} rules, which no program has printed in time");
                line(f, "missing", &text)?;
            }
        }
        for rule in &self.legacy {
            let counted = format!("legacy {} {} (+{})", rule.table, rule.text, rule.packets);
            line(f, "counted", &counted)?;
        }
        write_end(f, &self.end)?;
        match &self.answer {
            Some(Answer::Silence) if *protocol == Protocol::Udp.as_str() => {
                line(f, "answer", "none (few servers answer an empty datagram)")
            }
            Some(answer) => line(f, "answer", &answer.to_string()),
            None => Ok(()),
        }
    }
}

fn write_programs(f: &mut fmt::Formatter<'_>, all: &[Sighting]) -> fmt::Result {
    let width = all.iter().map(|it| it.place.chars().count()).max();
    let Some(width) = width else {
        return Ok(());
    };
    writeln!(f, "  programs")?;
    all.iter().try_for_each(|it| {
        let (place, packet, fate) = (&it.place, &it.packet, &it.fate);
        writeln!(f, "    {place:width$}  {packet}: {fate}")
    })
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "  {name:<11} {text}")
}

/// The columns of a rule that have a width: its place, its number, its verdict.
fn columns(hop: &Hop) -> [String; 3] {
    let place = format!("{} {} {}", hop.family, hop.table, hop.chain);
    let handle = hop.handle.map_or(String::new(), |it| format!("#{it}"));
    [place, handle, hop.verdict.clone()]
}

/// The widths of these columns.
type Widths = [usize; 3];

fn widths(trace: &Trace) -> Widths {
    let lengths = trace
        .hops()
        .map(|it| columns(it).map(|it| it.chars().count()));
    lengths.fold(Widths::default(), |widest, it| {
        std::array::from_fn(|at| widest[at].max(it[at]))
    })
}

fn write_stage(f: &mut fmt::Formatter<'_>, stage: &Stage, widths: Widths) -> fmt::Result {
    let mut text = stage.arrived.map_or(String::new(), |it| it.to_string());
    for (word, interface) in [("in", &stage.incoming), ("out", &stage.outgoing)] {
        if let Some(interface) = interface {
            text += &format!("  {word} {interface}");
        }
    }
    line(f, stage.hook, &text)?;
    let [of_place, of_handle, of_verdict] = widths;
    for hop in &stage.hops {
        let [place, handle, verdict] = columns(hop);
        let text = hop.text.as_ref().or(hop.comment.as_ref());
        let text = text.map_or("", |it| it);
        let row = format!("{place:of_place$}  {handle:of_handle$}  {verdict:of_verdict$}  {text}");
        writeln!(f, "    {}", row.trim_end())?;
    }
    match (stage.arrived, stage.left) {
        (Some(before), Some(after)) if before != after => {
            writeln!(f, "    translated to {after}")
        }
        _ => Ok(()),
    }
}

fn write_end(f: &mut fmt::Formatter<'_>, end: &End) -> fmt::Result {
    line(f, "end", &end.to_string())?;
    if let End::Dropped { hop, .. } = end {
        line(f, "owner", &hop.owner.to_string())?;
    }
    end.causes().iter().try_for_each(|it| line(f, "cause", it))
}

/// Displays as one line, without causes.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered {
                packet, interface, ..
            } => {
                write!(f, "delivered to {} ", packet.destination)?;
                match interface {
                    Some(interface) => write!(f, "through {interface}"),
                    None => f.write_str("on this node"),
                }
            }
            Self::Dropped { hook, hop } => write!(f, "dropped in {hook} by {hop}"),
            Self::Vanished { hook, after, .. } => {
                let after = after.as_ref();
                let after = after.map_or(String::new(), |it| format!(", after {it}"));
                write!(f, "lost in {hook}{after}, by no rule of nftables")
            }
            Self::Unrouted { hook, packet, .. } => {
                write!(
                    f,
                    "lost behind {hook}: the kernel's routing dropped {packet}"
                )
            }
            Self::Unseen { .. } => f.write_str("no packet came"),
            Self::Programs {
                place, act, fate, ..
            } if act.is_denial() => write!(f, "{fate} ({place})"),
            Self::Programs { place, packet, .. } => write!(f, "{packet} ({place})"),
            Self::Unknown => f.write_str(
                "unknown: the kernel dropped reports, try again when there is less traffic",
            ),
        }
    }
}
