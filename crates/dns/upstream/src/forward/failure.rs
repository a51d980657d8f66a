//! Why a forwarder cannot be made, and why a query was not answered.

use std::fmt::Display;
use std::sync::Arc;

use hickory_proto::op::ResponseCode;

use super::outgoing::Trouble;
use crate::check::Unusable;

/// Why a forwarder cannot be made, in one line: a file or name of its TLS, or the interface of an
/// address.
#[derive(Debug, thiserror::Error)]
#[error("forward{0}")]
pub struct SetupError(pub(super) String);

impl SetupError {
    /// For `map_err`: what failed, then why.
    pub(super) fn at<E: Display>(what: impl Display) -> impl FnOnce(E) -> Self {
        move |why| Self(format!("{what}: {why}"))
    }
}

/// Why a query was not answered. The text is for the plugin `errors`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// More queries are under way than `max_concurrent` allows, or than there are sockets for.
    #[error("forward: {max} queries are under way, no more are allowed")]
    TooMany {
        /// The bound.
        max: usize,
    },
    /// All upstreams are down, and `failfast_all_unhealthy_upstreams` is set.
    #[error("forward: all upstreams are down")]
    AllDown,
    /// No upstream answered in time. The cause is that of the last attempt.
    #[error("forward to {to}: {cause}")]
    NoAnswer {
        /// Address and port of the upstream that was tried last.
        to: Arc<str>,
        cause: Arc<str>,
    },
    /// The answer contradicts itself.
    #[error("forward to {to}: refuse answer: {reason}")]
    Unusable {
        /// Address and port of the upstream.
        to: Arc<str>,
        /// Why its answer is unusable.
        reason: Unusable,
    },
    /// The query's task ended without an answer.
    #[error("forward: the runtime stopped")]
    Stopped,
}

impl Failure {
    /// The response code for the client, as CoreDNS's.
    pub fn response_code(&self) -> ResponseCode {
        match self {
            Self::TooMany { .. } => ResponseCode::Refused,
            Self::AllDown | Self::NoAnswer { .. } | Self::Unusable { .. } | Self::Stopped => {
                ResponseCode::ServFail
            }
        }
    }

    pub(super) fn no_answer(to: &Arc<str>, trouble: &Trouble) -> Self {
        Self::NoAnswer {
            to: Arc::clone(to),
            cause: trouble.to_string().into(),
        }
    }
}
