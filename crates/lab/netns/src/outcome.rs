//! Results of a probe.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use nix::errno::Errno;

/// The result of a [`Probe`](crate::Probe).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A server answered.
    Answered {
        name: String,
        /// The client address it saw: the client's own, unless a node masqueraded it.
        source: IpAddr,
        /// The client port it saw.
        source_port: u16,
    },
    /// A reset to the connection request, or an ICMP port unreachable.
    Refused,
    /// Any other error number: no route (`ENETUNREACH`), an ICMP error (`EHOSTUNREACH`, `EACCES`), a
    /// source that cannot be used (`EADDRNOTAVAIL`, `EADDRINUSE`), a datagram dropped on its way out
    /// of the client itself (`EPERM`).
    Unreachable(Errno),
    /// No answer before the timeout.
    TimedOut,
    /// The answer is not that of a [`Server`](crate::Server), or the connection was reset.
    Broken(String),
}

impl Outcome {
    /// Name of the server that answered; `None` without an answer.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Answered { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The client's address as the server saw it; `None` without an answer.
    pub fn source(&self) -> Option<IpAddr> {
        match self {
            Self::Answered { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// The outcome for a socket operation that failed with this error number.
    pub(crate) fn failed(errno: Errno) -> Self {
        match errno {
            Errno::ECONNREFUSED => Self::Refused,
            Errno::ETIMEDOUT => Self::TimedOut,
            Errno::ECONNRESET => Self::Broken("reset".to_owned()),
            other => Self::Unreachable(other),
        }
    }

    /// Parses a server's `<name> <peer ip> <peer port>`; anything else is [`Outcome::Broken`].
    pub(crate) fn from_line(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let mut answered = || {
            let (name, source, port) = (words.next()?, words.next()?, words.next()?);
            let (source, source_port) = (source.parse().ok()?, port.parse().ok()?);
            Some(Self::Answered {
                name: name.to_owned(),
                source,
                source_port,
            })
        };
        answered().unwrap_or_else(|| Self::Broken(format!("not an identity: {line:?}")))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered {
                name,
                source,
                source_port,
            } => {
                write!(
                    f,
                    "answered by {name}, which saw {}",
                    SocketAddr::new(*source, *source_port)
                )
            }
            Self::Refused => f.write_str("refused"),
            Self::Unreachable(errno) => write!(f, "unreachable: {}", errno.desc()),
            Self::TimedOut => f.write_str("timed out"),
            Self::Broken(how) => write!(f, "broken: {how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_a_server_are_answers() {
        let outcome = Outcome::from_line("web-1 fd00::2 4711\n");
        assert_eq!(
            outcome.to_string(),
            "answered by web-1, which saw [fd00::2]:4711"
        );
        for foreign in [
            "",
            "HTTP/1.1 400 Bad",
            "web-1 10.0.0.1",
            "web-1 10.0.0.1 70000",
        ] {
            assert!(
                matches!(Outcome::from_line(foreign), Outcome::Broken(_)),
                "{foreign}"
            );
        }
    }

    #[test]
    fn error_numbers_give_different_outcomes() {
        assert_eq!(Outcome::failed(Errno::ECONNREFUSED), Outcome::Refused);
        assert_eq!(Outcome::failed(Errno::ETIMEDOUT), Outcome::TimedOut);
        assert_eq!(
            Outcome::failed(Errno::ENETUNREACH).to_string(),
            "unreachable: Network is unreachable"
        );
    }
}
