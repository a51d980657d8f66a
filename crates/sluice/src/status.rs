//! `sluice status`: asks the running agent.

mod connections;
mod table;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_node::ServiceConnections;
use sluice_node::status::Status;

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
        print(&look(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let clear = match args.output {
            Output::Text => CLEAR,
            Output::Json => "",
        };
        print(&format!("{clear}{}", look(args)?))?;
        thread::sleep(WATCH_PERIOD);
    }
}

/// What was asked for, as it is now.
fn look(args: &StatusArgs) -> anyhow::Result<String> {
    match args.connections {
        true => {
            let all: Vec<ServiceConnections> = get(&args.socket, "/connections")?;
            show(args, &*all, connections::of)
        }
        false => show(args, &ask(&args.socket)?, table::of),
    }
}

/// For scripts one line with `--watch`, else one that people can read, too.
fn show<T: Serialize + ?Sized>(
    args: &StatusArgs,
    answer: &T,
    table: fn(&T) -> String,
) -> anyhow::Result<String> {
    Ok(match (args.output, args.watch) {
        (Output::Text, _) => table(answer),
        (Output::Json, true) => serde_json::to_string(answer)? + "\n",
        (Output::Json, false) => serde_json::to_string_pretty(answer)? + "\n",
    })
}

/// What the agent behind this socket says of itself.
///
/// # Errors
///
/// Nobody listens there, or the answer makes no sense.
pub(crate) fn ask(socket: &Path) -> anyhow::Result<Status> {
    get(socket, "/status")
}

fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> anyhow::Result<T> {
    let name = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no agent at {name}: is `sluice proxy` running?")
        }
        _ => anyhow::Error::new(error).context(format!("connect to the agent at {name}")),
    })?;
    let answer = exchange(&mut stream, path).with_context(|| format!("ask the agent at {name}"))?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("ask the agent at {name}: no answer");
    };
    if head.split(' ').nth(1) != Some("200") {
        bail!("ask the agent at {name}: {}", body.trim());
    }
    serde_json::from_str(body).with_context(|| format!("understand the agent at {name}"))
}

/// HTTP/1.0: the server closes the connection after one answer in one piece.
fn exchange(stream: &mut UnixStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: sluice\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
