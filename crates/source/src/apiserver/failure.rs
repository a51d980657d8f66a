//! Why a request failed.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use hyper_util::client::legacy;
use kube::core::Status;
use sluice_reconcile::causes;
use sluice_yaml::message;

use super::causes::chain;

/// A request without a good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection: it is refused, or the network drops the packets.
    Unreachable(String),
    /// No answer on a connection: the server is silent, or the connection broke off before the answer.
    Unanswered(String),
    /// No request could be sent (credentials, TLS), or an answer broke off.
    Broken(String),
    /// An answer that is not what the API server sends.
    Garbage(String),
    /// An answer with the status of an error.
    Refused {
        /// The HTTP status code, or the code of an ERROR event.
        code: u16,
        /// The server's reason.
        message: String,
        retry_after: Option<Duration>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) | Self::Unanswered(reason) | Self::Broken(reason) => {
                f.write_str(reason)
            }
            Self::Garbage(reason) => write!(f, "the server's answer cannot be read: {reason}"),
            // An ERROR event may have none.
            Self::Refused {
                code: 0, message, ..
            } => write!(f, "the server answered an error: {message}"),
            Self::Refused { code, message, .. } => {
                write!(f, "the server answered {code}: {message}")
            }
        }
    }
}

impl Error for Failure {}

impl Failure {
    /// The same failure, with the name of the server that gave no answer.
    pub(super) fn at(self, host: &str) -> Self {
        match self {
            Self::Unreachable(why) => Self::Unreachable(format!("cannot reach {host}: {why}")),
            Self::Unanswered(why) => Self::Unanswered(format!("no answer from {host}: {why}")),
            other => other,
        }
    }

    /// Whether no server answered.
    pub(super) fn is_without_answer(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unanswered(_))
    }

    /// The status code of a refusal.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// An error of the connection pool. TLS errors are not [`Failure::Unreachable`]: a server
    /// answers, and a wrong certificate is no reason for a handshake every second.
    pub(super) fn of_connection(error: &(dyn Error + 'static)) -> Self {
        let text = chain(error);
        let mut of_pool = causes(error).filter_map(|it| it.downcast_ref::<legacy::Error>());
        if causes(error).any(|it| it.downcast_ref().is_some_and(is_tls)) {
            Self::Broken(text)
        } else if of_pool.any(legacy::Error::is_connect) {
            Self::Unreachable(text)
        } else {
            Self::Unanswered(text)
        }
    }
}

/// Whether TLS refused what it read. Such an error may be inside another one, where
/// [`Error::source`] does not lead.
fn is_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|it| it.downcast_ref());
    error.kind() == io::ErrorKind::InvalidData || inner.is_some_and(is_tls)
}

/// An error of kube's client. A failure of [`super::connection`] stays as it is.
impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Service(error) => match error.downcast::<Self>() {
                Ok(failure) => *failure,
                Err(error) => Self::Broken(chain(&*error)),
            },
            kube::Error::Api(status) => (*status).into(),
            kube::Error::SerdeError(error) => error.into(),
            error => Self::Broken(chain(&error)),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Garbage(message(&error.to_string()))
    }
}

/// The object of an ERROR event, or the body of a refusal.
impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let seconds = status.details.map_or(0, |it| it.retry_after_seconds);
        Self::Refused {
            code: status.code,
            message: message(&status.message),
            retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_code_has_no_number() {
        let said = |json: &str| Failure::from(serde_json::from_str::<Status>(json).unwrap());
        let none = said(r#"{"message": "too old"}"#).to_string();
        assert_eq!(none, "the server answered an error: too old");
        let code = said(r#"{"message": "too old", "code": 410}"#).to_string();
        assert_eq!(code, "the server answered 410: too old");
    }
}
