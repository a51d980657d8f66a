//! What is asked of an upstream or of the cache: everything of a request that an answer depends on.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RecordType};

/// The largest UDP answer that is asked for: what passes every path unfragmented (DNS flag day 2020).
pub(crate) const UDP_PAYLOAD: u16 = 1232;

/// A question and the flags that change its answer.
///
/// EDNS0 options of the client are not among them: OPT is for one hop (RFC 6891, section 6.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name, type and class. The name keeps the case in which the client wrote it.
    pub query: Query,
    /// RD: the upstream shall resolve the name to its end.
    pub recursion_desired: bool,
    /// CD: the upstream shall not validate.
    pub checking_disabled: bool,
    /// AD: the client understands the answer's AD flag (RFC 6840, section 5.7).
    pub authentic_data: bool,
    /// DO: the client wants DNSSEC records.
    pub dnssec_ok: bool,
}

impl Question {
    /// A question of our own, in class IN, with RD set and no other flag.
    pub fn new(name: Name, record_type: RecordType) -> Self {
        Self {
            query: Query::query(name, record_type),
            recursion_desired: true,
            checking_disabled: false,
            authentic_data: false,
            dnssec_ok: false,
        }
    }

    /// What `request` asks. `None` when it does not have exactly one question.
    pub fn of(request: &Message) -> Option<Self> {
        let [query] = request.queries.as_slice() else {
            return None;
        };
        Some(Self {
            query: query.clone(),
            recursion_desired: request.recursion_desired,
            checking_disabled: request.checking_disabled,
            authentic_data: request.authentic_data,
            dnssec_ok: request
                .edns
                .as_ref()
                .is_some_and(|edns| edns.flags().dnssec_ok),
        })
    }

    /// The query for an upstream, with an id of its own; `edns` says whether it carries OPT. AD is always set: the answer may
    /// be kept for clients that understand it (RFC 6840, section 5.7).
    pub(crate) fn to_message(&self, edns: WithEdns) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.checking_disabled = self.checking_disabled;
        message.metadata.authentic_data = true;
        message.add_query(self.query.clone());
        if edns == WithEdns::Yes {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD)
                .set_dnssec_ok(self.dnssec_ok);
            message.set_edns(edns);
        }
        message
    }

    /// Whether the client understands the answer's AD flag: others get it cleared.
    pub fn understands_authentic_data(&self) -> bool {
        self.dnssec_ok || self.authentic_data
    }

    /// `answer`, which was given to an equal question, as the response to this one: id 0, this
    /// question's case and flags, no OPT. The caller sets the id and its own OPT, and clears AD for a client that
    /// does not understand it.
    pub(crate) fn response(&self, mut answer: Message) -> Message {
        for record in &mut answer.answers {
            if record.name == self.query.name {
                record.name = self.query.name.clone();
            }
        }
        answer.queries = vec![self.query.clone()];
        answer.edns = None;
        answer.signature = None;
        let metadata = &mut answer.metadata;
        metadata.id = 0;
        metadata.message_type = MessageType::Response;
        metadata.op_code = OpCode::Query;
        metadata.recursion_desired = self.recursion_desired;
        metadata.checking_disabled = self.checking_disabled;
        answer
    }

    /// Name in lower case, type, class, DO and CD: equal keys, equal answers in the cache.
    pub(crate) fn key(&self) -> Key {
        let class = u16::from(self.query.query_class);
        let record_type = u16::from(self.query.query_type);
        let mut bytes = Vec::with_capacity(usize::from(u8::MAX));
        bytes.push(u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1);
        bytes.extend(record_type.to_be_bytes());
        bytes.extend(class.to_be_bytes());
        for label in &self.query.name {
            bytes.push(u8::try_from(label.len()).expect("labels have at most 63 bytes"));
            bytes.extend(label.iter().map(u8::to_ascii_lowercase));
        }
        Key(bytes.into_boxed_slice())
    }

    /// As [`Self::key`], with RD: equal keys, equal queries to an upstream.
    pub(crate) fn flight_key(&self) -> Key {
        let Key(mut bytes) = self.key();
        bytes[0] |= u8::from(self.recursion_desired) << 2;
        Key(bytes)
    }

    /// Whether the question is in class IN and no transfer: others have no place in a cache.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.query.query_class == DNSClass::IN
            && !matches!(self.query.query_type, RecordType::AXFR | RecordType::IXFR)
    }
}

/// Whether a query carries OPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithEdns {
    Yes,
    /// For a server that refuses queries with OPT (RFC 6891, section 7).
    No,
}

/// Identity of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) Box<[u8]>);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    #[test]
    fn keys_ignore_case_and_nothing_else() {
        let question = Question::new(name("Example.ORG."), RecordType::A);
        assert_eq!(
            question.key(),
            Question::new(name("eXample.org."), RecordType::A).key()
        );
        let others = [
            Question::new(name("example.org."), RecordType::AAAA),
            Question::new(name("e.xample.org."), RecordType::A),
            Question {
                dnssec_ok: true,
                ..question.clone()
            },
            Question {
                checking_disabled: true,
                ..question.clone()
            },
        ];
        for other in others {
            assert_ne!(question.key(), other.key(), "{other:?}");
        }
    }

    /// An answer that is kept may be asked for by others.
    #[test]
    fn ad_is_asked_for_and_kept_for_those_who_understand_it() {
        let mut answer = Message::response(7, OpCode::Query);
        answer.metadata.authentic_data = true;
        let plain = Question::new(name("a."), RecordType::A);
        assert!(plain.to_message(WithEdns::No).authentic_data);
        assert!(plain.response(answer).authentic_data);
        let understands = |authentic_data, dnssec_ok| {
            let it = Question {
                authentic_data,
                dnssec_ok,
                ..plain.clone()
            };
            assert_eq!(it.flight_key() == plain.flight_key(), !dnssec_ok);
            it.understands_authentic_data()
        };
        assert!(!understands(false, false));
        assert!(understands(true, false) && understands(false, true));
    }
}
