use super::*;

fn end(last: u8) -> End {
    End {
        address: IpAddr::from([10, 0, 0, last]),
        pods: Vec::new(),
    }
}

pub(super) fn drop(source: u8, port: u16) -> PolicyDrop {
    PolicyDrop {
        time: "2026-01-01T00:00:00.000Z".to_owned(),
        outcome: Outcome::Dropped,
        direction: Direction::Ingress,
        source: end(source),
        destination: End {
            pods: vec!["a/web".to_owned()],
            ..end(2)
        },
        protocol: Some("tcp".to_owned()),
        port: Some(port),
        policies: Vec::new(),
        why: "isolated".to_owned(),
    }
}

#[test]
fn only_the_last_ones_are_remembered() {
    let mut drops = Drops::default();
    for port in 0..2_000 {
        drops.take(None, drop(1, port), Instant::now());
    }
    let ports = |after: u64| {
        let answer = drops.after(after);
        assert_eq!(answer.last, 2_000);
        let ports = answer.drops.iter().filter_map(|it| it.port);
        ports.collect::<Vec<u16>>()
    };
    assert_eq!(ports(0).len(), REMEMBERED);
    assert_eq!(ports(1_998), [1_998, 1_999]);
    // Nothing is new, or the agent is another one that has told of fewer.
    assert_eq!(ports(2_000), [0; 0]);
    assert_eq!(ports(9_000), [0; 0]);
}

#[test]
fn a_pair_is_logged_once_a_minute() {
    let mut drops = Drops::default();
    let start = Instant::now();
    assert!(drops.is_to_be_said(&drop(1, 80), start));
    assert!(!drops.is_to_be_said(&drop(1, 81), start + SAID_AGAIN / 2));
    assert!(drops.is_to_be_said(&drop(3, 80), start + SAID_AGAIN / 2));
    assert!(drops.is_to_be_said(&drop(1, 80), start + SAID_AGAIN));
}

#[test]
fn pairs_that_are_logged_are_bounded() {
    let mut drops = Drops::default();
    let start = Instant::now();
    let mut one = drop(1, 80);
    let mut said = 0;
    for source in 0..10_000_u32 {
        one.source.address = IpAddr::from(source.to_be_bytes());
        said += usize::from(drops.is_to_be_said(&one, start));
    }
    assert_eq!(said, MOST_SAID);
    assert!(drops.is_to_be_said(&one, start + SAID_AGAIN));
}

#[test]
fn a_packet_is_a_line() {
    let text = drop(1, 80).to_string();
    let expected = "2026-01-01T00:00:00.000Z dropped ingress 10.0.0.1 to a/web (10.0.0.2) port 80/tcp: isolated";
    assert_eq!(text, expected);
}

#[test]
fn namespaces_are_bounded() {
    let mut reports = Reports::new();
    let key = |namespace: &str| (namespace.into(), Outcome::Dropped, Direction::Egress);
    for namespace in 0..10_000 {
        count(&mut reports, key(&format!("ns-{namespace}")));
    }
    count(&mut reports, key("ns-0"));
    assert!(reports.len() <= MOST_REPORTS + 4);
    assert_eq!(reports[&key("ns-0")], 2);
    assert_eq!(reports[&key("")], 10_000 - MOST_REPORTS as u64);
}
