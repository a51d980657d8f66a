//! What the processes of pods and agents use.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};
use serde_json::Value;
use sluice_api::{Metrics, Used};

use crate::lab_dir::LabDir;
use crate::nodes;
use crate::process::{Identity, stat_fields};
use crate::record::Record;

/// Shortest time over which CPU time is measured. Until a process was seen twice that far apart, its whole life counts.
const WINDOW: Duration = Duration::from_secs(1);

/// Measures the processes of a lab whenever it is asked: an idle lab costs nothing.
pub(crate) struct Usage {
    pub(crate) lab_dir: LabDir,
    samples: Mutex<Samples>,
}

#[derive(Default)]
struct Samples {
    last: Option<Sample>,
    before: Option<Sample>,
}

/// All processes at one moment.
struct Sample {
    at: Instant,
    /// The time since boot.
    uptime: Duration,
    /// By process group: a container's processes are one.
    groups: HashMap<i32, Process>,
    /// The key is the process id.
    processes: HashMap<i32, Process>,
}

#[derive(Clone, Copy, Default)]
struct Process {
    cpu: Duration,
    memory: u64,
    /// The start of its first process after boot.
    started: Duration,
}

/// The processes that belong together.
#[derive(Clone, Copy)]
enum Of {
    Group(i32),
    Process(i32),
}

impl Usage {
    pub(crate) fn new(lab_dir: LabDir) -> Self {
        Self {
            lab_dir,
            samples: Mutex::default(),
        }
    }

    fn of(&self, of: Of) -> Option<Used> {
        let mut samples = self.samples.lock().expect("nobody panics with it");
        let is_old = |it: &Sample| it.at.elapsed() >= WINDOW;
        if samples.last.as_ref().is_none_or(is_old) {
            let new = Sample::take();
            samples.before = samples.last.replace(new);
        }
        let last = samples.last.as_ref()?;
        let now = last.get(of)?;
        let before = samples.before.as_ref();
        let before = before.and_then(|it| Some((it.at, it.get(of)?)));
        let (cpu, window) = match before {
            Some((at, it)) if it.started == now.started => {
                (now.cpu.saturating_sub(it.cpu), last.at.duration_since(at))
            }
            _ => (now.cpu, last.uptime.saturating_sub(now.started)),
        };
        let window = window.max(Duration::from_millis(10));
        Some(Used {
            cpu: (cpu.as_secs_f64() / window.as_secs_f64() * 1e9) as u64,
            memory: now.memory,
            window,
        })
    }

    fn of_pod(&self, record: &Record) -> Vec<(String, Used)> {
        let running = record
            .containers
            .iter()
            .filter(|it| it.identity.is_running());
        let each = running.filter_map(|it| {
            let used = self.of(Of::Group(it.identity.pid().as_raw()))?;
            Some((it.name.clone(), used))
        });
        each.collect()
    }
}

impl Metrics for Usage {
    fn containers(&self, pod: &Value) -> Vec<(String, Used)> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let record = Record::of(&self.lab_dir, uid);
        record.map_or_else(Vec::new, |it| self.of_pod(&it))
    }

    fn node(&self, node: &Value) -> Option<Used> {
        let name = node["metadata"]["name"].as_str()?;
        let agent = nodes::agent(&self.lab_dir, name).filter(Identity::is_running);
        let agent = agent.and_then(|it| self.of(Of::Process(it.pid().as_raw())));
        let pods = Record::all(&self.lab_dir).into_iter();
        let pods = pods.filter(|it| it.node == name);
        let pods = pods.flat_map(|it| self.of_pod(&it)).map(|(_, it)| it);
        let add = |sum: Used, it: Used| Used {
            cpu: sum.cpu + it.cpu,
            memory: sum.memory + it.memory,
            window: sum.window.max(it.window),
        };
        Some(agent.into_iter().chain(pods).fold(Used::default(), add))
    }
}

impl Sample {
    fn take() -> Self {
        let ticks = sysconf(SysconfVar::CLK_TCK)
            .ok()
            .flatten()
            .unwrap_or(100)
            .max(1) as f64;
        let page = sysconf(SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .unwrap_or(4096) as u64;
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime = uptime.split(' ').next().and_then(|it| it.parse().ok());
        let mut sample = Self {
            at: Instant::now(),
            uptime: Duration::from_secs_f64(uptime.unwrap_or_default()),
            groups: HashMap::new(),
            processes: HashMap::new(),
        };
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            // It may have ended meanwhile.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((group, process)) = read(&stat, ticks, page) else {
                continue;
            };
            sample.processes.insert(pid, process);
            let sum = sample.groups.entry(group).or_insert(Process {
                started: process.started,
                ..Process::default()
            });
            sum.cpu += process.cpu;
            sum.memory += process.memory;
            sum.started = sum.started.min(process.started);
        }
        sample
    }

    fn get(&self, of: Of) -> Option<Process> {
        match of {
            Of::Group(id) => self.groups.get(&id).copied(),
            Of::Process(id) => self.processes.get(&id).copied(),
        }
    }
}

/// The process group and the process of `/proc/PID/stat` (`proc_pid_stat(5)`); CPU time of children that were waited for
/// counts.
fn read(stat: &str, ticks: f64, page: u64) -> Option<(i32, Process)> {
    let field = stat_fields(stat)?;
    let number = |it: usize| field(it)?.parse::<u64>().ok();
    let time = |it: u64| Duration::from_secs_f64(it as f64 / ticks);
    let cpu = [14, 15, 16, 17].iter().filter_map(|it| number(*it)).sum();
    let process = Process {
        cpu: time(cpu),
        started: time(number(22)?),
        memory: number(24)? * page,
    };
    Some((i32::try_from(number(5)?).ok()?, process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let stat = "7 (a ) b) S 1 5 5 0 -1 4194560 100 200 0 0 30 20 40 10 20 0 1 0 1000 99999 25 \
                    18446744073709551615 1 1 0 0";
        let (group, process) = read(stat, 100.0, 4096).unwrap();
        assert_eq!(group, 5);
        assert_eq!(process.cpu, Duration::from_secs(1));
        assert_eq!(process.started, Duration::from_secs(10));
        assert_eq!(process.memory, 25 * 4096);
        assert!(read("", 100.0, 4096).is_none());
    }
}
