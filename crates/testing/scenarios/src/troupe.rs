//! Many scenarios in one process, on few clusters.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use sluice_plan::settings::Settings;
use sluice_plane::ServiceBackend;

use super::packets::play;
use super::stage::Stage;
use super::{Scenario, all};

/// Only scenarios with this in their name are run, when it is set: for who looks into one.
const FILTER: &str = "SLUICE_SCENARIO";

/// Every `of`th scenario, from the one at `first`: the list in parts that take alike long.
pub fn part(first: usize, of: usize) -> Vec<Scenario> {
    all().into_iter().skip(first).step_by(of).collect()
}

/// As [`part`], without those that the data plane of these tests cannot do: their names, and why.
///
/// # Panics
/// When there is no scenario of a name: an exception must not outlive what it is from.
pub fn part_without(first: usize, of: usize, impossible: &[(&str, &str)]) -> Vec<Scenario> {
    let is_impossible = |it: &Scenario| impossible.iter().any(|(name, _)| *name == it.name);
    for (name, _) in impossible {
        assert!(super::named(name).is_some(), "no scenario {name}");
    }
    let possible = part(first, of).into_iter();
    possible.filter(|it| !is_impossible(it)).collect()
}

/// The scenarios whose names begin with any of these.
pub fn beginning_with(beginnings: &[&str]) -> Vec<Scenario> {
    let wanted = |it: &Scenario| beginnings.iter().any(|start| it.name.starts_with(start));
    all().into_iter().filter(wanted).collect()
}

/// Runs scenarios as [`run`](super::run) does, a few at a time, each on a cluster that another one
/// left behind as it found it: to build one takes longer than most scenarios, above all where the
/// processor is emulated. Prints how each went; goes on when one fails.
///
/// # Panics
/// At the end, naming all that failed.
pub fn run_all<P: ServiceBackend>(scenarios: &[Scenario], make: impl Fn(&Settings) -> P + Sync) {
    let filter = env::var(FILTER).unwrap_or_default();
    let wanted = scenarios.iter().filter(|it| it.name.contains(&filter));
    let queue = Mutex::new(wanted);
    let free: Mutex<Vec<Stage>> = Mutex::default();
    let failed: Mutex<Vec<&str>> = Mutex::default();
    // One more than processors: some scenarios wait for silence.
    let workers = thread::available_parallelism().map_or(1, usize::from) + 1;
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(scenario) = locked(&queue, Iterator::next) {
                    let began = Instant::now();
                    let ran = catch_unwind(AssertUnwindSafe(|| on_a_stage(scenario, &free, &make)));
                    let (name, took) = (scenario.name, began.elapsed());
                    match ran {
                        Ok(()) => println!("scenario {name} ... ok ({took:.1?})"),
                        Err(_) => {
                            println!("scenario {name} ... FAILED ({took:.1?})");
                            locked(&failed, |it| it.push(name));
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_unstable();
    assert!(failed.is_empty(), "scenarios failed: {}", failed.join(", "));
}

/// Runs one on a stage that is free, or on a new one. Where it fails nobody plays again.
fn on_a_stage<P: ServiceBackend>(
    scenario: &Scenario,
    free: &Mutex<Vec<Stage>>,
    make: impl Fn(&Settings) -> P + Sync,
) {
    let found = locked(free, |stages| {
        let position = stages.iter().position(|it| it.suits(scenario));
        position.map(|it| stages.swap_remove(it))
    });
    let build = || Stage::build(scenario).expect("this machine can build a lab");
    let mut stage = found.unwrap_or_else(build);
    play(scenario, &mut stage, make);
    stage.clear().expect("a namespace can be cleared");
    locked(free, |stages| stages.push(stage));
}

/// Whoever panics leaves nothing half-done behind.
fn locked<T, R>(mutex: &Mutex<T>, task: impl FnOnce(&mut T) -> R) -> R {
    task(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}
