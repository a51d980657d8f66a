use super::*;
use crate::metrics::Metrics;

fn bound(most: usize, most_per_client: usize) -> (Arc<Bound>, Metrics) {
    let metrics = Metrics::new(1, "test");
    let shed = ["queries", "client_queries"].map(|it| metrics.ours.shed(it));
    let bound = Bound::new(most, most_per_client, metrics.ours.in_flight.clone(), shed);
    (bound, metrics)
}

#[test]
fn a_client_cannot_take_all() {
    let (bound, metrics) = bound(3, 2);
    let one = IpAddr::from([10, 0, 0, 1]);
    let other = IpAddr::from([10, 0, 0, 2]);
    let held: Vec<_> = (0..2).map(|_| bound.admit(one).unwrap()).collect();
    assert!(bound.admit(one).is_none());
    let last = bound.admit(other).unwrap();
    assert!(bound.admit(other).is_none());
    assert_eq!(metrics.ours.in_flight.get(), 3);
    drop((held, last));
    assert_eq!(metrics.ours.in_flight.get(), 0);
    assert!(bound.lock().clients.is_empty());
}

#[test]
fn all_of_an_ipv6_subnet_is_one_client() {
    let (bound, _metrics) = bound(10, 1);
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let _held = bound.admit(ip("2001:db8::1")).unwrap();
    assert!(bound.admit(ip("2001:db8::ffff:2")).is_none());
    assert!(bound.admit(ip("2001:db8:0:1::1")).is_some());
    let _mapped = bound.admit(ip("::ffff:10.0.0.1")).unwrap();
    assert!(bound.admit(ip("10.0.0.1")).is_none());
}
