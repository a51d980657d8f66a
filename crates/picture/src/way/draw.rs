//! The places of everything in a way's picture: four columns from left to right.

use sluice_plan::explain::Decision;

use super::{Target, Way};
use crate::drawing::{Canvas, Drawing, Font, Rectangle, wrapped};

const WIDTH: u32 = 920;
const TOP: u32 = 14;
/// Columns: client, what it dials, rules, endpoints.
const CLIENT: (u32, u32) = (14, 136);
const DIAL: (u32, u32) = (178, 196);
const RULES: (u32, u32) = (402, 200);
const ENDPOINTS: (u32, u32) = (640, 266);
/// Height of a line of small text.
const LINE: u32 = 16;
/// Indent of the second line of a sentence.
const INDENT: u32 = 9;
/// The frame of a node: its head, and the space around its endpoints.
const HEAD: u32 = 26;
const PAD: u32 = 8;

impl Way {
    /// The picture, 920 pixels wide.
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        let mut canvas = Canvas::default();
        let (places, frames, bottom) = self.endpoint_places();
        let rules = self.rule_lines();
        let rules_height = 52 + LINE * u32::try_from(rules.len()).unwrap_or_default();
        let height = bottom.max(TOP + rules_height).max(TOP + 96);
        let centred = |(x, width), of: u32| Rectangle {
            x,
            y: TOP + (height - TOP - of) / 2,
            width,
            height: of,
        };
        let (client, dial) = (centred(CLIENT, 58), centred(DIAL, 74));
        let rules_at = centred(RULES, rules_height);
        for (name, at) in frames {
            canvas.rect("node", at);
            canvas.text(Font::Small, (at.x + 10, at.y + 17), at.width - 20, &name);
        }
        self.arrows(&mut canvas, [client, dial, rules_at], &places);
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
            let at = (ENDPOINTS.0, TOP + (height - TOP) / 2);
            canvas.text(Font::Small, at, ENDPOINTS.1, "No endpoint");
        }
        let mut y = height + 22;
        for note in self.notes() {
            for line in wrapped(&note, Font::Small, WIDTH - 2 * CLIENT.0) {
                canvas.text(Font::Small, (CLIENT.0, y), WIDTH, &line);
                y += LINE;
            }
        }
        Drawing {
            width: WIDTH,
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
            words += &if it.included {
                match it.percent() {
                    Some(share) => format!(" {name} on {node} gets {share}."),
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

    /// The place of each endpoint, the frames of nodes with their names, and where the last one ends.
    fn endpoint_places(&self) -> (Vec<Rectangle>, Vec<(String, Rectangle)>, u32) {
        let (mut places, mut frames) = (Vec::new(), Vec::<(String, Rectangle)>::new());
        let mut y = TOP;
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
                let height = 48 + LINE * u32::try_from(about(target).len()).unwrap_or_default();
                places.push(Rectangle {
                    x: ENDPOINTS.0 + PAD,
                    y,
                    width: ENDPOINTS.1 - 2 * PAD,
                    height,
                });
                y += height + PAD;
            }
            let frame = Rectangle {
                x: ENDPOINTS.0,
                y: top,
                width: ENDPOINTS.1,
                height: y - top,
            };
            frames.push((name, frame));
            y += 12;
        }
        (places, frames, y.saturating_sub(12))
    }

    /// The lines of the rules' box with their indents. A sentence begins with a dot.
    fn rule_lines(&self) -> Vec<(u32, String)> {
        let width = RULES.1 - 24;
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
fn about(target: &Target) -> Vec<String> {
    let width = ENDPOINTS.1 - 2 * PAD - 20;
    let sees = target.sees.as_ref().map(|it| format!("sees {it}"));
    let all = [sees.unwrap_or_default(), target.reason.clone()];
    all.iter()
        .flat_map(|it| wrapped(it, Font::Small, width))
        .collect()
}

fn draw_target(canvas: &mut Canvas, target: &Target, at: Rectangle) {
    canvas.rect(
        if target.included {
            "box used"
        } else {
            "box unused"
        },
        at,
    );
    let (x, width) = (at.x + 10, at.width - 20);
    let address = target.address.to_string();
    let name = target.pod.as_deref().unwrap_or("no pod");
    canvas.text(Font::Bold, (x, at.y + 20), width - 56, name);
    canvas.text(Font::Mono, (x, at.y + 38), width, &address);
    if let Some(share) = target.percent() {
        canvas.word_to("share", (at.right() - 10, at.y + 21), &share);
    }
    let mut y = at.y + 55;
    for line in about(target) {
        canvas.text(Font::Small, (x, y), width, &line);
        y += LINE;
    }
}
