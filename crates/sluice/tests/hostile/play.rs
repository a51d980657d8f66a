//! Plays attacks while a victim is watched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError::Timeout;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use sluice_lab::eventually;

use crate::hostile::attack::Attack;
use crate::hostile::world::{BYSTANDER, Mode, VICTIM, WITHIN, World};

/// Syncs between the agent's knowledge of the victim's change and the one that writes it.
const SYNCS_BETWEEN: usize = 1;
/// Changes of the victim's endpoint during an attack, at least. During a storm each takes two seconds:
/// the source reads a folder that is never at rest once in that time.
const CHANGES: usize = 2;
/// What the agent may need, in KiB: objects of 1.5 MB included.
const MEMORY: usize = 300 * 1024;
/// Pause between two rounds of a storm: 200 in a second.
const STORM: Duration = Duration::from_millis(5);
/// Pause between two rounds of probes.
const PAUSE: Duration = Duration::from_millis(20);

/// Plays the attacks one after the other, and asserts that the others notice nothing.
pub(crate) fn play(mode: Mode, attacks: Vec<Attack>) {
    let world = &World::new(mode);
    let rounds = &AtomicU64::new(0);
    thread::scope(|scope| {
        let (stop, stopped) = channel();
        let observer = scope.spawn(move || observe(world, rounds, &stopped));
        let mut victim = Victim {
            world,
            pod: "one",
            rounds,
        };
        for attack in attacks {
            victim.endure(&attack);
        }
        end(stop);
        if let Err(panic) = observer.join() {
            std::panic::resume_unwind(panic);
        }
    });
    let status = world.await_status("written", |it| it.synced);
    assert_eq!(status.failures, 0, "{}", world.tail());
    assert_eq!(status.repairs, 0, "{}", world.tail());
}

/// Ends the thread that has the other end, as a panic here does.
fn end(stop: Sender<()>) {
    drop(stop);
}

/// Probes the agent's health from two machines, and the bystander, until it is stopped.
fn observe(world: &World, rounds: &AtomicU64, stopped: &Receiver<()>) {
    let node = world.cluster.node("node-a").netns();
    let prober = world.cluster.client("prober").netns();
    while stopped.recv_timeout(PAUSE) == Err(Timeout) {
        for (from, path) in [(node, "/livez"), (prober, "/livez"), (prober, "/healthz")] {
            let answer = world.get(from, 10256, path);
            assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        }
        let answer = world.ask(BYSTANDER, 80);
        assert_eq!(answer.name(), Some("bystander"), "{answer}");
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// The Service whose endpoint changes.
struct Victim<'a> {
    world: &'a World,
    /// The pod that serves.
    pod: &'static str,
    /// Rounds of probes that were answered.
    rounds: &'a AtomicU64,
}

impl Victim<'_> {
    fn endure(&mut self, attack: &Attack) {
        let (world, name) = (self.world, attack.name);
        let log = world.log_length();
        self.move_to("one", name);
        self.settle(name);
        let services = world.await_status(name, |_| true).services;
        let rules = world.rules();
        self.during(attack);
        if attack.twice {
            self.remove(attack, services);
            self.during(attack);
        }
        self.remove(attack, services);
        self.move_to("two", name);
        self.move_to("one", name);
        self.settle(name);
        if !attack.enlarges {
            // A deletion waits a moment for the object to come back.
            let same = eventually(WITHIN, || Some(world.rules()).filter(|it| *it == rules));
            assert_same(name, &rules, &same.unwrap_or_else(|| world.rules()));
        }
        let log = world.log(log);
        let known = attack.files.is_empty() || log.contains("hostile");
        assert!(known, "{name}: the agent has not seen it");
        self.assert_work(attack, &log);
    }

    /// Writes the manifests, and changes the victim's endpoint until all is written.
    fn during(&mut self, attack: &Attack) {
        let (world, name) = (self.world, attack.name);
        for (file, content) in &attack.files {
            world.write(file, content);
        }
        let held = attack.begin.map(|it| {
            self.settle(name);
            it(world)
        });
        thread::scope(|scope| {
            let (stop, stopped) = channel();
            if let Some(storm) = attack.storm {
                scope.spawn(move || {
                    let goes_on = |_: &u64| stopped.recv_timeout(STORM) == Err(Timeout);
                    (0..).take_while(goes_on).for_each(|it| storm(world, it));
                });
            }
            (0..CHANGES).for_each(|_| self.change(name));
            while attack.storm.is_none() && !world.status().is_some_and(|it| it.synced) {
                self.change(name);
            }
            end(stop);
        });
        if let Some(storm) = attack.storm {
            // What its files are at the end does not depend on when it was stopped.
            storm(world, 0);
            self.change(name);
        }
        for said in &attack.said {
            world.await_status(&format!("{name}: nobody says {said:?}"), |it| {
                let issues = it.issues.iter().map(ToString::to_string);
                let problems = it.problems.iter().map(ToString::to_string);
                issues.chain(problems).any(|it| it.contains(said))
            });
        }
        if attack.said.is_empty() && attack.storm.is_none() {
            let problems = world.status().map(|it| it.proxy.problems);
            assert_eq!(
                problems,
                Some(Vec::new()),
                "{name}: it is an attack that is taken in"
            );
        }
        if let Some(check) = attack.check {
            self.settle(name);
            check(world);
        }
        self.await_probes(name);
        drop(held);
    }

    /// Waits for probes that are sent from now on.
    fn await_probes(&self, name: &str) {
        let sent = || self.rounds.load(Ordering::Relaxed);
        let before = sent();
        let answered = eventually(WITHIN, || (sent() > before + 1).then_some(()));
        assert!(answered.is_some(), "{name}: probes have no answer");
    }

    /// Afterwards there are so many Services again. The victim's change does not wait for the deletions.
    fn remove(&mut self, attack: &Attack, services: usize) {
        for (file, _) in &attack.files {
            self.world.remove(file);
        }
        self.change(attack.name);
        self.world
            .await_status(attack.name, |it| it.synced && it.services == services);
    }

    /// Waits until everything is written.
    fn settle(&self, name: &str) {
        self.world.await_status(name, |it| it.synced);
    }

    fn change(&mut self, name: &str) {
        let next = if self.pod == "one" { "two" } else { "one" };
        self.move_to(next, name);
    }

    /// Changes the endpoint. The client reaches the new one, and the agent has written the change in
    /// the first or second sync after it knew.
    fn move_to(&mut self, pod: &'static str, name: &str) {
        if self.pod == pod {
            return;
        }
        let world = self.world;
        let log = world.log_length();
        world.point(pod);
        self.pod = pod;
        let mut last = None;
        let reached = eventually(WITHIN, || {
            let answer = last.insert(world.ask(VICTIM, 80));
            (answer.name() == Some(pod)).then_some(())
        });
        assert!(reached.is_some(), "{name}: {last:?}\n{}", world.tail());
        let between = eventually(WITHIN, || syncs_between(&world.log(log)));
        let between = between.unwrap_or_else(|| panic!("{name}: not logged\n{}", world.tail()));
        assert!(
            between <= SYNCS_BETWEEN,
            "{name}: {between} syncs\n{}",
            world.log(log)
        );
    }

    /// No sync writes more than a part.
    fn assert_work(&self, attack: &Attack, log: &str) {
        let steers = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
        assert!(!log.contains(steers), "{}: {log:?}", attack.name);
        let limit = self.world.mode.part(attack.largest);
        let name = attack.name;
        let (mut syncs, mut most) = (0, 0);
        for line in log.lines().filter(|it| is_sync(it)) {
            assert!(line.contains("full=false"), "{name}: {line}");
            let counts = ["added=", "replaced=", "deleted="];
            let objects = counts.iter().map(|it| number(line, it)).sum();
            assert!(objects <= limit, "{name}: more than {limit}: {line}");
            (syncs, most) = (syncs + 1, most.max(objects));
        }
        let memory = self.world.memory();
        assert!(memory < MEMORY, "{name}: {memory} KiB");
        eprintln!("{name}: {syncs} syncs of at most {most} objects, {memory} KiB");
    }
}

fn is_sync(line: &str) -> bool {
    line.contains(" synced added=")
}

/// The number after a word in a line of the log.
fn number(line: &str, word: &str) -> usize {
    let rest = line.split_once(word).map(|it| it.1);
    let number = rest.and_then(|it| it.split_whitespace().next());
    let number = number.unwrap_or_else(|| panic!("no {word} in {line}"));
    number.parse().expect("a number")
}

/// Syncs that wrote something after the agent knew of the victim's change and before the one that
/// wrote it; `None` while it is not written.
fn syncs_between(log: &str) -> Option<usize> {
    let mut lines = log.lines();
    lines.find(|it| it.contains("changed object=EndpointSlice victim/web-1"))?;
    let mut between = 0;
    for line in lines {
        if line.contains("written service=victim/web") {
            return Some(between);
        }
        between += usize::from(is_sync(line));
    }
    None
}

/// The rules after an attack are those before it.
fn assert_same(name: &str, before: &[String], after: &[String]) {
    let missing: Vec<&String> = before
        .iter()
        .filter(|it| after.binary_search(it).is_err())
        .collect();
    let left: Vec<&String> = after
        .iter()
        .filter(|it| before.binary_search(it).is_err())
        .collect();
    let same = before.len() == after.len() && missing.is_empty() && left.is_empty();
    let first = |it: &[&String]| {
        it.iter()
            .take(10)
            .map(|it| format!("{it}\n"))
            .collect::<String>()
    };
    assert!(
        same,
        "{name}: {} rules before, {} after; missing:\n{}left:\n{}",
        before.len(),
        after.len(),
        first(&missing),
        first(&left)
    );
}
