//! `sluice top`: the Services of the running agent on the terminal, as they change.
//!
//! ```text
//! agent's socket ─▶ Sample ─▶ Top: rates, order, what is looked at ─▶ draw ─▶ terminal
//!                              ▲ keys
//! ```

mod draw;
mod state;

use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use sluice_node::client;
use sluice_plan::inventory::ServiceDetail;

use crate::cli::TopArgs;
use state::{Next, Sample, Top};

/// An answer that takes long is asked for less often: the agent has other work.
const SHARE_OF_THE_AGENT: u32 = 10;

/// Shows the Services until somebody quits.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        bail!("top needs a terminal: `sluice status --services --watch` needs none");
    }
    // Without an agent there is nothing to see: say so before the screen is cleared.
    let first = ask(args)?;
    let plain = env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let mut top = Top::new(plain);
    top.take(first);
    let mut terminal = ratatui::try_init().context("set up the terminal")?;
    let result = show(&mut terminal, &mut top, args);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

fn show(terminal: &mut DefaultTerminal, top: &mut Top, args: &TopArgs) -> anyhow::Result<()> {
    let mut due = Instant::now() + args.interval;
    loop {
        terminal.draw(|frame| draw::draw(frame, top))?;
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match top.key(key) {
                    Next::Quit => return Ok(()),
                    Next::Ask => due = Instant::now(),
                    Next::Show => {}
                },
                _ => {}
            }
        }
        if due <= Instant::now() {
            let started = Instant::now();
            match ask(args).and_then(|it| Ok((it, detail(args, top)?))) {
                Ok((sample, detail)) => {
                    top.take(sample);
                    top.take_detail(detail);
                }
                Err(error) => top.fail(&error),
            }
            let took = started.elapsed();
            due = Instant::now() + args.interval.max(took * SHARE_OF_THE_AGENT);
        }
    }
}

fn ask(args: &TopArgs) -> anyhow::Result<Sample> {
    let socket = &args.socket;
    Ok(Sample {
        status: client::get(socket, "/status")?,
        services: client::ask(socket, "/services", &[])?,
        // Not every data plane counts them.
        connections: client::get(socket, "/connections").ok(),
        at: Instant::now(),
    })
}

/// The Service that is looked at; `None` when none is, or it is gone.
fn detail(args: &TopArgs, top: &Top) -> anyhow::Result<Option<ServiceDetail>> {
    let Some(name) = top.opened() else {
        return Ok(None);
    };
    Ok(client::ask(&args.socket, "/service", &[("name", name)]).ok())
}
