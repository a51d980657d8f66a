//! Runs many scenarios in one process, on few clusters.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use sluice_plan::settings::Settings;
use sluice_plane::ServiceBackend;

use super::packets::run_on;
use super::testbed::Testbed;
use super::{Scenario, all};

/// Environment variable: only scenarios with its value in their name run.
const FILTER: &str = "SLUICE_SCENARIO";

/// Every `of`th scenario, beginning with number `first`: parts that need about the same time.
pub fn part(first: usize, of: usize) -> Vec<Scenario> {
    all().into_iter().skip(first).step_by(of).collect()
}

/// As [`part`], without the scenarios that are not played: pairs of the beginning of their names, and the reason.
///
/// # Panics
/// When no scenario's name begins so.
pub fn part_without(first: usize, of: usize, not_played: &[(&str, &str)]) -> Vec<Scenario> {
    let is_played = |it: &Scenario| {
        !not_played
            .iter()
            .any(|(start, _)| it.name.starts_with(start))
    };
    for (start, _) in not_played {
        let mut all = all().into_iter();
        assert!(
            all.any(|it| it.name.starts_with(start)),
            "no scenario {start}"
        );
    }
    part(first, of).into_iter().filter(is_played).collect()
}

/// The scenarios whose names begin with any of these.
pub fn beginning_with(beginnings: &[&str]) -> Vec<Scenario> {
    let wanted = |it: &Scenario| beginnings.iter().any(|start| it.name.starts_with(start));
    all().into_iter().filter(wanted).collect()
}

/// Runs scenarios with real packets, a few at a time: each check must agree with the packets and
/// with `Plan::lookup`. `make` opens the backend in the namespace of the calling thread, which is
/// node-a's. Prints the result and the time of each scenario; goes on when one fails.
///
/// Scenarios reuse clusters: building one costs twice as much CPU as a scenario (0.15 s in an
/// unloaded network namespace, seconds in a virtual machine).
///
/// # Panics
/// At the end, with the names of all that failed.
pub fn run_all<P: ServiceBackend>(scenarios: &[Scenario], make: impl Fn(&Settings) -> P + Sync) {
    let filter = env::var(FILTER).unwrap_or_default();
    let wanted = scenarios.iter().filter(|it| it.name.contains(&filter));
    let queue = Mutex::new(wanted);
    let free: Mutex<Vec<Testbed>> = Mutex::default();
    let failed: Mutex<Vec<&str>> = Mutex::default();
    // One more than processors: some scenarios wait for the timeout of a drop.
    let workers = thread::available_parallelism().map_or(1, usize::from) + 1;
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(scenario) = locked(&queue, Iterator::next) {
                    let began = Instant::now();
                    let ran = catch_unwind(AssertUnwindSafe(|| {
                        run_on_free_testbed(scenario, &free, &make)
                    }));
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

/// Runs a scenario on a free testbed that suits it, or on a new one. A testbed is dropped when a
/// scenario fails on it.
fn run_on_free_testbed<P: ServiceBackend>(
    scenario: &Scenario,
    free: &Mutex<Vec<Testbed>>,
    make: impl Fn(&Settings) -> P + Sync,
) {
    let found = locked(free, |testbeds| {
        let position = testbeds.iter().position(|it| it.suits(scenario));
        position.map(|it| testbeds.swap_remove(it))
    });
    let build = || Testbed::build(scenario).expect("this machine can build a lab");
    let mut testbed = found.unwrap_or_else(build);
    run_on(&mut testbed, scenario, make);
    testbed.clear().expect("a namespace can be cleared");
    locked(free, |testbeds| testbeds.push(testbed));
}

/// Runs `task` on the value. A panic of another thread leaves every value here complete.
fn locked<T, R>(mutex: &Mutex<T>, task: impl FnOnce(&mut T) -> R) -> R {
    task(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}
