//! Programs that clients of the API run in pods: exec, attach, and the ports of port-forward.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::pin::Pin;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures::StreamExt as _;
use nix::sys::signal::{Signal, killpg};
use serde_json::Value;
use sluice_api::NotRunning;
use sluice_streams::{Dial, End, Program, Start, Wanted};
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe::Sender;
use tokio::sync::oneshot;

use crate::console::Console;
use crate::enter::{Inside, Pids, wait_for_mounts};
use crate::images;
use crate::logs;
use crate::machines::Machines;
use crate::polled;
use crate::process::Identity;
use crate::record::Record;
use crate::terminal::{self, Terminal};

/// Interval at which a session checks that its container still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Timeout of a connection to a port.
const PATIENCE: Duration = Duration::from_secs(5);

/// The programs of all pods.
pub(crate) struct Programs(pub(crate) Arc<Machines>);

impl sluice_api::Programs for Programs {
    fn exec(
        &self,
        pod: &Value,
        container: &str,
        command: Vec<String>,
        wanted: Wanted,
    ) -> Result<Start, NotRunning> {
        let (inside, variables) = Inside::of_container(self.0.lab_dir(), pod, container);
        let process = inside.process.clone().filter(Identity::is_running);
        let process = process.ok_or_else(|| not_found(container))?;
        let machines = self.0.clone();
        Ok(Box::new(move || {
            let program = command.first().map(String::as_str).unwrap_or_default();
            let path = inside.path.as_deref().unwrap_or_default();
            images::check(program, path, &inside.mounts)?;
            let started = exec(&machines, inside, &variables, &command, wanted, process);
            started.map_err(|it| it.to_string())
        }))
    }

    fn attach(&self, pod: &Value, container: &str, wanted: Wanted) -> Result<Start, NotRunning> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let console = self.0.consoles().get(uid, container);
        let process = Record::process(self.0.lab_dir(), uid, container);
        // The first client sees all of a container, even of one that was quick.
        let is_new = console.as_ref().is_some_and(|it| it.is_new());
        if !is_new && !process.is_some_and(|it| it.is_running()) {
            return Err(not_found(container));
        }
        let (machines, container) = (self.0.clone(), container.to_owned());
        let uid = uid.to_owned();
        Ok(Box::new(move || {
            let attached = attach(&machines, &uid, &container, console, wanted);
            attached.map_err(|it| it.to_string())
        }))
    }

    fn ports(&self, pod: &Value) -> Result<Dial, NotRunning> {
        let container = pod["spec"]["containers"][0]["name"].as_str();
        let container = container.unwrap_or_default();
        let (inside, _) = Inside::of_container(self.0.lab_dir(), pod, container);
        let name = inside.netns;
        let netns = sluice_lab::Netns::open(&name);
        let netns = netns.map_err(|_| not_found(container))?;
        Ok(Arc::new(move |port| {
            netns.run(|| dial(port)).map_err(|[v4, v6]| {
                format!(
                    "failed to connect to localhost:{port} inside namespace {name:?}, IPv4: {v4}, IPv6: {v6}"
                )
            })
        }))
    }
}

fn not_found(container: &str) -> NotRunning {
    NotRunning(format!("container not found ({container:?})"))
}

/// Connects to a port of the loopback interface, as container runtimes do: IPv4 first.
fn dial(port: u16) -> Result<TcpStream, [io::Error; 2]> {
    let connect = |ip| TcpStream::connect_timeout(&SocketAddr::new(ip, port), PATIENCE);
    connect(Ipv4Addr::LOCALHOST.into())
        .or_else(|v4| connect(Ipv6Addr::LOCALHOST.into()).map_err(|v6| [v4, v6]))
}

/// Runs a command in a container, until the container's process ends or the client goes.
fn exec(
    machines: &Machines,
    inside: Inside,
    variables: &[(String, String)],
    words: &[String],
    wanted: Wanted,
    container: Identity,
) -> io::Result<Program> {
    let open = || match &inside.confined {
        Some(_) => {
            // Until then its root is the lab's, which has terminals of its own.
            wait_for_mounts(&container).map_err(io::Error::other)?;
            Terminal::open_below(&container.root())
        }
        None => Terminal::open(),
    };
    let terminal = wanted.tty.then(open).transpose()?;
    let inside = Inside {
        terminal: terminal.as_ref().map(|it| it.path.clone()),
        ends_with_parent: true,
        ..inside
    };
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = machines.command(&inside, program.as_ref());
    command.args(arguments);
    inside.set_environment(&mut command, variables, wanted.tty);
    let Running {
        identity,
        streams,
        ended,
    } = spawn(command, Pids::of(&inside), terminal, wanted)?;
    let of_session = OfSession(identity);
    let end = async move {
        let mut ended = ended;
        loop {
            tokio::select! {
                status = &mut ended => return status.map_or(End::Exit(137), end_of),
                () = tokio::time::sleep(LOOK) => {}
            }
            if !container.is_running() {
                of_session.kill();
            }
        }
    };
    let input = |it: OwnedFd| Ok::<_, io::Error>(Box::new(polled::input(it)?) as Box<_>);
    Ok(match streams {
        Ends::Terminal(ours) => {
            let size = ours.try_clone()?;
            let stdin = wanted.stdin.then(|| ours.try_clone()).transpose()?;
            Program {
                stdin: stdin.map(input).transpose()?,
                stdout: Some(polled::output(ours)?),
                stderr: None,
                resize: Some(Box::new(move |it| terminal::resize(&size, it))),
                end: Box::pin(end),
            }
        }
        Ends::Pipes(pipes) => {
            let [stdin, stdout, stderr] = pipes;
            Program {
                stdin: stdin.map(input).transpose()?,
                stdout: stdout.map(polled::output).transpose()?,
                stderr: stderr.map(polled::output).transpose()?,
                resize: None,
                end: Box::pin(end),
            }
        }
    })
}

/// Our ends of a program's streams.
enum Ends {
    Terminal(OwnedFd),
    /// Input, output and errors.
    Pipes([Option<OwnedFd>; 3]),
}

struct Running {
    identity: Identity,
    streams: Ends,
    ended: oneshot::Receiver<ExitStatus>,
}

/// Starts a program on a thread that lives as long as it, and which it does not outlive.
fn spawn(
    command: Command,
    pids: Pids,
    terminal: Option<Terminal>,
    wanted: Wanted,
) -> io::Result<Running> {
    let (tell_start, started) = std::sync::mpsc::sync_channel(1);
    let (tell_end, ended) = oneshot::channel();
    thread::spawn(move || {
        let spawned = pids
            .enter()
            .and_then(|()| spawn_with(command, terminal, wanted));
        let mut child = match spawned {
            Ok((child, streams)) => {
                // Before it is waited for: a quick program has a pid until then.
                let _ = tell_start.send(Ok((Identity::of(child.id()), streams)));
                child
            }
            Err(error) => {
                let _ = tell_start.send(Err(error));
                return;
            }
        };
        if let Ok(status) = child.wait() {
            // The session may be over.
            let _ = tell_end.send(status);
        }
    });
    let (identity, streams) = started.recv().map_err(io::Error::other)??;
    let identity = identity.ok_or(io::ErrorKind::NotFound)?;
    Ok(Running {
        identity,
        streams,
        ended,
    })
}

fn spawn_with(
    mut command: Command,
    terminal: Option<Terminal>,
    wanted: Wanted,
) -> io::Result<(Child, Ends)> {
    if let Some(terminal) = terminal {
        let (child, ours) = terminal.spawn(command)?;
        return Ok((child, Ends::Terminal(ours)));
    }
    let stream = |wanted: bool| {
        if wanted {
            Stdio::piped()
        } else {
            Stdio::null()
        }
    };
    command
        .stdin(stream(wanted.stdin))
        .stdout(stream(wanted.stdout))
        .stderr(stream(wanted.stderr));
    let mut child = command.process_group(0).spawn()?;
    let pipes = [
        child.stdin.take().map(OwnedFd::from),
        child.stdout.take().map(OwnedFd::from),
        child.stderr.take().map(OwnedFd::from),
    ];
    Ok((child, Ends::Pipes(pipes)))
}

fn end_of(status: ExitStatus) -> End {
    // 128 plus the signal, as a shell reports it.
    let code = status.code().or(status.signal().map(|it| 128 + it));
    match code {
        Some(0) => End::Success,
        code => End::Exit(code.unwrap_or(255)),
    }
}

/// A program that ends with its session. What it left in the background after its own end goes on, as in a container.
struct OfSession(Identity);

impl OfSession {
    fn kill(&self) {
        if self.0.is_running() {
            // It may end by itself meanwhile.
            let _ = killpg(self.0.pid(), Signal::SIGKILL);
        }
        self.0.signal(Signal::SIGKILL);
    }
}

impl Drop for OfSession {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program of a container as a session: its log from now on, and its input if it has one.
fn attach(
    machines: &Machines,
    uid: &str,
    container: &str,
    console: Option<Arc<Console>>,
    wanted: Wanted,
) -> io::Result<Program> {
    let from = console.as_ref().and_then(|it| it.attach());
    let written = console.as_ref().map(|it| it.written());
    let log = logs::follow(machines.lab_dir(), uid, container, from, written)?;
    let (over, ended) = oneshot::channel::<()>();
    let log = log.map(move |piece| {
        let _until_the_end = &over;
        piece
    });
    let stdout = log.filter(move |_| std::future::ready(wanted.stdout));
    let input = match &console {
        Some(it) if wanted.stdin => it.input()?,
        _ => None,
    };
    let size = match &console {
        Some(it) if it.is_terminal => it.input()?,
        _ => None,
    };
    let end = async move {
        // An error: the log was dropped at its end.
        let _ = ended.await;
        End::Success
    };
    let keyboard = |(console, it)| {
        let input = polled::input(it)?;
        Ok::<_, io::Error>(Box::new(Keyboard { input, console }) as Box<_>)
    };
    Ok(Program {
        stdin: console.zip(input).map(keyboard).transpose()?,
        stdout: Some(Box::pin(stdout)),
        stderr: None,
        resize: size.map(|it| Box::new(move |size| terminal::resize(&it, size)) as Box<_>),
        end: Box::pin(end),
    })
}

/// The input of a console for one client. Its drop is the client's end of the input.
struct Keyboard {
    input: Sender,
    console: Arc<Console>,
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.console.detach();
    }
}

impl AsyncWrite for Keyboard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}
