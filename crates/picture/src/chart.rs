//! Numbers as bars: for a terminal, and as a drawing.
//!
//! The scale is logarithmic, because what is compared differs by powers of ten. Each bar has its number beside it.

use std::fmt;

use serde::Serialize;

use crate::drawing::{Canvas, Drawing, Font, Rectangle};

/// Bars of one quantity, in groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// The quantity with its unit.
    pub title: String,
    /// The groups, in their order.
    pub groups: Vec<Group>,
}

/// Bars that are compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// What the bars have in common.
    pub name: String,
    /// Name and value of each bar. `None`: there is no measurement.
    pub bars: Vec<(String, Option<f64>)>,
}

/// The longest bar of a terminal, in characters.
const WIDTH: f64 = 32.0;

/// Pixels of a drawing.
const MARGIN: u32 = 14;
const HEAD: u32 = 26;
const ROW: u32 = 18;
const GAP: u32 = 8;
const NAME: u32 = 74;
const NUMBER: u32 = 64;
const PANEL: u32 = 430;

/// Colours of bars by their place in a group, of those that the style sheet has.
const COLOURS: [&str; 4] = ["--accent", "--good", "--warn", "--quiet"];

impl Chart {
    /// The power of ten below every value, and how many powers the bars span.
    fn scale(&self) -> Option<(f64, f64)> {
        let values = self.groups.iter().flat_map(|it| &it.bars);
        let values = values.filter_map(|(_, it)| it.filter(|it| *it > 0.0));
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        (high > 0.0).then(|| {
            let (first, last) = (low.log10().floor(), high.log10().ceil());
            (first, (last - first).max(1.0))
        })
    }

    /// The length of a bar, from 0 to 1. A value of zero has none.
    fn share(&self, value: f64) -> f64 {
        match self.scale() {
            Some((first, powers)) if value > 0.0 => {
                ((value.log10() - first) / powers).clamp(0.01, 1.0)
            }
            _ => 0.0,
        }
    }

    fn height(&self) -> u32 {
        let rows = self.groups.iter().map(|it| count(it.bars.len()) * ROW);
        HEAD + rows.map(|it| it + ROW + GAP).sum::<u32>() + GAP
    }
}

/// The bars for a terminal.
impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let names = self.groups.iter().flat_map(|it| &it.bars);
        let widest = names.map(|(it, _)| it.chars().count()).max().unwrap_or(0);
        for group in &self.groups {
            writeln!(f, "  {}", group.name)?;
            for (name, value) in &group.bars {
                let Some(value) = value else {
                    writeln!(f, "    {name:widest$}  -")?;
                    continue;
                };
                let length = (self.share(*value) * WIDTH).ceil() as usize;
                writeln!(
                    f,
                    "    {name:widest$}  {}  {}",
                    "█".repeat(length),
                    number(*value)
                )?;
            }
        }
        Ok(())
    }
}

/// Charts as one picture, two beside each other.
#[must_use]
pub fn drawing(title: &str, charts: &[Chart]) -> Drawing {
    let mut canvas = Canvas::default();
    let mut y = MARGIN;
    for pair in charts.chunks(2) {
        for (column, chart) in (0..).zip(pair) {
            panel(&mut canvas, chart, (MARGIN + column * (PANEL + MARGIN), y));
        }
        y += pair.iter().map(Chart::height).max().unwrap_or_default() + MARGIN;
    }
    let values = charts.iter().map(Chart::to_string);
    let values: Vec<String> = values
        .flat_map(|it| it.lines().map(words).collect::<Vec<_>>())
        .collect();
    Drawing {
        width: 3 * MARGIN + 2 * PANEL,
        height: y,
        title: title.to_owned(),
        description: format!("Bars on a logarithmic scale. {}", values.join("; ")),
        elements: canvas.0,
    }
}

/// A line of the terminal without its bar.
fn words(line: &str) -> String {
    let words = line.split_whitespace().filter(|it| !it.starts_with('█'));
    words.collect::<Vec<_>>().join(" ")
}

fn panel(canvas: &mut Canvas, chart: &Chart, (x, top): (u32, u32)) {
    let place = Rectangle {
        x,
        y: top,
        width: PANEL,
        height: chart.height(),
    };
    canvas.rect("box", place);
    canvas.text(
        Font::Bold,
        (x + GAP, top + 18),
        PANEL - 2 * GAP,
        &chart.title,
    );
    let room = PANEL - NAME - NUMBER - 2 * GAP;
    let mut y = top + HEAD + GAP;
    for group in &chart.groups {
        canvas.text(Font::Small, (x + GAP, y + 12), PANEL, &group.name);
        y += ROW;
        for (at, (name, value)) in group.bars.iter().enumerate() {
            canvas.text(Font::Small, (x + 2 * GAP, y + 12), NAME, name);
            let share = value.map_or(0.0, |it| chart.share(it));
            let length = (share * f64::from(room)).round() as u32;
            let bar = Rectangle {
                x: x + 2 * GAP + NAME,
                y: y + 3,
                width: length,
                height: ROW - 6,
            };
            canvas.bar(COLOURS[at % COLOURS.len()], bar);
            let text = value.map_or_else(|| "not measured".to_owned(), number);
            canvas.text(Font::Small, (bar.right() + 5, y + 12), NUMBER + room, &text);
            y += ROW;
        }
        y += GAP;
    }
}

/// A number with three digits.
fn number(value: f64) -> String {
    match value {
        it if it >= 100.0 => format!("{it:.0}"),
        it if it >= 10.0 => format!("{it:.1}"),
        it if it >= 1.0 => format!("{it:.2}"),
        it => format!("{it:.3}"),
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let bar = |name: &str, value| (name.to_owned(), value);
        let group = |name: &str, bars: Vec<_>| Group {
            name: name.to_owned(),
            bars,
        };
        Chart {
            title: "update, ms".to_owned(),
            groups: vec![
                group(
                    "10 Services",
                    vec![bar("nftables", Some(0.1)), bar("iptables", Some(10.0))],
                ),
                group(
                    "1,000 Services",
                    vec![bar("nftables", None), bar("iptables", Some(1000.0))],
                ),
            ],
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_power_of_ten() {
        let text = chart().to_string();
        let lengths: Vec<usize> = text.lines().map(|it| it.matches('█').count()).collect();
        assert_eq!(lengths, [0, 0, 1, 16, 0, 0, 32], "{text}");
        assert!(text.contains("nftables  -\n"), "{text}");
        assert!(
            text.contains("iptables  ████████████████  10.0\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_measured_has_no_bar() {
        let mut chart = chart();
        let bars = chart.groups.iter_mut().flat_map(|it| &mut it.bars);
        bars.for_each(|it| it.1 = Some(0.0));
        assert!(!chart.to_string().contains('█'), "{chart}");
    }

    #[test]
    fn a_drawing_says_what_it_shows() {
        let drawing = drawing("The race", &[chart(), chart(), chart()]);
        let svg = drawing.to_string();
        assert!(svg.contains("iptables 1000"), "{svg}");
        assert!(svg.contains("not measured"), "{svg}");
        let ends = drawing.elements.iter().filter_map(|it| {
            let of = |name| it.attributes.iter().find(|(key, _)| *key == name);
            let number = |name| of(name)?.1.parse::<u32>().ok();
            Some((
                number("x")? + number("width")?,
                number("y")? + number("height")?,
            ))
        });
        for (right, bottom) in ends {
            assert!(right <= drawing.width && bottom <= drawing.height);
        }
    }
}
