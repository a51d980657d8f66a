//! Probes of containers: schedule, execution and results.

mod grpc;
mod http;

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sluice_lab::Netns;

use crate::enter::Pids;
use http::Get;

/// How long more of a command's output is waited for once the command has ended.
const MOMENT: Duration = Duration::from_millis(200);

/// The first of the intervals at which a container is probed that is not ready yet. They double up to the period, so that a
/// server is found at the latest after twice the time that it took to listen. kubelet would come after a period.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);

/// Most bytes of a command's output that a failure shows (`maxReadLength` in `pkg/probe/exec`).
const MOST_SAID: usize = 10 * 1024;

/// The type of a probe (`pkg/kubelet/prober`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Runs before the others; its failure restarts the container.
    Startup,
    /// Its failure restarts the container.
    Liveness,
    /// Decides whether the pod is an endpoint.
    Readiness,
}

/// What a probe does.
pub(super) enum Question {
    Http(Get),
    Tcp(SocketAddr),
    /// The name of a service, or nothing.
    Grpc(SocketAddr, String),
    Exec(Command, Pids),
}

/// A probe of one run of a container.
#[derive(Debug)]
pub(super) struct Prober {
    pub(super) kind: Kind,
    probe: Probe,
    /// The time of the next probe; `None` while one runs.
    due: Option<Instant>,
    /// The next interval while the container was never ready and has run for less than a period; failures do not count then.
    early: Option<Duration>,
    successes: i32,
    failures: i32,
    /// The result so far.
    pub(super) passed: bool,
}

/// What a result means for the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unchanged,
    /// A failure that does not count: the container has just started.
    Early,
    Changed,
    /// The container must be restarted.
    Fatal,
}

impl Prober {
    /// The probes of a container that starts at `now`.
    pub(super) fn of(container: &Container, now: Instant) -> Vec<Self> {
        let kinds = [
            (Kind::Startup, &container.startup_probe),
            (Kind::Liveness, &container.liveness_probe),
            (Kind::Readiness, &container.readiness_probe),
        ];
        let probes = kinds
            .into_iter()
            .filter_map(|(kind, probe)| Some((kind, probe.clone()?)));
        probes
            .map(|(kind, probe)| {
                let delay = seconds(probe.initial_delay_seconds, 0);
                let early = (kind != Kind::Liveness).then_some(FIRST_INTERVAL);
                // kubelet's first tick comes before the container runs, so that liveness is asked after a period: a server
                // that does not listen at once is not sick.
                let first = early.unwrap_or_else(|| seconds(probe.period_seconds, 10));
                Self {
                    kind,
                    probe,
                    due: Some(now + delay.max(first)),
                    early,
                    successes: 0,
                    failures: 0,
                    passed: kind == Kind::Liveness,
                }
            })
            .collect()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Delays the probe: the container has not started yet.
    pub(super) fn postpone(&mut self, until: Instant) {
        self.due = Some(until);
    }

    /// The question of a probe that is due; [`answered`](Self::answered) schedules the next one.
    pub(super) fn question(
        &mut self,
        container: &Container,
        ip: IpAddr,
        exec: Option<(Command, Pids)>,
    ) -> Option<Question> {
        self.due = None;
        if let Some(http) = &self.probe.http_get {
            return Question::http(http, container, ip);
        }
        if let Some(tcp) = &self.probe.tcp_socket {
            let target = address(&tcp.host, &tcp.port, container, ip)?;
            return Some(Question::Tcp(target));
        }
        if let Some(grpc) = &self.probe.grpc {
            let target = SocketAddr::new(ip, u16::try_from(grpc.port).ok()?);
            let service = grpc.service.clone().unwrap_or_default();
            return Some(Question::Grpc(target, service));
        }
        exec.map(|(command, pids)| Question::Exec(command, pids))
    }

    /// The command of an exec probe.
    pub(super) fn exec(&self) -> Option<&[String]> {
        self.probe.exec.as_ref()?.command.as_deref()
    }

    /// How long a container has to end whose probe failed, if the probe says so.
    pub(super) fn grace(&self) -> Option<Duration> {
        let grace = self.probe.termination_grace_period_seconds?;
        Some(Duration::from_secs(grace.try_into().ok()?))
    }

    pub(super) fn timeout(&self) -> Duration {
        seconds(self.probe.timeout_seconds, 1)
    }

    /// Counts a result. As in kubelet, the state changes after `failureThreshold` failures or `successThreshold`
    /// successes.
    pub(super) fn answered(&mut self, success: bool, now: Instant) -> Verdict {
        let period = seconds(self.probe.period_seconds, 10);
        let early = self.early.take().filter(|it| !success && *it < period);
        self.due = Some(now + early.unwrap_or(period));
        if let Some(interval) = early {
            self.early = Some(interval * 2);
            return Verdict::Early;
        }
        let threshold = if success {
            self.successes += 1;
            self.failures = 0;
            (self.successes, self.probe.success_threshold.unwrap_or(1))
        } else {
            self.failures += 1;
            self.successes = 0;
            (self.failures, self.probe.failure_threshold.unwrap_or(3))
        };
        if threshold.0 < threshold.1.max(1) {
            return Verdict::Unchanged;
        }
        if !success && self.kind != Kind::Readiness {
            return Verdict::Fatal;
        }
        let changed = self.passed != success;
        self.passed = success;
        if success && self.kind == Kind::Startup {
            // The container has started; the other probes begin.
            self.due = None;
        }
        if changed {
            Verdict::Changed
        } else {
            Verdict::Unchanged
        }
    }
}

impl Question {
    /// A request to a container of a pod with this address; `None` when no port has the name.
    pub(super) fn http(http: &HTTPGetAction, container: &Container, ip: IpAddr) -> Option<Self> {
        let target = address(&http.host, &http.port, container, ip)?;
        Some(Self::Http(Get::of(http, target)))
    }

    /// Runs the probe from `node`, as kubelet does. The error is the reason of the failure.
    pub(super) fn ask(self, node: &Netns, timeout: Duration) -> Result<(), String> {
        match self {
            Self::Http(get) => node.run(|| get.ask(timeout)),
            Self::Grpc(target, service) => node.run(|| grpc::check(target, &service, timeout)),
            Self::Tcp(target) => {
                let dialled = node.run(|| TcpStream::connect_timeout(&target, timeout));
                dialled
                    .map(drop)
                    .map_err(|it| format!("dial tcp {target}: {it}"))
            }
            Self::Exec(command, pids) => exec(command, &pids, timeout),
        }
    }
}

/// Runs the command of a probe. The error is what it said.
fn exec(command: Command, pids: &Pids, timeout: Duration) -> Result<(), String> {
    let (mut child, said) = spawn(command, pids).map_err(|it| it.to_string())?;
    let ended = sluice_lab::eventually(timeout, || child.try_wait().ok().flatten());
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let pieces = std::iter::from_fn(|| said.recv_timeout(MOMENT).ok());
            let bytes: Vec<u8> = pieces.flatten().collect();
            Err(match String::from_utf8_lossy(&bytes).trim_end() {
                "" => format!("command ended with {status}"),
                text => text.to_owned(),
            })
        }
        None => {
            kill(&mut child).ok();
            Err(format!("command timed out after {timeout:?}"))
        }
    }
}

/// Starts a command. Its output, of which the first bytes count, comes in pieces until all its processes have closed it.
fn spawn(mut command: Command, pids: &Pids) -> io::Result<(Child, Receiver<Vec<u8>>)> {
    let (mut output, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?);
    command.stderr(writer).process_group(0);
    let child = pids.spawn(|| command.spawn())?;
    // The command holds the write ends of the pipe: without them the reader sees its end.
    drop(command);
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        let mut room = MOST_SAID;
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut piece) {
            let taken = length.min(room);
            room -= taken;
            if taken > 0 {
                // The probe may be over: what is left in the background writes on.
                let _ = sender.send(piece[..taken].to_vec());
            }
        }
    });
    Ok((child, said))
}

fn kill(child: &mut Child) -> io::Result<()> {
    // Kill the whole process group.
    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
    child.wait().map(drop)
}

/// Where a container is asked whose pod has the address `ip`, unless the question names another one.
fn address(
    host: &Option<String>,
    port: &IntOrString,
    container: &Container,
    ip: IpAddr,
) -> Option<SocketAddr> {
    let ip = host.as_ref().and_then(|it| it.parse().ok()).unwrap_or(ip);
    Some(SocketAddr::new(ip, number(container, port)?))
}

/// The number of a port, given by number or by name.
fn number(container: &Container, port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|it| it.name.as_ref() == Some(name));
            match named {
                Some(it) => u16::try_from(it.container_port).ok(),
                None => name.parse().ok(),
            }
        }
    }
}

fn seconds(value: Option<i32>, default: u64) -> Duration {
    let value = value.and_then(|it| u64::try_from(it).ok());
    Duration::from_secs(value.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prober(kind: Kind, probe: Probe) -> Prober {
        Prober {
            kind,
            probe,
            due: None,
            early: None,
            successes: 0,
            failures: 0,
            passed: kind == Kind::Liveness,
        }
    }

    #[test]
    fn a_server_is_ready_soon_after_it_listens() {
        let container = Container {
            startup_probe: Some(Probe::default()),
            readiness_probe: Some(Probe {
                initial_delay_seconds: Some(3),
                ..Probe::default()
            }),
            ..Container::default()
        };
        let start = Instant::now();
        let probers = Prober::of(&container, start);
        for (mut prober, delay) in probers.into_iter().zip([0, 3]) {
            let first = start + Duration::from_secs(delay);
            for took in [0, 30, 500, 4000].map(Duration::from_millis) {
                let mut prober = Prober::of(&container, start).remove(usize::from(delay > 0));
                while let Some(now) = prober.due().filter(|_| !prober.passed) {
                    let verdict = prober.answered(now >= first + took, now);
                    let expected = [Verdict::Early, Verdict::Changed][usize::from(prober.passed)];
                    assert_eq!(verdict, expected);
                    assert!(now <= first + took * 2 + FIRST_INTERVAL, "{took:?}");
                }
            }
            // One that never listens: failures count after a period, at the pace of the period.
            let count = |prober: &mut Prober| {
                let now = prober.due().expect("it goes on");
                (prober.answered(false, now), now)
            };
            let mut last = (Verdict::Early, start);
            while last.0 == Verdict::Early {
                last = count(&mut prober);
            }
            assert!(last.1 > first + Duration::from_secs(9), "{:?}", last.1);
            let next = count(&mut prober).1;
            assert_eq!(next, last.1 + Duration::from_secs(10));
        }
    }

    #[test]
    fn liveness_leaves_a_container_a_period_to_begin() {
        let start = Instant::now();
        for (delay, period, first) in [(None, None, 10), (None, Some(2), 2), (Some(5), Some(2), 5)]
        {
            let container = Container {
                liveness_probe: Some(Probe {
                    initial_delay_seconds: delay,
                    period_seconds: period,
                    ..Probe::default()
                }),
                ..Container::default()
            };
            let due = Prober::of(&container, start)[0].due();
            assert_eq!(due, Some(start + Duration::from_secs(first)));
        }
    }

    #[test]
    fn thresholds_decide() {
        let now = Instant::now();
        let probe = Probe {
            success_threshold: Some(2),
            failure_threshold: Some(2),
            ..Probe::default()
        };
        let mut readiness = prober(Kind::Readiness, probe.clone());
        let verdicts = [true, true, false, true, false, false].map(|it| {
            let verdict = readiness.answered(it, now);
            (verdict, readiness.passed)
        });
        use Verdict::{Changed, Unchanged};
        assert_eq!(
            verdicts,
            [
                (Unchanged, false),
                (Changed, true),
                (Unchanged, true),
                (Unchanged, true),
                (Unchanged, true),
                (Changed, false)
            ]
        );
        let mut liveness = prober(Kind::Liveness, probe);
        assert_eq!(liveness.answered(false, now), Unchanged);
        assert_eq!(liveness.answered(false, now), Verdict::Fatal);
        assert_eq!(liveness.due(), Some(now + Duration::from_secs(10)));
    }

    #[test]
    fn a_command_that_fails_is_told_by_what_it_said() {
        for (script, expected) in [
            ("echo fine", Ok(())),
            ("echo out; echo err >&2; exit 1", Err("out\nerr".to_owned())),
            (
                "exit 3",
                Err("command ended with exit status: 3".to_owned()),
            ),
            // More than a pipe takes; the first bytes count.
            (
                "head -c 200000 /dev/zero | tr '\\0' x; exit 1",
                Err("x".repeat(MOST_SAID)),
            ),
            // What is left in the background has the output open.
            ("sleep 1 & echo out; exit 1", Err("out".to_owned())),
        ] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            assert_eq!(
                exec(command, &Pids::Same, Duration::from_secs(20)),
                expected,
                "{script}"
            );
        }
    }

    #[test]
    fn ports_have_names() {
        let container = Container {
            ports: Some(vec![k8s_openapi::api::core::v1::ContainerPort {
                name: Some("http".to_owned()),
                container_port: 8080,
                ..Default::default()
            }]),
            ..Container::default()
        };
        let named = |it: &str| number(&container, &IntOrString::String(it.to_owned()));
        assert_eq!(named("http"), Some(8080));
        assert_eq!(named("9090"), Some(9090));
        assert_eq!(named("other"), None);
        assert_eq!(number(&container, &IntOrString::Int(70000)), None);
    }
}
