//! `sluice status`: asks the running agent.

mod table;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use sluice_agent::status::Status;

use crate::cli::{Output, StatusArgs};
use crate::render::print;

/// An agent in the middle of a large sync answers after it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two looks with `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(1);
/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the status once, or until interrupted.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if !args.watch {
        print(&show(&ask(&args.socket)?, args.output)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let status = ask(&args.socket)?;
        match args.output {
            Output::Text => print(&format!("{CLEAR}{}", table::of(&status)))?,
            Output::Json => print(&format!("{}\n", serde_json::to_string(&status)?))?,
        }
        thread::sleep(WATCH_PERIOD);
    }
}

fn show(status: &Status, output: Output) -> anyhow::Result<String> {
    Ok(match output {
        Output::Text => table::of(status),
        Output::Json => serde_json::to_string_pretty(status)? + "\n",
    })
}

/// What the agent behind this socket says of itself.
///
/// # Errors
///
/// Nobody listens there, or the answer makes no sense.
pub(crate) fn ask(socket: &Path) -> anyhow::Result<Status> {
    let name = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no agent at {name}: is `sluice proxy` running?")
        }
        _ => anyhow::Error::new(error).context(format!("connect to the agent at {name}")),
    })?;
    let answer = exchange(&mut stream).with_context(|| format!("ask the agent at {name}"))?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("ask the agent at {name}: no answer");
    };
    if head.split(' ').nth(1) != Some("200") {
        bail!("ask the agent at {name}: {}", body.trim());
    }
    serde_json::from_str(body).with_context(|| format!("understand the agent at {name}"))
}

/// HTTP/1.0: the server closes the connection after one answer in one piece.
fn exchange(stream: &mut UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"GET /status HTTP/1.0\r\nHost: sluice\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
