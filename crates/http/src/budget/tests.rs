use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::*;

/// Limits: 16 remote connections, 2 per source, 8 local ones.
const DESCRIPTORS: usize = 64;

/// Counters as metrics have them.
#[derive(Default)]
struct Counts {
    open: AtomicI64,
    closed: [AtomicU64; 3],
}

impl Report for Counts {
    fn open(&self, connections: usize) {
        self.open.store(connections as i64, Ordering::Relaxed);
    }

    fn limit_reached(&self, limit: Limit) {
        let counters = Limit::ALL.iter().zip(&self.closed);
        for (_, counter) in counters.filter(|(it, _)| **it == limit) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A budget and what it reported.
struct Counted {
    budget: Arc<Budget>,
    counts: Arc<Counts>,
}

impl Deref for Counted {
    type Target = Arc<Budget>;

    fn deref(&self) -> &Arc<Budget> {
        &self.budget
    }
}

fn budget(descriptors: usize) -> Counted {
    let counts = Arc::new(Counts::default());
    let budget = Budget::new(descriptors, Own::default(), counts.clone());
    Counted { budget, counts }
}

fn remote(text: &str) -> Source {
    source(text, "192.0.2.1", &Own::default())
}

fn source(peer: &str, to: &str, own: &Own) -> Source {
    let parse = |it: &str| it.parse().expect("an address");
    Source::between(parse(peer), parse(to), own)
}

/// A source of its own for each number.
fn machine(number: usize) -> Source {
    remote(&format!("198.18.{}.{}", number / 256, number % 256))
}

fn is_open((_, closed): &mut (Place, Closed)) -> bool {
    closed.try_recv() == Err(oneshot::error::TryRecvError::Empty)
}

#[track_caller]
fn closed(budget: &Counted, limit: &str) -> u64 {
    let mut counters = Limit::ALL.iter().zip(&budget.counts.closed);
    let counter = counters.find(|(it, _)| it.as_str() == limit);
    let (_, count) = counter.expect("there from the start");
    count.load(Ordering::Relaxed)
}

#[test]
fn limits_leave_descriptors_for_the_rest() {
    for descriptors in [64, 256, 1024, 4096, 20_000, 65_536, usize::MAX] {
        let limits = Shares::of_descriptors(descriptors);
        let used = limits.remote + limits.local + limits.listeners;
        assert!(used <= descriptors / 8 * 5 + 8, "{descriptors}: {limits:?}");
    }
    let usual = Shares {
        remote: 256,
        per_source: 32,
        local: 128,
        listeners: 256,
    };
    assert_eq!(Shares::of_descriptors(1024), usual);
    let most = Shares::of_descriptors(usize::MAX);
    assert_eq!((most.remote, most.per_source, most.local), (512, 64, 256));
    let least = Shares::of_descriptors(0);
    assert_eq!((least.per_source, least.local), (1, 1));
}

#[test]
fn sources() {
    let own = Own::default();
    own.set(&["192.168.0.7".parse().expect("an address")].into());
    for (peer, to) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.9", "192.0.2.1"),
        ("::1", "::1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("192.168.0.7", "192.168.0.8"),
        ("::ffff:192.168.0.7", "::ffff:192.168.0.8"),
    ] {
        assert_eq!(source(peer, to, &own), Source::Local, "{peer} to {to}");
    }
    for (peer, other, is_one) in [
        ("192.0.2.2", "192.0.2.3", false),
        ("192.0.2.2", "::ffff:192.0.2.2", true),
        ("2001:db8::2", "2001:db8::ffff:0:0:3", true),
        ("2001:db8:0:1::2", "2001:db8:0:2::2", false),
    ] {
        assert_ne!(remote(peer), Source::Local);
        assert_eq!(remote(peer) == remote(other), is_one, "{peer} {other}");
    }
}

#[test]
fn a_source_pushes_out_only_its_own_connections() {
    let (budget, now) = (budget(DESCRIPTORS), Instant::now());
    let mut victim = budget.admit_at(machine(1), now).expect("room");
    let mut attackers: Vec<_> = (0..100)
        .map(|_| budget.admit_at(machine(2), now).expect("room"))
        .collect();
    assert!(is_open(&mut victim));
    let open = attackers
        .iter_mut()
        .filter_map(|it| is_open(it).then_some(()));
    assert_eq!(open.count(), 2);
    assert!(is_open(&mut attackers[99]), "the latest stays");
    assert_eq!(closed(&budget, "source"), 98);
    assert_eq!(closed(&budget, "remote"), 0);
}

#[test]
fn the_connection_that_is_idle_for_longest_makes_room() {
    let (budget, now) = (budget(DESCRIPTORS), Instant::now());
    let second = |it| now + Duration::from_secs(it);
    let mut all: Vec<_> = (0..16)
        .map(|it| budget.admit_at(machine(it), now).expect("room"))
        .collect();
    for (begin, it) in (1..).zip(&all) {
        it.0.enter_at(Stage::Idle, second(begin));
    }
    all[0].0.enter_at(Stage::Idle, second(40));
    all[1].0.enter_at(Stage::Computing, now);
    all[2].0.enter_at(Stage::Sending, second(41));
    let mut local = budget
        .admit_at(Source::Local, now)
        .expect("a part of its own");
    let mut new = budget.admit_at(machine(99), second(50)).expect("room");
    let open: Vec<bool> = all.iter_mut().map(is_open).collect();
    let expected: Vec<bool> = (0..16).map(|it| it != 3).collect();
    assert_eq!(open, expected);
    assert!(is_open(&mut local) && is_open(&mut new));
    assert_eq!(closed(&budget, "remote"), 1);
}

#[test]
fn answers_in_progress_are_never_pushed_out() {
    let (budget, now) = (budget(DESCRIPTORS), Instant::now());
    let mut all: Vec<_> = (0..16)
        .map(|it| budget.admit_at(machine(it), now).expect("room"))
        .collect();
    for it in &all {
        it.0.enter_at(Stage::Computing, now);
    }
    let much_later = now + Duration::from_secs(3600);
    assert!(budget.admit_at(machine(99), much_later).is_none());
    all[5].0.enter_at(Stage::Sending, much_later);
    assert!(budget.admit_at(machine(99), much_later).is_none());
    assert!(all.iter_mut().all(is_open));
    assert_eq!(closed(&budget, "remote"), 2, "refused ones count");
    let stalled = much_later + STALLED;
    let _new = budget.admit_at(machine(99), stalled).expect("room");
    assert!(!is_open(&mut all[5]), "its client does not read");
}

#[test]
fn local_clients_make_room_for_each_other_only() {
    let (budget, now) = (budget(DESCRIPTORS), Instant::now());
    let mut local: Vec<_> = (0..8)
        .map(|_| budget.admit_at(Source::Local, now).expect("room"))
        .collect();
    let _remote: Vec<_> = (0..2000)
        .map(|it| budget.admit_at(machine(it), now).expect("room"))
        .collect();
    assert!(local.iter_mut().all(is_open));
    let mut new = budget.admit_at(Source::Local, now).expect("room");
    assert_eq!(
        local
            .iter_mut()
            .filter_map(|it| is_open(it).then_some(()))
            .count(),
        7
    );
    assert!(is_open(&mut new));
    assert_eq!(closed(&budget, "local"), 1);
}

#[test]
fn places_are_free_again() {
    let (budget, now) = (budget(DESCRIPTORS), Instant::now());
    let gauge = || budget.counts.open.load(Ordering::Relaxed);
    let first = budget.admit_at(machine(1), now);
    let second = budget.admit_at(machine(1), now);
    assert_eq!(gauge(), 2);
    drop((first, second));
    assert_eq!(gauge(), 0);
    let _again = budget.admit_at(machine(1), now).expect("room");
    assert_eq!((gauge(), closed(&budget, "source")), (1, 0));
}

#[test]
fn reached_limits_are_logged_once_a_minute() {
    let now = Instant::now();
    let mut connections = Connections::default();
    for second in 0..59 {
        let later = now + Duration::from_secs(second);
        connections.log(Limit::Remote, Source::Local, later);
        assert_eq!(connections.logged, Some(now));
    }
    assert_eq!(connections.reached, 58);
    let later = now + LOG_PERIOD;
    connections.log(Limit::Remote, Source::Local, later);
    assert_eq!((connections.logged, connections.reached), (Some(later), 0));
}
