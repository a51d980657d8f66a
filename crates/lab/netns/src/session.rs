//! A connection that stays open while rules and endpoints change.

use std::{
    io::Write,
    net::{IpAddr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::{
    LabError, Netns, Outcome, Probe, probe::read_line, socket::reset_on_close, vm::scaled,
};

/// An established connection to a [`Server`](crate::Server).
#[derive(Debug)]
pub struct Session {
    target: SocketAddr,
    stream: TcpStream,
    /// Bytes that were read after the last line.
    pending: Vec<u8>,
    identity: Outcome,
    pings: u64,
}

/// Timeout of an echo; ten times longer in a virtual machine.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Session {
    /// Connects over TCP from inside `netns` and reads the server's identity line.
    ///
    /// # Errors
    /// [`LabError::Session`] when no [`Server`](crate::Server) answers within 2 seconds.
    pub fn connect(netns: &Netns, target: SocketAddr) -> Result<Self, LabError> {
        Self::open(netns, Probe::tcp(target))
    }

    /// Connects from inside `netns` with the settings of `probe`, and reads the server's identity line.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn open(netns: &Netns, probe: Probe) -> Result<Self, LabError> {
        let target = probe.target();
        let lost = |outcome: Outcome| LabError::Session {
            object: target.to_string(),
            problem: outcome.to_string(),
        };
        let deadline = Instant::now() + scaled(TIMEOUT);
        let mut stream = netns.run(|| probe.connect(deadline)).map_err(lost)?;
        reset_on_close(&stream);
        let mut pending = Vec::new();
        let line = read_line(&mut stream, &mut pending, deadline).map_err(lost)?;
        match Outcome::from_line(&line) {
            identity @ Outcome::Answered { .. } => Ok(Self {
                target,
                stream,
                pending,
                identity,
                pings: 0,
            }),
            other => Err(lost(other)),
        }
    }

    /// Name of the server at the other end.
    pub fn name(&self) -> &str {
        self.identity.name().unwrap_or_default()
    }

    /// This client's address as the server saw it.
    pub fn source(&self) -> Option<IpAddr> {
        self.identity.source()
    }

    /// Proves that the same server still answers on this connection.
    ///
    /// # Errors
    /// [`LabError::Session`] when the connection was reset or closed, or the echo takes over 2 seconds.
    pub fn ping(&mut self) -> Result<(), LabError> {
        let object = self.target.to_string();
        let lost = |problem: String| LabError::Session { object, problem };
        self.pings += 1;
        let (line, echo) = (
            format!("ping {}\n", self.pings),
            format!("{} ping {}", self.name(), self.pings),
        );
        if let Err(error) = self.stream.write_all(line.as_bytes()) {
            return Err(lost(error.to_string()));
        }
        match read_line(
            &mut self.stream,
            &mut self.pending,
            Instant::now() + scaled(TIMEOUT),
        ) {
            Ok(answer) if answer == echo => Ok(()),
            Ok(answer) => Err(lost(format!("wanted {echo:?}, got {answer:?}"))),
            Err(outcome) => Err(lost(outcome.to_string())),
        }
    }
}
