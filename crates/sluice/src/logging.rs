//! The log: one line per event on stderr.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use sluice_config::LogFormat;
use sluice_yaml::{escaped, shown_json};
use tracing::Level;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Changes the verbosity of the running process.
pub(crate) fn set_verbosity(verbosity: u32) {
    if let Some(handle) = FILTER.get() {
        // Fails only after the log has ended.
        let _ = handle.reload(filter(verbosity));
    }
}

fn filter(verbosity: u32) -> Targets {
    let level = match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        6.. => Level::TRACE,
    };
    // Libraries log warnings only.
    Targets::new()
        .with_default(Level::WARN)
        .with_target("sluice", level)
}

/// Starts the log. `verbosity` is kube-proxy's `-v`.
pub(crate) fn start(verbosity: u32, format: LogFormat) {
    start_with(filter(verbosity), format);
}

/// Starts a log of warnings and errors.
pub(crate) fn start_quiet() {
    start_with(Targets::new().with_default(Level::WARN), LogFormat::Text);
}

/// Writes lines of the log to stderr without a character that cannot be seen: names in them may be anybody's.
struct Shown {
    format: LogFormat,
    /// ESC is part of the colours. The subscriber has escaped every other one.
    colour: bool,
}

impl Write for Shown {
    /// Gets one whole event.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = match self.format {
            LogFormat::Json => shown_json(line).into_owned(),
            LogFormat::Text if self.colour => {
                let pieces: Vec<String> = line.split('\x1b').map(escaped).collect();
                pieces.join("\x1b")
            }
            LogFormat::Text => escaped(line),
        };
        writeln!(io::stderr().lock(), "{line}")?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn start_with(filter: Targets, format: LogFormat) {
    let (filter, handle) = reload::Layer::new(filter);
    // Called once per process.
    let _ = FILTER.set(handle);
    let plain = env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let colour = io::stderr().is_terminal() && !plain;
    // A closed stderr must not end the agent.
    let lines = fmt::layer()
        .with_writer(move || Shown { format, colour })
        .log_internal_errors(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(colour).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_target(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
}
