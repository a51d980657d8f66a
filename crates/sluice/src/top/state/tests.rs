use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sluice_agent::EndpointConnections;
use sluice_agent::status::{IssueStatus, ServiceStatus, SyncStatus};
use sluice_node::AgentStatus;
use sluice_plan::inventory::{EndpointDetail, PortDetail};

use super::*;
use crate::top::draw::draw;

fn summary(name: &str, ready: usize) -> ServiceSummary {
    ServiceSummary {
        name: name.to_owned(),
        kind: "ClusterIP".to_owned(),
        frontends: vec![
            "10.96.0.1:80/tcp".to_owned(),
            "10.96.0.1:443/tcp".to_owned(),
        ],
        ready,
        endpoints: 2,
        is_dead: ready == 0,
        issues: Vec::new(),
    }
}

/// So many connections to each of two endpoints of `default/web`, so many seconds after `start`.
fn sample(start: Instant, seconds: u64, connections: u64) -> Sample {
    let endpoint = |endpoint: &str| EndpointConnections {
        endpoint: endpoint.to_owned(),
        connections,
        ..EndpointConnections::default()
    };
    let mut odd = summary("shop/odd", 1);
    odd.issues.push("a port is taken".to_owned());
    Sample {
        status: Status {
            agent: AgentStatus {
                node: "node-a".to_owned(),
                mode: "nftables".to_owned(),
                pid: 7,
                uptime_seconds: 3725.0,
                busy: None,
                ..AgentStatus::default()
            },
            proxy: ServiceStatus {
                source_synced: true,
                synced: true,
                services: 3,
                service_ports: 3,
                without_endpoints: 1,
                endpoints: 4,
                last_sync: Some(SyncStatus {
                    when: "2026-11-23T12:00:00.5Z".to_owned(),
                    added: 2,
                    elapsed_seconds: 0.002,
                    ..SyncStatus::default()
                }),
                issues: vec![IssueStatus {
                    reason: "FrontendTaken".to_owned(),
                    message: "Service shop/odd: a port is taken".to_owned(),
                }],
                ..ServiceStatus::default()
            },
        },
        services: vec![summary("default/web", 2), odd, summary("shop/dead", 0)],
        connections: Some(vec![ServiceConnections {
            namespace: "default".to_owned(),
            service: "web".to_owned(),
            port: "http".to_owned(),
            protocol: "tcp".to_owned(),
            family: "IPv4".to_owned(),
            connections: 2 * connections,
            endpoints: vec![endpoint("10.244.0.5:80"), endpoint("10.244.0.6:80")],
        }]),
        at: start + Duration::from_secs(seconds),
    }
}

fn press(top: &mut Top, keys: &[KeyCode]) -> Next {
    let mut next = Next::Show;
    for key in keys {
        next = top.key(KeyEvent::from(*key));
    }
    next
}

fn type_text(top: &mut Top, text: &str) {
    for it in text.chars() {
        top.key(KeyEvent::from(KeyCode::Char(it)));
    }
}

fn names(top: &Top) -> Vec<&str> {
    top.rows().iter().map(|it| it.name.as_str()).collect()
}

/// The screen as lines without trailing blanks.
fn screen(top: &Top) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(90, 14)).unwrap();
    terminal.draw(|frame| draw(frame, top)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(90);
    let lines = lines.map(|line| {
        line.iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect::<String>()
    });
    lines.map(|it| it.trim_end().to_owned()).collect()
}

fn two_samples() -> Top {
    let (mut top, start) = (Top::new(true), Instant::now());
    top.take(sample(start, 0, 100));
    top.take(sample(start, 2, 110));
    top
}

#[test]
fn rates_are_those_since_the_answer_before() {
    let mut top = Top::new(true);
    let start = Instant::now();
    top.take(sample(start, 0, 100));
    assert_eq!(top.rate("default/web"), None);
    top.take(sample(start, 2, 110));
    assert_eq!(top.rate("default/web"), Some(10.0));
    assert_eq!(top.rate("shop/dead"), Some(0.0));
    assert_eq!(top.endpoint_rate("default/web", "10.244.0.5:80"), Some(5.0));
    assert_eq!(top.history, [10.0]);
    // Another agent counts from the start.
    let mut restarted = sample(start, 4, 3);
    restarted.status.agent.pid = 8;
    top.take(restarted);
    assert_eq!(top.history, [10.0]);
}

#[test]
fn trouble_comes_first() {
    let mut top = two_samples();
    assert_eq!(names(&top), ["shop/dead", "shop/odd", "default/web"]);
    press(&mut top, &[KeyCode::Char('s')]);
    assert_eq!(
        names(&top),
        ["default/web", "shop/dead", "shop/odd"],
        "by rate"
    );
    press(&mut top, &[KeyCode::Char('s')]);
    assert_eq!(
        names(&top),
        ["default/web", "shop/dead", "shop/odd"],
        "by name"
    );
}

#[test]
fn the_chosen_service_stays_while_rows_move() {
    let mut top = two_samples();
    press(&mut top, &[KeyCode::Down]);
    assert_eq!(top.selected(), 1);
    press(&mut top, &[KeyCode::Char('s')]);
    assert_eq!(top.selected(), 2, "shop/odd is the last by rate");
    press(&mut top, &[KeyCode::Down, KeyCode::PageDown, KeyCode::End]);
    assert_eq!(top.selected(), 2);
    press(&mut top, &[KeyCode::Home]);
    assert_eq!(top.selected(), 0);
    type_filter(&mut top, "shop");
    assert_eq!(
        (names(&top), top.selected()),
        (vec!["shop/dead", "shop/odd"], 0)
    );
}

fn type_filter(top: &mut Top, text: &str) {
    press(top, &[KeyCode::Char('/')]);
    type_text(top, text);
    press(top, &[KeyCode::Enter]);
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut top = two_samples();
    press(&mut top, &[KeyCode::Char('/')]);
    type_text(&mut top, "quit");
    assert_eq!(names(&top), [""; 0], "letters are no commands here");
    assert_eq!(press(&mut top, &[KeyCode::Enter]), Next::Show);
    assert_eq!(
        press(&mut top, &[KeyCode::Enter]),
        Next::Show,
        "there is nothing to open"
    );
    press(&mut top, &[KeyCode::Esc]);
    assert_eq!(names(&top).len(), 3);
    assert_eq!(press(&mut top, &[KeyCode::Char('q')]), Next::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(top.key(interrupt), Next::Quit);
}

#[test]
fn the_screen_shows_services() {
    let top = two_samples();
    let expected = [
        "node-a  nftables  up 1h2m  rules up to date",
        "3 Services  3 ports (1 without endpoints)  4 endpoints  1 to look at (i)",
        "new connections 10/s █",
        "last sync 2026-11-23 12:00:00 UTC, difference: 2 added, 0 replaced, 0 deleted in 2.0 ms",
    ];
    let lines = screen(&top);
    assert_eq!(lines[..4], expected);
    assert!(lines[4].starts_with(" 3 Services ─"), "{lines:#?}");
    assert_eq!(
        lines[5..9],
        [
            "       service     type         ready     new/s    frontends",
            "dead   shop/dead   ClusterIP    0/2       0        10.96.0.1:80/tcp and 1 more",
            "issue  shop/odd    ClusterIP    1/2       0        10.96.0.1:80/tcp and 1 more",
            "       default/web ClusterIP    2/2       10       10.96.0.1:80/tcp and 1 more",
        ]
    );
    assert!(lines[13].starts_with("Enter endpoints"), "{lines:#?}");
}

fn detail() -> ServiceDetail {
    let endpoint = |address: &str, ready: bool| EndpointDetail {
        address: address.parse().unwrap(),
        pod: Some("web-1".to_owned()),
        node: None,
        zone: None,
        local: true,
        ready,
        serving: ready,
        terminating: false,
        included: ready,
        reason: if ready { "" } else { "not ready" }.to_owned(),
        slice: "default/web-1".to_owned(),
    };
    ServiceDetail {
        summary: summary("default/web", 1),
        internal_policy: "Cluster".to_owned(),
        external_policy: "Local".to_owned(),
        affinity_seconds: None,
        slices: Vec::new(),
        problems: Vec::new(),
        ports: vec![PortDetail {
            port: "http".to_owned(),
            number: 80,
            node_port: None,
            protocol: "tcp".to_owned(),
            family: "IPv4".to_owned(),
            frontends: vec!["10.96.0.1:80/tcp".to_owned()],
            roles: vec!["ClusterIP".to_owned()],
            ways: Vec::new(),
            endpoints: vec![
                endpoint("10.244.0.5:80", true),
                endpoint("10.244.0.6:80", false),
            ],
        }],
    }
}

#[test]
fn a_service_opens_with_its_endpoints() {
    let mut top = two_samples();
    assert_eq!(press(&mut top, &[KeyCode::End, KeyCode::Enter]), Next::Ask);
    assert_eq!(top.opened(), Some("default/web"));
    assert_eq!(screen(&top)[5], "asking the agent");
    top.take_detail(Some(detail()));
    assert_eq!(
        screen(&top)[5..9],
        [
            "ClusterIP  policies Cluster, Local (internal, external)",
            "http 80/tcp IPv4: 10.96.0.1:80/tcp",
            "  10.244.0.5:80       5.0  in   ready                 web-1",
            "  10.244.0.6:80       5.0  out  not ready             web-1  not ready",
        ]
    );
    press(&mut top, &[KeyCode::Down]);
    assert_eq!(screen(&top)[5], "http 80/tcp IPv4: 10.96.0.1:80/tcp");
    press(&mut top, &[KeyCode::Esc]);
    assert_eq!((top.view, top.opened()), (View::Services, None));
}

#[test]
fn what_is_wrong_and_an_agent_that_is_gone_are_shown() {
    let mut top = two_samples();
    press(&mut top, &[KeyCode::Char('i')]);
    assert_eq!(screen(&top)[5], "Service shop/odd: a port is taken");
    top.fail(&anyhow::anyhow!("no agent"));
    assert_eq!(screen(&top)[3], "no answer: no agent");
    let mut uncounted = sample(Instant::now(), 0, 0);
    uncounted.connections = None;
    let mut top = Top::new(false);
    top.take(uncounted);
    assert_eq!(
        screen(&top)[2],
        "new connections not counted (see `sluice top --help`)"
    );
}

#[test]
fn no_character_that_cannot_be_seen_reaches_the_terminal() {
    let mut top = two_samples();
    let mut sample = sample(Instant::now(), 4, 120);
    sample.status.agent.node = "a\u{202e}b\u{1b}c".to_owned();
    top.take(sample);
    let text = screen(&top).join("\n");
    assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text:?}");
    assert!(text.contains("bc") || text.contains('\u{fffd}'), "{text:?}");
}
