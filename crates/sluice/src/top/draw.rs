//! The screen as cells.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState};
use sluice_plan::inventory::{PortDetail, ServiceSummary};
use sluice_yaml::shown;

use super::state::{Top, View};
use crate::status::{conditions, last_sync, state, uptime};

/// Heights of a line's bars, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Header, the chosen view, and a line about the keys.
pub(super) fn draw(frame: &mut Frame<'_>, top: &Top) {
    let parts = Layout::vertical([
        Constraint::Length(4),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, body, foot] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(header(top)), head);
    match top.view {
        View::Services => services(frame, body, top),
        View::Service => service(frame, body, top),
        View::Issues => issues(frame, body, top),
    }
    frame.render_widget(Paragraph::new(footer(top)), foot);
    // Names may be anybody's: U+202E would turn the line round.
    for cell in &mut frame.buffer_mut().content {
        if shown(cell.symbol()) != cell.symbol() {
            cell.set_char(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn colour(top: &Top, colour: Color) -> Style {
    if top.plain {
        Style::new()
    } else {
        Style::new().fg(colour)
    }
}

fn header(top: &Top) -> Vec<Line<'static>> {
    let Some(sample) = &top.sample else {
        return vec![Line::from("waiting for the agent")];
    };
    let status = &sample.status;
    let rules = state(status);
    let rules_style = match rules {
        "up to date" => colour(top, Color::Green),
        _ => colour(top, Color::Yellow),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let up = uptime(status.agent.uptime_seconds);
    let dead = match status.without_endpoints {
        0 => String::new(),
        count => format!(" ({count} without endpoints)"),
    };
    let wrong = top.issues().len();
    let wrong_style = match wrong {
        0 => Style::new(),
        _ => colour(top, Color::Yellow),
    };
    let sync = status.last_sync.as_ref().map(last_sync);
    let mut lines = vec![
        Line::from(vec![
            Span::styled(format!("{}  ", status.agent.node), bold),
            Span::raw(format!("{}  up {up}  rules ", status.agent.mode)),
            Span::styled(rules, rules_style),
        ]),
        Line::from(vec![
            Span::raw(format!(
                "{} Services  {} ports{dead}  {} endpoints  ",
                status.services, status.service_ports, status.endpoints
            )),
            Span::styled(format!("{wrong} to look at (i)"), wrong_style),
        ]),
        Line::from(new_connections(top)),
    ];
    lines.push(match &top.error {
        Some(error) => Line::styled(format!("no answer: {error}"), colour(top, Color::Red)),
        None => Line::from(format!(
            "last sync {}",
            sync.unwrap_or_else(|| "none yet".to_owned())
        )),
    });
    lines
}

/// The rate of all Services, with a bar for each sample.
fn new_connections(top: &Top) -> String {
    let counts = top
        .sample
        .as_ref()
        .is_some_and(|it| it.connections.is_some());
    let Some(last) = top.history.back() else {
        let why = if counts {
            "..."
        } else {
            "not counted (see `sluice top --help`)"
        };
        return format!("new connections {why}");
    };
    let most = top.history.iter().copied().fold(1.0, f64::max);
    let bar = |it: &f64| BARS[((it / most * 7.0).round() as usize).min(7)];
    let bars: String = top.history.iter().map(bar).collect();
    format!("new connections {}/s {bars}", number(*last))
}

fn number(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        it if it < 10.0 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    }
}

fn rate(of: Option<f64>) -> String {
    of.map_or_else(|| "-".to_owned(), number)
}

fn footer(top: &Top) -> Line<'static> {
    if top.typing {
        return Line::from(format!(
            "/{}▏  Enter keeps the filter, Esc drops it",
            top.filter
        ));
    }
    Line::from(match top.view {
        View::Services => format!(
            "Enter endpoints  / filter{}  s sort: {}  i issues  q quit",
            if top.filter.is_empty() {
                String::new()
            } else {
                format!(": {} (Esc drops it)", top.filter)
            },
            top.sort.name()
        ),
        View::Service | View::Issues => "Esc back  Up, Down scroll  q quit".to_owned(),
    })
}

fn services(frame: &mut Frame<'_>, area: Rect, top: &Top) {
    let rows = top.rows();
    let title = ["", "service", "type", "ready", "new/s", "frontends"];
    let cells = rows.iter().map(|it| row(it, top));
    // The widest name of all, so that columns stay where they are while somebody scrolls.
    let width = rows.iter().map(|it| it.name.chars().count()).max();
    let widths = [
        Constraint::Length(6),
        Constraint::Length(
            width
                .unwrap_or_default()
                .clamp(7, 50)
                .try_into()
                .unwrap_or(50),
        ),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Min(10),
    ];
    let table = Table::new(cells, widths)
        .header(Row::new(title).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {} Services ", rows.len()));
    let mut state = TableState::new().with_selected(Some(top.selected()));
    frame.render_stateful_widget(table.block(block), area, &mut state);
}

fn row(it: &ServiceSummary, top: &Top) -> Row<'static> {
    // Words beside colours: not everybody sees both.
    let (sign, style) = match (it.is_dead, it.issues.is_empty()) {
        (true, _) => ("dead", colour(top, Color::Red)),
        (false, false) => ("issue", colour(top, Color::Yellow)),
        (false, true) => ("", Style::new()),
    };
    let frontends = match it.frontends.as_slice() {
        [] => "-".to_owned(),
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    Row::new([
        Cell::from(sign),
        Cell::from(it.name.clone()),
        Cell::from(it.kind.clone()),
        Cell::from(format!("{}/{}", it.ready, it.endpoints)),
        Cell::from(rate(top.rate(&it.name))),
        Cell::from(frontends),
    ])
    .style(style)
}

fn service(frame: &mut Frame<'_>, area: Rect, top: &Top) {
    let name = top.opened().unwrap_or_default();
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {name} "));
    let Some(detail) = &top.detail else {
        let there = top.rows().iter().any(|it| it.name == name);
        let text = if there {
            "asking the agent"
        } else {
            "it is gone"
        };
        return frame.render_widget(Paragraph::new(text).block(block), area);
    };
    let mut lines = vec![Line::from(format!(
        "{}  policies {}, {} (internal, external)",
        detail.summary.kind, detail.internal_policy, detail.external_policy
    ))];
    let issues = detail.summary.issues.iter();
    lines.extend(issues.map(|it| Line::styled(it.clone(), colour(top, Color::Yellow))));
    for port in &detail.ports {
        port_lines(&mut lines, name, port, top);
    }
    let shown: Vec<Line<'_>> = lines.into_iter().skip(top.scroll).collect();
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

fn port_lines(lines: &mut Vec<Line<'static>>, service: &str, port: &PortDetail, top: &Top) {
    let name = match port.port.as_str() {
        "" => String::new(),
        name => format!("{name} "),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let frontends = port.frontends.join(", ");
    let title = format!(
        "{name}{}/{} {}: {frontends}",
        port.number, port.protocol, port.family
    );
    lines.push(Line::styled(title, bold));
    if port.endpoints.is_empty() {
        lines.push(Line::styled("  no endpoints", colour(top, Color::Red)));
    }
    let width = port
        .endpoints
        .iter()
        .map(|it| it.address.to_string().len())
        .max();
    let width = width.unwrap_or_default();
    for it in &port.endpoints {
        let address = it.address.to_string();
        let style = if it.included {
            Style::new()
        } else {
            colour(top, Color::DarkGray)
        };
        let text = format!(
            "  {address:width$}  {:>8}  {:3}  {:20}  {}  {}",
            rate(top.endpoint_rate(service, &address)),
            if it.included { "in" } else { "out" },
            conditions(it),
            it.pod.as_deref().or(it.node.as_deref()).unwrap_or("-"),
            it.reason,
        );
        lines.push(Line::styled(text.trim_end().to_owned(), style));
    }
}

fn issues(frame: &mut Frame<'_>, area: Rect, top: &Top) {
    let all = top.issues();
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {} to look at ", all.len()));
    let lines: Vec<Line<'_>> = if all.is_empty() {
        vec![Line::from("nothing is wrong")]
    } else {
        all.into_iter().skip(top.scroll).map(Line::from).collect()
    };
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
