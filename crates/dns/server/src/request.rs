//! A query on its way through the plugins, and what becomes of it.

use std::net::SocketAddr;
use std::time::Instant;

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::EdnsOption;
use sluice_upstream::{Question as Asked, Transport};

use crate::metrics::Plugin;
use crate::wire::Query;

/// The client of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Address and port of the client.
    pub(crate) address: SocketAddr,
    /// Our address that the query was sent to.
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
}

/// A query and everything that its answer may depend on.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) query: Box<Query>,
    pub(crate) client: Client,
    pub(crate) received: Instant,
    /// The index of the address that comes first in the answer, modulo their number.
    pub(crate) turn: usize,
}

/// The answer of the plugins. The engine adds id, question and OPT.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) message: Message,
    pub(crate) plugin: Plugin,
    /// The revision of the objects, when the answer depends on nothing but them, the configuration and
    /// the question.
    pub(crate) revision: Option<u64>,
    /// Why there is no better answer, for the plugin `errors`.
    pub(crate) error: Option<String>,
    /// EDNS0 options for clients with EDNS0.
    pub(crate) options: Vec<EdnsOption>,
}

impl Reply {
    /// A response without records.
    pub(crate) fn empty(code: ResponseCode, plugin: Plugin) -> Self {
        let mut message = Message::response(0, OpCode::Query);
        message.metadata.response_code = code;
        Self {
            message,
            plugin,
            revision: None,
            error: None,
            options: Vec::new(),
        }
    }

    /// An authoritative response with these records in the answer section.
    pub(crate) fn authoritative(answers: Vec<Record>, plugin: Plugin) -> Self {
        let mut reply = Self::empty(ResponseCode::NoError, plugin);
        reply.message.metadata.authoritative = true;
        reply.message.answers = answers;
        reply
    }

    /// SERVFAIL, with the reason.
    pub(crate) fn failure(error: impl Into<String>, plugin: Plugin) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::empty(ResponseCode::ServFail, plugin)
        }
    }
}

/// The question with another name.
pub(crate) fn renamed(asked: &Asked, name: hickory_proto::rr::Name) -> Asked {
    let mut asked = asked.clone();
    asked.query.name = name;
    asked
}
