//! Queries as bytes: what is answered at once, what reaches the plugins, what gets silence.
//!
//! The limits of the header are those of CoreDNS's library (miekg/dns, `DefaultMsgAcceptFunc`).

use hickory_proto::op::{
    Edns, Header, Message, MessageType, Metadata, OpCode, Query as Question, ResponseCode,
};
use hickory_proto::rr::rdata::opt::EdnsCode;
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use sluice_upstream::Question as Asked;

pub(crate) use encode::{Limit, encode};

/// Largest query in bytes. A query is one name and, at most, some EDNS0 options: 4 KiB is the payload
/// size that most resolvers announced before 2020.
pub(crate) const LARGEST_QUERY: usize = 4096;
/// Smallest UDP payload that every client takes (RFC 1035, section 2.3.4).
pub(crate) const SMALLEST_PAYLOAD: u16 = 512;
/// Bytes of a header.
const HEADER: usize = 12;
/// The only version of EDNS (RFC 6891, section 6.1.3).
const EDNS_VERSION: u8 = 0;

/// A query that the plugins answer.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The only question. Its name keeps its case.
    pub(crate) asked: Asked,
    /// Id, opcode and flags.
    pub(crate) metadata: Metadata,
    /// The client's OPT record.
    pub(crate) edns: Option<ClientEdns>,
    /// Length in bytes.
    pub(crate) size: usize,
}

/// The fields of an OPT record that the server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientEdns {
    /// Largest UDP payload that the client takes, in bytes.
    pub(crate) payload: u16,
    /// Whether the record has options, which may differ in every query (cookies, padding).
    pub(crate) has_options: bool,
    /// Whether the client asks for the server's identity (RFC 5001).
    pub(crate) asks_nsid: bool,
}

/// The result of parsing a datagram or a TCP message.
#[derive(Debug)]
pub(crate) enum Received {
    /// The plugins answer it.
    Query(Box<Query>),
    /// Answer at once with FORMERR, NOTIMP or BADVERS.
    Refused(Box<Message>),
    /// It gets no answer: a response, or no header.
    Ignored,
}

/// Reads a query.
pub(crate) fn read(bytes: &[u8]) -> Received {
    if bytes.len() < HEADER {
        return Received::Ignored;
    }
    let Ok(header) = Header::read(&mut BinDecoder::new(&bytes[..HEADER])) else {
        return Received::Ignored;
    };
    if header.message_type == MessageType::Response {
        return Received::Ignored;
    }
    if header.op_code != OpCode::Query {
        return refuse(&header, None, ResponseCode::NotImp);
    }
    let counts = header.counts;
    if counts.queries != 1 || counts.answers > 1 || counts.authorities > 1 || counts.additionals > 2
    {
        return refuse(&header, None, ResponseCode::FormErr);
    }
    let Ok(message) = Message::from_vec(bytes) else {
        return refuse(&header, question(bytes), ResponseCode::FormErr);
    };
    let Some(asked) = Asked::of(&message) else {
        return refuse(&header, None, ResponseCode::FormErr);
    };
    match &message.edns {
        Some(edns) if edns.version() != EDNS_VERSION => bad_version(&header, &message),
        edns => Received::Query(Box::new(Query {
            asked,
            metadata: message.metadata,
            edns: edns.as_ref().map(ClientEdns::of),
            size: bytes.len(),
        })),
    }
}

impl ClientEdns {
    fn of(edns: &Edns) -> Self {
        Self {
            payload: edns.max_payload().max(SMALLEST_PAYLOAD),
            has_options: !edns.options().options.is_empty(),
            asks_nsid: edns.option(EdnsCode::NSID).is_some(),
        }
    }
}

/// The question, if at least the question can be read.
fn question(bytes: &[u8]) -> Option<Question> {
    let mut decoder = BinDecoder::new(bytes);
    Header::read(&mut decoder).ok()?;
    Question::read(&mut decoder).ok()
}

fn refuse(header: &Header, question: Option<Question>, code: ResponseCode) -> Received {
    let mut response = Message::response(header.id, header.op_code);
    response.metadata = Metadata::response_from_request(&header.metadata);
    response.metadata.response_code = code;
    response.add_queries(question);
    Received::Refused(Box::new(response))
}

/// The answer to an unknown version of EDNS names the version that we know (RFC 6891, section 6.1.3).
fn bad_version(header: &Header, message: &Message) -> Received {
    let question = message.queries.first().cloned();
    let mut received = refuse(header, question, ResponseCode::BADVERS);
    if let Received::Refused(it) = &mut received {
        it.set_edns(Edns::new());
    }
    received
}

mod encode;
#[cfg(test)]
mod tests;
