//! The places of everything in a cluster's picture.

use sluice_plan::inventory::ServiceSummary;

use super::{NodeBox, PodBox, PodState, Topology};
use crate::drawing::{Canvas, Drawing, Font, Rectangle};

const MARGIN: u32 = 14;
const GAP: u32 = 12;
/// The least width of a node or a Service.
const CARD: u32 = 236;
/// Heights of a Service, of a node's head and of a pod.
const SERVICE: u32 = 64;
const HEAD: u32 = 72;
const POD: u32 = 44;
const POD_GAP: u32 = 6;

impl Topology {
    /// The picture of a cluster in a width of at least 264 pixels.
    #[must_use]
    pub fn drawing(&self, width: u32) -> Drawing {
        let width = width.max(CARD + 2 * MARGIN);
        let mut canvas = Canvas::default();
        let mut y = MARGIN;
        if !self.services.is_empty() {
            canvas.text(Font::Small, (MARGIN, y + 12), width, "Services");
            y += 20;
            let cards = self.services.len();
            y = cards_below(width, y, &vec![SERVICE; cards], |at, place| {
                let it = &self.services[at];
                service(&mut canvas, it, self.refusing.contains(&it.name), place);
            });
        }
        canvas.text(Font::Small, (MARGIN, y + 12), width, "Nodes and their pods");
        y += 20;
        let heights = self.nodes.iter().map(|it| HEAD + pods_height(&it.pods));
        let heights: Vec<u32> = heights.collect();
        y = cards_below(width, y, &heights, |at, place| {
            node(&mut canvas, &self.nodes[at], place);
        });
        if !self.unscheduled.is_empty() {
            canvas.text(Font::Small, (MARGIN, y + 12), width, "Pods without a node");
            y += 20;
            let cards = vec![POD; self.unscheduled.len()];
            y = cards_below(width, y, &cards, |at, place| {
                pod(&mut canvas, &self.unscheduled[at], place);
            });
        }
        Drawing {
            width,
            height: y + MARGIN - GAP,
            title: "The cluster: Services, nodes and pods".to_owned(),
            description: self.words(),
            elements: canvas.0,
        }
    }

    /// The picture in words.
    fn words(&self) -> String {
        let nodes = self.nodes.iter().map(|node| {
            let state = if node.ready { "ready" } else { "not ready" };
            let pods = node.pods.iter().map(|it| match it.state {
                PodState::Ready => it.name.clone(),
                other => format!("{} ({})", it.name, other.as_str()),
            });
            let pods: Vec<String> = pods.collect();
            if pods.is_empty() {
                format!("{}, {state}, has no pod.", node.name)
            } else {
                format!("{}, {state}, has {}.", node.name, pods.join(", "))
            }
        });
        let services = self.services.iter().map(|it| {
            let refuse = if self.refusing.contains(&it.name) {
                ", and all refuse connections"
            } else {
                ""
            };
            format!(
                "Service {} has {} of {} endpoints ready{refuse}.",
                it.name, it.ready, it.endpoints
            )
        });
        nodes.chain(services).collect::<Vec<_>>().join(" ")
    }
}

fn pods_height(pods: &[PodBox]) -> u32 {
    let count = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    match count {
        0 => 4,
        count => count.saturating_mul(POD + POD_GAP) + 6,
    }
}

/// Puts cards into rows, as many as fit into the width; cards of a row are equally high. Returns the `y` below the
/// last row.
fn cards_below(
    width: u32,
    mut y: u32,
    heights: &[u32],
    mut put: impl FnMut(usize, Rectangle),
) -> u32 {
    let inner = width - 2 * MARGIN;
    let fitting = ((inner + GAP) / (CARD + GAP)).max(1);
    let count = u32::try_from(heights.len()).unwrap_or(u32::MAX);
    let columns = fitting.min(count.max(1));
    let card = (inner - (columns - 1) * GAP) / columns;
    for (row, heights) in heights.chunks(columns as usize).enumerate() {
        let height = heights.iter().copied().max().unwrap_or_default();
        let mut x = MARGIN;
        for column in 0..heights.len() {
            let place = Rectangle {
                x,
                y,
                width: card,
                height,
            };
            put(row * columns as usize + column, place);
            x += card + GAP;
        }
        y += height + GAP;
    }
    y
}

fn service(canvas: &mut Canvas, service: &ServiceSummary, all_refuse: bool, at: Rectangle) {
    let class = if service.is_dead || all_refuse {
        "box refused"
    } else {
        "box"
    };
    canvas.rect(class, at);
    let (x, width) = (at.x + 12, at.width - 24);
    let ready = format!("{} of {} ready", service.ready, service.endpoints);
    let (colour, ready) = match service.ready {
        _ if all_refuse => ("bad", "all refuse"),
        0 => ("bad", &*ready),
        count if count < service.endpoints => ("warn", &*ready),
        _ => ("good", &*ready),
    };
    canvas.name(
        &service.name,
        (x, at.y + 20),
        at.right() - 12,
        (colour, ready),
    );
    let first = service.frontends.first().map_or("", String::as_str);
    canvas.text(Font::Mono, (x, at.y + 38), width, first);
    let more = match service.frontends.len() {
        0 | 1 => service.kind.clone(),
        count => format!("{}, {} more to dial", service.kind, count - 1),
    };
    canvas.text(Font::Small, (x, at.y + 55), width, &more);
}

fn node(canvas: &mut Canvas, node: &NodeBox, at: Rectangle) {
    canvas.rect("node", at);
    let (x, width) = (at.x + 12, at.width - 24);
    let (colour, state) = match (node.ready, node.unschedulable) {
        (false, _) => ("bad", "not ready"),
        (true, true) => ("warn", "cordoned"),
        (true, false) => ("good", "ready"),
    };
    canvas.name(&node.name, (x, at.y + 22), at.right() - 12, (colour, state));
    let first = node
        .addresses
        .first()
        .map_or("no address yet", String::as_str);
    canvas.text(Font::Mono, (x, at.y + 41), width, first);
    let about = [node.zone.as_deref(), Some(&*node.mode)];
    let about: Vec<&str> = about.into_iter().flatten().collect();
    canvas.text(Font::Small, (x, at.y + 58), width, &about.join(" · "));
    let mut y = at.y + HEAD;
    for it in &node.pods {
        let place = Rectangle {
            x: at.x + 8,
            y,
            width: at.width - 16,
            height: POD,
        };
        pod(canvas, it, place);
        y += POD + POD_GAP;
    }
}

fn pod(canvas: &mut Canvas, pod: &PodBox, at: Rectangle) {
    let (class, colour) = match pod.state {
        PodState::Ready => ("box used", ""),
        PodState::NotReady => ("box unused", "bad"),
        PodState::Terminating => ("box unused", "warn"),
        PodState::Ended => ("box unused", ""),
    };
    canvas.rect(class, at);
    let (x, width) = (at.x + 10, at.width - 20);
    let state = match pod.state {
        PodState::Ready => "",
        other => other.as_str(),
    };
    canvas.name(&pod.name, (x, at.y + 18), at.right() - 10, (colour, state));
    let address = pod
        .addresses
        .first()
        .map_or("no address yet", String::as_str);
    canvas.text(Font::Mono, (x, at.y + 35), 116, address);
    let services = services(pod, width - 120);
    canvas.text(Font::Small, (x + 120, at.y + 35), width - 120, &services);
}

/// The Services of a pod by name, or how many there are if their names do not fit into a width.
fn services(pod: &PodBox, width: u32) -> String {
    let own = format!("{}/", pod.namespace);
    let names = pod.services.iter();
    let names: Vec<&str> = names
        .map(|it| it.strip_prefix(&own).unwrap_or(it))
        .collect();
    let all = names.join(", ");
    if names.len() == 1 || Font::Small.width(&all) <= width {
        all
    } else {
        format!("{} Services", names.len())
    }
}
