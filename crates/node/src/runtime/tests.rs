//! Test consumers that the runtime does not know: with their own events, status, metric, questions and due times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sluice_model::NamespacedName;

use super::*;
use crate::events::Keyed;
use crate::health::{Health, NodeObject, Probe, StepClock};
use crate::hold::Wait;
use crate::metrics::for_test;

const WITHIN: Duration = Duration::from_secs(20);

/// A shelf gets a number of pieces of a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery(&'static str, u64);

impl Keyed for Delivery {
    type Key = &'static str;

    fn key(&self) -> &'static str {
        self.0
    }

    /// Of `toys/ball`: `toys`.
    fn namespace(&self) -> Option<Arc<str>> {
        Some(self.0.split_once('/')?.0.into())
    }
}

/// Writes things down, one a step, each some time after the one before.
struct Shelf {
    wanted: BTreeMap<&'static str, u64>,
    written: BTreeMap<&'static str, u64>,
    pause: Duration,
    begun: Instant,
    due: Option<Instant>,
    clock: StepClock,
    pieces: Arc<AtomicU64>,
    told: Sender<String>,
}

#[derive(Serialize)]
struct ShelfStatus {
    things: usize,
    waiting: usize,
}

impl Consumer for Shelf {
    type Event = Delivery;

    fn absorb(&mut self, events: Vec<Delivery>) {
        self.wanted
            .extend(events.into_iter().map(|it| (it.0, it.1)));
        self.due = self.due.or(Some(self.begun));
    }

    fn due(&self, _: Instant) -> Option<Instant> {
        self.due
    }

    fn step(&mut self, now: Instant) -> Option<Settled> {
        if self.due.is_none_or(|it| it > now) {
            return None;
        }
        if let Some((thing, pieces)) = self.wanted.pop_first() {
            self.pieces.fetch_add(pieces, Ordering::Relaxed);
            self.written.insert(thing, pieces);
        }
        self.due = (!self.wanted.is_empty()).then(|| now + self.pause);
        self.clock.done();
        let except = self.wanted.keys().map(|it| name(it)).collect();
        Some(Settled {
            except,
            ..Settled::default()
        })
    }

    fn status(&self) -> Section {
        Section::beside(&ShelfStatus {
            things: self.written.len(),
            waiting: self.wanted.len(),
        })
    }

    fn begin(&mut self) {
        let _ = self.told.send("begin".to_owned());
    }

    fn stop(&mut self) {
        let _ = self.told.send("stop".to_owned());
    }
}

/// The text of a sign; it is shown when the thing is on the shelf.
#[derive(Clone, Debug)]
struct Label(&'static str, &'static str);

impl Keyed for Label {
    type Key = &'static str;

    fn key(&self) -> &'static str {
        self.0
    }
}

/// Shows signs: a consumer whose events wait for the shelf.
#[derive(Default)]
struct Signs(Vec<&'static str>);

impl Consumer for Signs {
    type Event = Label;

    fn absorb(&mut self, events: Vec<Label>) {
        self.0.extend(events.into_iter().map(|it| it.1));
    }

    fn due(&self, _: Instant) -> Option<Instant> {
        None
    }

    fn step(&mut self, _: Instant) -> Option<Settled> {
        None
    }

    fn status(&self) -> Section {
        Section::named("signs", &self.0)
    }

    fn wait(label: &Label) -> Wait {
        match label.0 {
            "welcome" => Wait::No,
            "prices" => Wait::Step,
            thing => Wait::Object(name(thing)),
        }
    }
}

fn name(thing: &str) -> NamespacedName {
    let (namespace, name) = thing.split_once('/').unwrap_or(("shop", thing));
    NamespacedName::new(namespace, name)
}

/// A runtime with both consumers, not started.
struct World {
    runtime: Runtime,
    shelf: Handle<Shelf>,
    signs: Handle<Signs>,
    told: Receiver<String>,
    health: Arc<Health>,
    pieces: Arc<AtomicU64>,
}

fn world(pause: Duration) -> World {
    let mut runtime = Runtime::new("node-a", "toy");
    let (shelf, signs) = (runtime.inbox(), runtime.inbox());
    let (of_shelf, of_signs) = (shelf.handle(), signs.handle());
    let health = Arc::new(Health::new(NodeObject::Optional, Timestamp::now()));
    let (told, received) = mpsc::channel();
    let pieces = Arc::new(AtomicU64::new(0));
    let consumer = Shelf {
        wanted: BTreeMap::new(),
        written: BTreeMap::new(),
        pause,
        begun: Instant::now(),
        due: None,
        clock: health.clock(WITHIN, Instant::now()),
        pieces: pieces.clone(),
        told,
    };
    runtime.add_after(signs, Signs::default(), &of_shelf);
    runtime.add(shelf, consumer);
    World {
        runtime,
        shelf: of_shelf,
        signs: of_signs,
        told: received,
        health,
        pieces,
    }
}

impl World {
    /// Takes in everything, and steps once.
    fn turn(&mut self) {
        // An input, because a turn without one would wait while nothing is due.
        self.shelf.tell(|_| {});
        assert!(self.runtime.turn());
    }

    fn status(&self) -> String {
        let json = self.runtime.status().timeless();
        let (_, own) = json.split_once("\"uptime_seconds\":0.0").expect("shown");
        own.to_owned()
    }
}

#[test]
fn a_consumer_has_its_own_events_status_questions_and_due_times() {
    let mut world = world(Duration::from_millis(1));
    let healthy = |world: &World| {
        let report = world
            .health
            .report(Probe::Readyz, Instant::now(), Timestamp::now());
        report.is_ok()
    };
    assert!(!healthy(&world), "no step yet");
    world
        .shelf
        .events([Delivery("tea", 1), Delivery("rum", 7), Delivery("tea", 2)]);
    world.turn();
    assert!(healthy(&world));
    let first = r#","things":1,"waiting":1,"signs":[]}"#;
    assert_eq!(world.status(), first);
    // Due again, without any input but what the first turn left of the burst.
    while world.status() == first {
        assert!(world.runtime.turn());
    }
    assert_eq!(world.status(), r#","things":2,"waiting":0,"signs":[]}"#);
    let answer = world.shelf.ask(|it| it.written.clone());
    world.turn();
    let written = answer.blocking_recv().expect("an answer");
    assert_eq!(written, BTreeMap::from([("rum", 7), ("tea", 2)]));
}

#[test]
fn the_status_begins_with_the_runtime() {
    let world = world(Duration::ZERO);
    let json = world.runtime.status().timeless();
    let expected = format!(
        r#"{{"version":"{}","pid":{},"node":"node-a","mode":"toy","uptime_seconds":0.0,"things":0,"waiting":0,"signs":[]}}"#,
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    );
    assert_eq!(json, expected);
}

#[test]
fn events_wait_until_the_other_consumer_has_settled_them() {
    let mut world = world(Duration::ZERO);
    let shown = |world: &mut World| {
        let answer = world.signs.ask(|it| it.0.clone());
        world.turn();
        answer.blocking_recv().expect("an answer")
    };
    world
        .signs
        .events([Label("welcome", "welcome"), Label("prices", "prices")]);
    world
        .signs
        .events([Label("rum", "rum: none"), Label("tea", "tea")]);
    assert_eq!(shown(&mut world), [""; 0], "nothing before the first step");
    world.signs.events([Label("rum", "rum")]);
    world.shelf.events([Delivery("rum", 1), Delivery("tea", 1)]);
    // The answer comes before the step.
    assert_eq!(shown(&mut world), [""; 0]);
    assert_eq!(shown(&mut world), ["welcome", "prices", "rum"]);
    assert_eq!(shown(&mut world), ["welcome", "prices", "rum", "tea"]);
    world
        .signs
        .events([Label("rum", "rum: sold"), Label("welcome", "hello")]);
    assert_eq!(
        shown(&mut world).last(),
        Some(&"hello"),
        "it waits for nothing"
    );
    world.shelf.events([Delivery("rum", 0)]);
    world.turn();
    assert_eq!(shown(&mut world).last(), Some(&"rum: sold"));
}

/// An event that the second consumer has is in the first one's queue: no step settles an object that the
/// first one does not know.
#[test]
fn nothing_is_settled_that_the_other_consumer_has_not_taken_in() {
    let mut world = world(Duration::ZERO);
    world.shelf.events([Delivery("ale", 1)]);
    world.turn();
    for round in 0..100 {
        world.shelf.queue.add(vec![Delivery("rum", round)]);
        world.signs.events([Label("rum", "rum")]);
        world.turn();
        assert_eq!(
            world.pieces.load(Ordering::Relaxed),
            1 + round * (round + 1) / 2
        );
    }
}

/// A source sends an object to the first consumer, which settles it before the second one gets the event. There may
/// be no further step for a long time.
#[test]
fn what_is_settled_already_is_not_waited_for() {
    let mut world = world(Duration::ZERO);
    world.shelf.events([Delivery("rum", 1)]);
    world.turn();
    world.signs.events([Label("rum", "rum")]);
    world.turn();
    let answer = world.signs.ask(|it| it.0.clone());
    world.turn();
    assert_eq!(answer.blocking_recv().expect("an answer"), ["rum"]);
}

#[test]
fn one_input_stands_for_all_events_that_wait() {
    let world = world(Duration::ZERO);
    world.shelf.events([]);
    assert!(world.runtime.inputs.try_recv().is_err(), "nothing waits");
    for round in 0..10_000 {
        world
            .shelf
            .events([Delivery("tea", round), Delivery("rum", round)]);
    }
    assert!(matches!(world.runtime.inputs.try_recv(), Ok(Input::For(0))));
    assert!(world.runtime.inputs.try_recv().is_err(), "one input");
    let events = world.shelf.queue.take(usize::MAX);
    assert_eq!(events, [Delivery("tea", 9_999), Delivery("rum", 9_999)]);
    world.shelf.events([Delivery("tea", 1)]);
    assert!(matches!(world.runtime.inputs.try_recv(), Ok(Input::For(0))));
}

/// A small change does not wait until a large one is taken in, and what waits for the large one goes on waiting.
#[test]
fn many_events_are_taken_in_a_part_at_a_time() {
    let mut world = world(Duration::ZERO);
    let toys = (0..2 * EVENTS).map(|it| format!("toys/{it}"));
    let toys: Vec<&'static str> = toys.map(|it| &*it.leak()).collect();
    let last = toys[toys.len() - 1];
    world.shelf.events(toys.iter().map(|it| Delivery(it, 1)));
    world.shelf.events([Delivery("tea/green", 7)]);
    world
        .signs
        .events([Label(last, "toys"), Label("tea/green", "tea")]);
    assert!(world.runtime.turn());
    let held = |world: &mut World| {
        let slot = world.runtime.slots[0].as_mut().unwrap();
        (slot.namespaces().len(), slot.due(Instant::now()).is_some())
    };
    assert_eq!(held(&mut world), (1, true));
    assert!(
        world
            .status()
            .contains(&format!("\"waiting\":{}", EVENTS - 1))
    );
    // The first thing in order was written: of the tea all has been taken in.
    assert!(
        world.status().contains("\"signs\":[\"tea\"]"),
        "{}",
        world.status()
    );
    // The next steps take fewer where the first one was slow.
    while held(&mut world).0 > 0 {
        assert!(world.runtime.turn());
    }
    assert!(held(&mut world).1);
    assert!(
        world.status().contains("\"signs\":[\"tea\"]"),
        "{}",
        world.status()
    );
}

/// Whoever asks much waits; what others change does not wait for him.
#[test]
fn questions_do_not_delay_a_step() {
    let mut world = world(Duration::ZERO);
    let asked = Arc::new(AtomicU64::new(0));
    for _ in 0..50 {
        let asked = asked.clone();
        world.shelf.tell(move |_| {
            let begin = Instant::now();
            while begin.elapsed() < 2 * INPUTS_TAKE {}
            asked.fetch_add(1, Ordering::Relaxed);
        });
    }
    world.shelf.events([Delivery("tea", 7)]);
    assert!(world.runtime.turn());
    assert_eq!(world.pieces.load(Ordering::Relaxed), 7);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    while asked.load(Ordering::Relaxed) < 50 {
        assert!(world.runtime.turn());
    }
}

/// Another process may have had the processor since the input came.
#[test]
fn an_input_is_taken_however_late_it_is() {
    let mut world = world(Duration::ZERO);
    let mut answer = world.shelf.ask(|_| ());
    let first = world.runtime.inputs.recv().ok();
    assert!(world.runtime.take_in(first, Instant::now() - INPUTS_TAKE));
    answer.try_recv().expect("it is answered");
}

#[test]
fn a_consumer_registers_its_own_metric() {
    const HELP: &str = "toy_pieces Pieces on the shelf.\n";
    let metrics = for_test();
    let pieces = Arc::new(AtomicU64::new(3));
    let gauge = metrics.registrar(HELP).gauge("toy_pieces");
    let counted = pieces.clone();
    metrics.on_scrape(move || gauge.set(counted.load(Ordering::Relaxed) as i64));
    let text = || metrics.text().expect("complete");
    let shown = "# HELP toy_pieces Pieces on the shelf.\n# TYPE toy_pieces gauge\ntoy_pieces 3\n";
    assert!(text().contains(shown), "{}", text());
    pieces.store(4, Ordering::Relaxed);
    assert!(text().contains("toy_pieces 4\n"));
}

#[test]
fn the_loop_begins_works_and_stops() {
    let (sender, started) = mpsc::channel();
    let running = thread::spawn(move || {
        let world = world(Duration::ZERO);
        sender
            .send((world.shelf.clone(), world.runtime.control(), world.told))
            .expect("the test waits");
        drop((world.shelf, world.signs));
        world.runtime.run();
    });
    let (shelf, control, told) = started.recv_timeout(WITHIN).expect("it starts");
    assert_eq!(told.recv_timeout(WITHIN).as_deref(), Ok("begin"));
    shelf.events([Delivery("tea", 1)]);
    let things: BTreeSet<&str> = loop {
        let written = shelf.ask(|it| it.written.keys().copied().collect());
        let written: BTreeSet<&str> = written.blocking_recv().expect("an answer");
        if !written.is_empty() {
            break written;
        }
    };
    assert_eq!(things, BTreeSet::from(["tea"]));
    assert!(control.stop());
    assert_eq!(told.recv_timeout(WITHIN).as_deref(), Ok("stop"));
    running.join().expect("no panic");
    assert!(!control.stop(), "it has ended");
    assert!(!shelf.tell(|_| {}));
}
