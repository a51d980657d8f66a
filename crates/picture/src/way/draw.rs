//! The places of everything in a way's picture: four columns from left to right, or below each other.

use sluice_plan::explain::Decision;

use super::{Target, Way};
use crate::drawing::{Canvas, Drawing, Font, Rectangle, wrapped};

const TOP: u32 = 14;
const MARGIN: u32 = 14;
/// Space for the arrows between boxes below each other.
const STEP: u32 = 26;
/// The least width of a picture.
const LEAST: u32 = 264;

/// Where the four parts begin, and how wide they are.
#[derive(Clone, Copy)]
struct Columns {
    width: u32,
    client: (u32, u32),
    dial: (u32, u32),
    rules: (u32, u32),
    endpoints: (u32, u32),
    /// The parts are below each other.
    is_stack: bool,
}

const WIDE: Columns = Columns {
    width: 920,
    client: (MARGIN, 136),
    dial: (178, 196),
    rules: (402, 200),
    endpoints: (640, 266),
    is_stack: false,
};

impl Columns {
    fn of(width: u32) -> Self {
        if width >= WIDE.width {
            return WIDE;
        }
        let width = width.max(LEAST);
        let whole = (MARGIN, width - 2 * MARGIN);
        Self {
            width,
            client: whole,
            dial: whole,
            rules: whole,
            endpoints: whole,
            is_stack: true,
        }
    }

    fn target(self) -> u32 {
        self.endpoints.1 - 2 * PAD
    }
}

/// Height of a line of small text.
const LINE: u32 = 16;
/// Indent of the second line of a sentence.
const INDENT: u32 = 9;
/// The frame of a node: its head, and the space around its endpoints.
const HEAD: u32 = 26;
const PAD: u32 = 8;

impl Way {
    /// The picture: 920 pixels wide, or `width` if that is less, and at least 264.
    #[must_use]
    pub fn drawing(&self, width: u32) -> Drawing {
        let mut canvas = Canvas::default();
        let columns = Columns::of(width);
        let rules = self.rule_lines(columns);
        let rules_height = 52 + LINE * u32::try_from(rules.len()).unwrap_or_default();
        let heights = [58, 74, rules_height];
        let above: u32 = heights.iter().map(|it| it + STEP).sum();
        let first = TOP + if columns.is_stack { above } else { 0 };
        let (places, frames, bottom) = self.endpoint_places(columns, first);
        let height = bottom.max(first + 20).max(TOP + rules_height).max(TOP + 96);
        let mut y = TOP;
        let parts = [columns.client, columns.dial, columns.rules];
        let [client, dial, rules_at] = [0, 1, 2].map(|at| {
            let ((x, width), of) = (parts[at], heights[at]);
            let top = if columns.is_stack {
                y
            } else {
                TOP + (height - TOP - of) / 2
            };
            y += of + STEP;
            Rectangle {
                x,
                y: top,
                width,
                height: of,
            }
        });
        for (name, at) in frames {
            canvas.rect("node", at);
            canvas.text(Font::Small, (at.x + 10, at.y + 17), at.width - 20, &name);
        }
        if columns.is_stack {
            for it in [client, dial, rules_at] {
                canvas.arrow_down((it.x + it.width / 2, it.y + it.height), STEP);
            }
        } else {
            self.arrows(&mut canvas, [client, dial, rules_at], &places);
        }
        canvas.rect("box", client);
        canvas.text(
            Font::Bold,
            (client.x + 10, client.y + 23),
            client.width - 20,
            &self.client,
        );
        let address = self.address.to_string();
        canvas.text(
            Font::Mono,
            (client.x + 10, client.y + 43),
            client.width - 20,
            &address,
        );
        self.draw_dialled(&mut canvas, dial);
        self.draw_rules(&mut canvas, rules_at, &rules);
        for (target, at) in self.endpoints.iter().zip(&places) {
            draw_target(&mut canvas, target, *at);
        }
        if self.endpoints.is_empty() {
            let (x, width) = columns.endpoints;
            let y = if columns.is_stack {
                first + 12
            } else {
                TOP + (height - TOP) / 2
            };
            canvas.text(Font::Small, (x, y), width, "No endpoint");
        }
        let mut y = height + 22;
        for note in self.notes() {
            for line in wrapped(&note, Font::Small, columns.width - 2 * MARGIN) {
                canvas.text(Font::Small, (MARGIN, y), columns.width, &line);
                y += LINE;
            }
        }
        Drawing {
            width: columns.width,
            height: y,
            title: format!("The way from {} to Service {}", self.client, self.service),
            description: self.words(),
            elements: canvas.0,
        }
    }

    /// The picture in words.
    fn words(&self) -> String {
        let mut words = format!("{} dials {} ({}).", self.client, self.dialled, self.role);
        if let Some(rules) = &self.rules {
            let sentences = rules.sentences.join("; ");
            words += &format!(
                " Rules of {}: {sentences}. Verdict: {}.",
                rules.node, rules.reason
            );
        }
        for it in &self.endpoints {
            let name = it.pod.clone().unwrap_or_else(|| it.address.to_string());
            let node = it.node.as_deref().unwrap_or("no node");
            let refuses = if it.refuses { ", and refuses it" } else { "" };
            words += &if it.included {
                match it.percent() {
                    Some(share) => format!(" {name} on {node} gets {share}{refuses}."),
                    None => format!(" {name} on {node} is one of them."),
                }
            } else {
                format!(" {name} on {node} gets nothing: {}.", it.reason)
            };
        }
        self.notes()
            .iter()
            .fold(words, |words, it| format!("{words} {it}"))
    }

    /// The place of each endpoint from `y` on, the frames of nodes with their names, and where the last one ends.
    fn endpoint_places(
        &self,
        columns: Columns,
        mut y: u32,
    ) -> (Vec<Rectangle>, Vec<(String, Rectangle)>, u32) {
        let (mut places, mut frames) = (Vec::new(), Vec::<(String, Rectangle)>::new());
        for of_node in self.endpoints.chunk_by(|a, b| a.node == b.node) {
            let first = &of_node[0];
            let name = first.node.as_deref().unwrap_or("outside the cluster");
            let here = self
                .rules
                .as_ref()
                .is_some_and(|it| Some(&it.node) == first.node.as_ref());
            let parts = [
                Some(name),
                first.zone.as_deref(),
                here.then_some("rules here"),
            ];
            let name = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
            let top = y;
            y += HEAD;
            for target in of_node {
                let height = 48 + LINE * lines(target, columns.target());
                places.push(Rectangle {
                    x: columns.endpoints.0 + PAD,
                    y,
                    width: columns.target(),
                    height,
                });
                y += height + PAD;
            }
            let frame = Rectangle {
                x: columns.endpoints.0,
                y: top,
                width: columns.endpoints.1,
                height: y - top,
            };
            frames.push((name, frame));
            y += 12;
        }
        (places, frames, y.saturating_sub(12))
    }

    /// The lines of the rules' box with their indents. A sentence begins with a dot.
    fn rule_lines(&self, columns: Columns) -> Vec<(u32, String)> {
        let width = columns.rules.1 - 24;
        let Some(rules) = &self.rules else {
            let lines = wrapped(
                "none: DNS names the endpoints themselves",
                Font::Small,
                width,
            );
            return lines.into_iter().map(|it| (0, it)).collect();
        };
        let all = rules.sentences.iter().chain([&rules.reason]);
        let lines = all.flat_map(|it| {
            let lines = wrapped(&format!("• {it}"), Font::Small, width - INDENT);
            lines
                .into_iter()
                .enumerate()
                .map(|(at, line)| (if at == 0 { 0 } else { INDENT }, line))
        });
        lines.collect()
    }

    fn arrows(
        &self,
        canvas: &mut Canvas,
        [client, dial, rules]: [Rectangle; 3],
        places: &[Rectangle],
    ) {
        let to = |at: Rectangle| (at.x, at.middle());
        let from = |at: Rectangle| (at.right(), at.middle());
        canvas.arrow("", from(client), to(dial), 0.0);
        canvas.arrow("", from(dial), to(rules), 0.0);
        for (target, at) in self
            .endpoints
            .iter()
            .zip(places)
            .filter(|(it, _)| it.included)
        {
            canvas.arrow("", from(rules), to(*at), target.share.unwrap_or_default());
        }
    }

    fn draw_dialled(&self, canvas: &mut Canvas, at: Rectangle) {
        canvas.rect("box dial", at);
        let (x, width) = (at.x + 10, at.width - 20);
        canvas.text(Font::Bold, (x, at.y + 21), width, &self.role);
        let font = if self.rules.is_some() {
            Font::Mono
        } else {
            Font::Small
        };
        canvas.text(font, (x, at.y + 41), width, &self.dialled);
        canvas.text(
            Font::Small,
            (x, at.y + 60),
            width,
            &format!("Service {}", self.service),
        );
    }

    fn draw_rules(&self, canvas: &mut Canvas, at: Rectangle, lines: &[(u32, String)]) {
        let (class, title) = match &self.rules {
            None => ("box unused", "Rules".to_owned()),
            Some(rules) if rules.verdict == Decision::Balance => {
                ("box used", format!("Rules of {}", rules.node))
            }
            Some(rules) => ("box refused", format!("Rules of {}", rules.node)),
        };
        canvas.rect(class, at);
        canvas.text(Font::Bold, (at.x + 12, at.y + 23), at.width - 24, &title);
        let mut y = at.y + 45;
        for (indent, line) in lines {
            canvas.text(Font::Small, (at.x + 12 + indent, y), at.width, line);
            y += LINE;
        }
    }
}

impl Target {
    /// The share as text: `33 %`.
    pub(crate) fn percent(&self) -> Option<String> {
        self.share.map(|it| format!("{:.0} %", it * 100.0))
    }
}

/// The small lines of an endpoint: the client address that it sees, or why it gets nothing.
fn about(target: &Target, width: u32) -> Vec<String> {
    let sees = target.sees.as_ref().map(|it| format!("sees {it}"));
    let all = [sees.unwrap_or_default(), target.reason.clone()];
    all.iter()
        .flat_map(|it| wrapped(it, Font::Small, width - 20))
        .collect()
}

fn lines(target: &Target, width: u32) -> u32 {
    u32::try_from(about(target, width).len()).unwrap_or_default()
}

fn draw_target(canvas: &mut Canvas, target: &Target, at: Rectangle) {
    let class = match (target.included, target.share) {
        _ if target.refuses => "box refused",
        // It should have answered, and did not.
        (true, Some(0.0)) => "box refused",
        (true, _) => "box used",
        (false, _) => "box unused",
    };
    canvas.rect(class, at);
    let (x, width) = (at.x + 10, at.width - 20);
    let address = target.address.to_string();
    let name = target.pod.as_deref().unwrap_or("no pod");
    let share = target.percent().unwrap_or_default();
    canvas.name(name, (x, at.y + 20), at.right() - 10, ("share", &share));
    canvas.text(Font::Mono, (x, at.y + 38), width, &address);
    let mut y = at.y + 55;
    for line in about(target, at.width) {
        canvas.text(Font::Small, (x, y), width, &line);
        y += LINE;
    }
}
