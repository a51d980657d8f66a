//! `sluice lab pcap`: the packets of machines, hop by hop.
//!
//! ```text
//! sluice lab pcap ─▶ sluice lab capture, in the lab: taps ─▶ lines, or a file of packets, on stdout
//! ```

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use sluice_cluster::capture::pcapng::Writer;
use sluice_cluster::capture::{Filter, Packet, Summary, Tap};
use sluice_cluster::client::Client;
use sluice_cluster::enter::{self, Inside};
use sluice_cluster::lab_dir::LabDir;
use sluice_cluster::probe::{Answers, Request};
use sluice_lab::{Interrupt, Netns};

use super::machines::{Machine, code, command, find, target};
use crate::args::{PcapArgs, PcapFormat, Task, WantedArgs};
use crate::output::tell;

/// Milliseconds without a packet after which a connection whose request was answered counts as complete.
const QUIET: u8 = 100;

/// Timeout of the request of `--probe`.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Starts the capture in the lab, and waits for its end.
pub(super) fn run(args: &PcapArgs) -> anyhow::Result<ExitCode> {
    let lab_dir = LabDir::of(&args.at.lab.name)?;
    let client = Client::open(&lab_dir)?;
    let find = |name: &String| find(&client, name, &args.at.namespace);
    let machines = args.machines.iter().map(|name| {
        let netns = find(name)?.netns(&lab_dir);
        anyhow::Ok((name.clone(), netns))
    });
    let machines = machines.collect::<anyhow::Result<_>>()?;
    let request = match args.probe.as_slice() {
        [from, to] => {
            let from = find(from)?;
            let (target, udp) = target(&client, &from, to, &args.at.namespace)?;
            let request = Request {
                target,
                udp,
                count: 1,
                timeout: TIMEOUT,
                pause: Duration::ZERO,
                source_port: None,
            };
            Some((from.netns(&lab_dir), request))
        }
        _ => None,
    };
    // Its threads may not come along into the lab.
    drop(client);
    let file = args.write.as_deref().filter(|it| *it != Path::new("-"));
    let terminal = file.is_none() && io::stdout().is_terminal();
    let usual = match (terminal, &args.write) {
        (true, None) => PcapFormat::Text,
        _ => PcapFormat::Pcap,
    };
    let format = args.wanted.output.unwrap_or(usual);
    if terminal && format == PcapFormat::Pcap {
        bail!("a file of packets is nothing for a terminal: --write FILE, or pipe it to a program");
    }
    let wanted = WantedArgs {
        output: Some(format),
        ..args.wanted.clone()
    };
    let task = serde_json::to_string(&Task {
        machines,
        request,
        wanted,
    })?;
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let words = [program, "lab".to_owned(), "capture".to_owned(), task];
    let mut command = command(&lab_dir, &Machine::Client, &words)?;
    if let Some(path) = file {
        // A path of this machine: the lab has a /run of its own.
        let file = File::create(path).with_context(|| path.display().to_string())?;
        command.stdout(file);
    }
    Ok(code(enter::run(
        &lab_dir,
        &Inside::default(),
        &mut command,
    )?))
}

/// Captures until Ctrl-C, the answer or the last wanted packet; `sluice lab capture`.
pub(super) fn capture(args: &Task) -> anyhow::Result<ExitCode> {
    // `sluice lab pcap` may be killed: this process must end with it.
    set_pdeathsig(Signal::SIGTERM).context("follow the process outside")?;
    let interrupt = Interrupt::new()?;
    let taps = args
        .machines
        .iter()
        .map(|(name, netns)| Tap::open(name, netns));
    let mut taps: Vec<Tap> = taps.collect::<anyhow::Result<_>>()?;
    let mut capture = Capture {
        filter: Filter {
            hosts: args.wanted.host.clone(),
            ports: args.wanted.port.clone(),
            protocol: args.wanted.protocol.clone(),
        },
        sink: Sink::new(args)?,
        most: args.wanted.count.unwrap_or(u64::MAX),
        count: 0,
    };
    let request = args.request.as_ref();
    let request = request.map(|(from, it)| ask(from, it)).transpose()?;
    let failed = match capture.run(&mut taps, &interrupt, request) {
        // The reader of stdout has closed it: it has read enough.
        Err(error) if is_closed(&error) => false,
        other => other?,
    };
    let many = if capture.count == 1 { "" } else { "s" };
    tell!("{} packet{many}", capture.count);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

/// Sends one request from a namespace.
fn ask(from: &str, request: &Request) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("find the path of this program")?;
    let words = request.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = Netns::open(from)?.command(&program.to_string_lossy(), &words);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    child.context("send a request")
}

struct Capture {
    filter: Filter,
    sink: Sink,
    most: u64,
    count: u64,
}

impl Capture {
    /// Captures until the end. Returns whether the request, if there is one, got no answer.
    fn run(
        &mut self,
        taps: &mut [Tap],
        interrupt: &Interrupt,
        mut request: Option<Child>,
    ) -> anyhow::Result<bool> {
        // Packets of a request are shown at its end: until then an earlier one of another machine may come.
        let mut held = Vec::new();
        while self.count < self.most && interrupt.wait(Duration::ZERO).is_ok() {
            let mut fds: Vec<PollFd<'_>> = taps
                .iter()
                .map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN))
                .collect();
            let quiet = poll(&mut fds, PollTimeout::from(QUIET)).context("wait for packets")? == 0;
            for tap in &mut *taps {
                while let Some(packet) = tap.read().context("read a packet")? {
                    let summary = Summary::of(&packet.bytes);
                    if self.filter.wants(&summary) {
                        held.push((packet, summary));
                    }
                }
            }
            let Some(child) = &mut request else {
                self.show(&mut held)?;
                continue;
            };
            if quiet && child.try_wait().context("wait for the request")?.is_some() {
                break;
            }
        }
        self.show(&mut held)?;
        let Some(child) = request else {
            return Ok(false);
        };
        let output = child.wait_with_output().context("wait for the request")?;
        let answers: Answers =
            serde_json::from_slice(&output.stdout).context("the request could not be sent")?;
        self.sink.answer(&answers)?;
        Ok(answers.failures() > 0)
    }

    fn show(&mut self, held: &mut Vec<(Packet, Summary)>) -> io::Result<()> {
        held.sort_by_key(|(packet, _)| packet.at);
        for (packet, summary) in held.drain(..) {
            if self.count == self.most {
                break;
            }
            self.count += 1;
            self.sink.packet(&packet, &summary)?;
        }
        self.sink.flush()
    }
}

/// The output of packets.
enum Sink {
    Text {
        out: BufWriter<Stdout>,
        /// The time of the first packet.
        began: Option<Duration>,
        /// The longest name of a machine.
        width: usize,
    },
    Pcap(Writer<BufWriter<Stdout>>),
}

impl Sink {
    fn new(args: &Task) -> io::Result<Self> {
        let out = BufWriter::new(io::stdout());
        let widths = args.machines.iter().map(|(name, _)| name.chars().count());
        Ok(match args.wanted.output {
            Some(PcapFormat::Pcap) => Self::Pcap(Writer::new(out)?),
            _ => Self::Text {
                out,
                began: None,
                width: widths.max().unwrap_or(0),
            },
        })
    }

    fn packet(&mut self, packet: &Packet, summary: &Summary) -> io::Result<()> {
        match self {
            Self::Pcap(writer) => writer.write(packet),
            Self::Text { out, began, width } => {
                let began = *began.get_or_insert(packet.at);
                let ms = packet.at.saturating_sub(began).as_secs_f64() * 1e3;
                let way = if packet.outgoing { "out" } else { "in" };
                let (machine, interface) = (&packet.machine, &packet.interface);
                // The longest name of an interface has 15 letters.
                writeln!(
                    out,
                    "{ms:>9.3} ms  {machine:<width$}  {interface:<15}  {way:<3}  {summary}"
                )
            }
        }
    }

    /// Writes the result of the request for a person.
    fn answer(&mut self, answers: &Answers) -> io::Result<()> {
        let Self::Text { out, .. } = self else {
            return Ok(());
        };
        let seen = answers.seen_from.keys().next();
        match (answers.answered.keys().next(), seen) {
            (Some(name), Some(seen)) => writeln!(out, "{name} answered, and saw {seen}")?,
            _ => {
                let why = answers.failed.keys().next();
                writeln!(out, "no answer: {}", why.map_or("", String::as_str))?;
            }
        }
        out.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text { out, .. } => out.flush(),
            Self::Pcap(writer) => writer.flush(),
        }
    }
}
