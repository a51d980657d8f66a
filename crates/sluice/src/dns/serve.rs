//! Runs the DNS server until a signal ends it.

use std::fs;
use std::io;
use std::process::{self, ExitCode};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, RwLock};
use std::thread;

use anyhow::{Context, bail};
use nix::sys::signal::{SigSet, Signal};
use sluice_config::LogFormat;
use sluice_corefile::{Corefile, ORDER};
use sluice_dns::{Options, Server};
use sluice_node::chain;
use sluice_node::metrics::Process;
use sluice_source::{Watch, watch_file};
use sluice_zone::Objects;
use tracing::{error, info, warn};

use super::{Served, corefile, reported, source};
use crate::cli::ServeArgs;
use crate::error::end_on_panic;
use crate::error::say;
use crate::logging;
use crate::output::print;

/// A message to the main thread.
enum Input {
    /// SIGUSR1: read the Corefile again.
    Reload,
    /// The Corefile is another one, or cannot be read.
    Changed(io::Result<Vec<u8>>),
    /// SIGTERM or SIGINT.
    Stop(Signal),
    /// The server must not go on: why.
    Fatal(String),
}

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if args.plugins {
        print(ORDER.iter().map(|it| format!("{it}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let corefile = corefile::read("--conf", &args.conf, args.dns_port)?;
    if args.check {
        corefile.notes.iter().for_each(|it| say(&it.to_string()));
        print(format!("{}: valid\n", args.conf.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let demand = source::Demand::of(&corefile, args)?;
    if args.quiet {
        logging::start_quiet()
    } else {
        logging::start(0, LogFormat::Text)
    }
    end_on_panic();
    corefile.notes.iter().for_each(|it| warn!("{it}"));
    let (sender, inputs) = mpsc::channel();
    // Before the first thread: all of them have the mask of the one that starts them.
    forward_signals(sender.clone()).context("watch signals")?;
    let objects = Arc::new(RwLock::new(Objects::new(demand.namespace_rule())));
    let fatal = sender.clone();
    let options = Options {
        threads: thread::available_parallelism().map_or(1, usize::from),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        search_paths: demand.search_paths(&objects),
        fatal: Arc::new(move |why| {
            // The receiver is gone only when the process ends anyway.
            let _ = fatal.send(Input::Fatal(why));
        }),
        ..Options::default()
    };
    let running = Server::start(&corefile, objects.clone(), options)?;
    if let Some(path) = &args.pidfile {
        let text = format!("{}\n", process::id());
        fs::write(path, text).with_context(|| format!("--pidfile: {}", path.display()))?;
    }
    // In an agent they are the agent's.
    let process = Box::new(Process::of_self());
    running.registry().register(process)?;
    let told = source::Told {
        objects,
        metrics: running.cluster_metrics(),
        problems: reported::metric(running.registry())?,
    };
    let source = demand.start(&told, None)?;
    let is_watched = corefile.blocks.iter().any(|it| it.plugins.reload.is_some());
    let watch = is_watched
        .then(|| watch(args, sender.clone()))
        .transpose()?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        corefile = %args.conf.display(),
        addresses = ?running.addresses(),
        source = %demand,
        "started"
    );
    Serving {
        args,
        served: Served::new(running, corefile),
        told,
        demand,
        source,
        watch,
    }
    .run(&inputs, &sender)
}

/// The server, and what it serves.
struct Serving<'a> {
    args: &'a ServeArgs,
    served: Served,
    told: source::Told,
    demand: source::Demand,
    source: source::Following,
    /// The watch of the Corefile, if it has the plugin `reload`.
    watch: Option<Watch>,
}

impl Serving<'_> {
    fn run(mut self, inputs: &Receiver<Input>, sender: &Sender<Input>) -> anyhow::Result<ExitCode> {
        for input in inputs {
            match input {
                Input::Reload => {
                    // A new watch reads the file after this, and tells what it finds whatever the one before it told.
                    if self.watch.is_some() {
                        self.watch = Some(watch(self.args, sender.clone())?);
                    }
                    self.reload(corefile::read_file(&self.args.conf));
                }
                Input::Changed(content) => self.reload(content),
                Input::Stop(signal) => {
                    info!(signal = signal.as_str(), "asked to stop");
                    self.served.running.stop();
                    return Ok(ExitCode::SUCCESS);
                }
                Input::Fatal(why) => bail!(why),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A Corefile that cannot be served changes nothing.
    fn reload(&mut self, content: io::Result<Vec<u8>>) {
        if let Err(error) = self.apply(content) {
            let (path, why) = (self.args.conf.display(), chain(error.as_ref()));
            error!(corefile = %path, why, "not served: the last good one stays in force");
        }
    }

    /// Goes over to this content of the Corefile, and to its objects where they are others.
    fn apply(&mut self, content: io::Result<Vec<u8>>) -> anyhow::Result<()> {
        let path = &self.args.conf;
        let before = self.served.corefile().clone();
        self.served.reload(path, self.check(content))?;
        let demand = source::Demand::of(self.served.corefile(), self.args)?;
        if demand == self.demand {
            return Ok(());
        }
        match demand.start(&self.told, Some(self.source.clone())) {
            Ok(source) => {
                info!(source = %demand, "other objects are listed");
                (self.source, self.demand) = (source, demand);
                Ok(())
            }
            Err(error) => {
                self.served.running.count_failed_reload();
                self.served.reload(path, Ok(before))?;
                Err(error)
            }
        }
    }

    fn check(&self, content: io::Result<Vec<u8>>) -> anyhow::Result<Corefile> {
        let new = corefile::check("--conf", &self.args.conf, content, self.args.dns_port)?;
        if !source::Demand::of(&new, self.args)?.completes_as(&self.demand) {
            bail!("autopath @kubernetes comes, goes or has another zone: that needs a new process");
        }
        Ok(new)
    }
}

/// Watches the Corefile. The interval of the plugin `reload` has no use: a change is seen when it is made.
fn watch(args: &ServeArgs, inputs: Sender<Input>) -> anyhow::Result<Watch> {
    let changed = move |content| {
        // The receiver is gone only when the process ends anyway.
        let _ = inputs.send(Input::Changed(content));
    };
    watch_file(&args.conf, changed).context("watch the Corefile")
}

/// Sends signals as inputs, from a thread of their own. The other threads of the process do not get them.
fn forward_signals(inputs: Sender<Input>) -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    for it in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1] {
        signals.add(it);
    }
    signals.thread_block()?;
    let run = move || {
        let mut is_stopping = false;
        loop {
            let input = match signals.wait() {
                Ok(Signal::SIGUSR1) => Input::Reload,
                // The second one does not wait for lameduck.
                #[expect(clippy::disallowed_methods, reason = "the main thread waits")]
                Ok(_) if is_stopping => process::exit(1),
                Ok(signal) => {
                    is_stopping = true;
                    Input::Stop(signal)
                }
                Err(error) => {
                    warn!(%error, "cannot wait for signals");
                    return;
                }
            };
            if inputs.send(input).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(run)?;
    Ok(())
}
