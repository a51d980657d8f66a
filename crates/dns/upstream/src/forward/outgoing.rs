//! One query on its way, and which bytes answer it.

use std::io;

use hickory_proto::ProtoError;
use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};

use crate::question::{Question, WithEdns};

/// After so many messages that answer something else, somebody guesses ids: the query is asked
/// again over TCP, where guessing does not help (RFC 5452, section 9.2).
pub(super) const MAX_FOREIGN: u32 = 64;

/// Bytes before the question, and behind the question's name (RFC 1035, 4.1).
const HEADER: usize = 12;
const QUESTION: usize = 4;
/// Flags in the third byte.
const QR: u8 = 0x80;
const TC: u8 = 0x02;

/// A query with its id, encoded.
pub(super) struct Outgoing {
    message: Message,
    bytes: Vec<u8>,
}

/// Why an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{operation}: {source}")]
    Io {
        operation: &'static str,
        source: io::Error,
    },
    #[error("{operation}: no answer in time")]
    Timeout { operation: &'static str },
    #[error("read: {MAX_FOREIGN} messages that do not answer the query")]
    Foreign,
    #[error("encode query: {0}")]
    Encode(#[from] ProtoError),
}

impl Trouble {
    /// For `map_err`.
    pub(super) fn io(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}

impl Outgoing {
    /// Gives `question` a random id.
    pub(super) fn new(question: &Question, edns: WithEdns) -> Result<Self, ProtoError> {
        let message = question.to_message(edns);
        let bytes = message.to_vec()?;
        Ok(Self { message, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The answer in `received`. `None` when it is not an answer to this query: another id,
    /// another question, or no DNS message at all.
    pub(super) fn answer(&self, received: &[u8]) -> Option<Message> {
        // Guesses are many and most have another id: decoding those would be wasted.
        if received.first_chunk() != Some(&self.message.id.to_be_bytes()) {
            return None;
        }
        let answer = Message::from_vec(received)
            .ok()
            .or_else(|| self.cut_off(received))?;
        let ours = answer.message_type == MessageType::Response
            && answer.op_code == OpCode::Query
            && (answer.queries == self.message.queries || is_refusal_without_question(&answer));
        ours.then_some(answer)
    }

    /// As [`Self::answer`], of a datagram. One that repeats the question and is cut behind it counts as truncated, also
    /// without TC: some servers, and what is between, cut so.
    pub(super) fn answer_of_datagram(&self, received: &[u8]) -> Option<Message> {
        let question = HEADER + self.message.queries[0].name().len() + QUESTION;
        let repeats = |it: &[u8]| it.get(HEADER..question) == self.bytes.get(HEADER..question);
        let is_cut = || {
            let is_ours = received.first_chunk() == Some(&self.message.id.to_be_bytes());
            let is_answer = received.get(2).is_some_and(|it| it & QR != 0);
            let is_broken = Message::from_vec(received).is_err();
            is_ours && is_answer && repeats(received) && is_broken
        };
        self.answer(received)
            .or_else(|| is_cut().then(|| self.truncated()))
    }

    /// An answer whose last record is cut in two: some servers truncate so. It counts as one
    /// without records, so that it is asked for over TCP.
    fn cut_off(&self, received: &[u8]) -> Option<Message> {
        let flags = *received.get(2)?;
        let is_cut = received.len() >= HEADER && flags & QR != 0 && flags & TC != 0;
        is_cut.then(|| self.truncated())
    }

    fn truncated(&self) -> Message {
        let mut answer = Message::response(self.message.id, OpCode::Query);
        answer.metadata.truncation = true;
        answer.queries = self.message.queries.clone();
        answer
    }
}

/// Servers that do not understand a query need not repeat its question.
fn is_refusal_without_question(answer: &Message) -> bool {
    answer.queries.is_empty()
        && answer.answers.is_empty()
        && matches!(
            answer.response_code,
            ResponseCode::FormErr | ResponseCode::NotImp
        )
}

/// Whether the server refused the query because of its OPT record (RFC 6891, section 7).
pub(super) fn refuses_edns(answer: &Message) -> bool {
    answer.edns.is_none()
        && matches!(
            answer.response_code,
            ResponseCode::FormErr | ResponseCode::NotImp
        )
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;
    use hickory_proto::rr::{DNSClass, Name, RecordType};
    use proptest::prelude::*;

    use super::*;

    fn outgoing() -> Outgoing {
        let name = Name::from_ascii("a.example.").unwrap();
        Outgoing::new(&Question::new(name, RecordType::A), WithEdns::Yes).unwrap()
    }

    fn answer(change: impl FnOnce(&mut Message)) -> (Outgoing, Vec<u8>) {
        let outgoing = outgoing();
        let mut answer = outgoing.message.clone().into_response();
        change(&mut answer);
        let bytes = answer.to_vec().unwrap();
        (outgoing, bytes)
    }

    #[track_caller]
    fn check(accepted: bool, change: impl FnOnce(&mut Message)) {
        let (outgoing, bytes) = answer(change);
        assert_eq!(outgoing.answer(&bytes).is_some(), accepted);
    }

    #[test]
    fn only_the_same_question_is_an_answer() {
        check(true, |_| ());
        check(true, |it| {
            it.queries[0].set_name(Name::from_ascii("A.eXample.").unwrap());
        });
        check(false, |it| it.metadata.id ^= 1);
        check(false, |it| {
            it.queries[0].set_name(Name::from_ascii("b.example.").unwrap());
        });
        check(false, |it| {
            it.queries[0].set_query_type(RecordType::AAAA);
        });
        check(false, |it| {
            it.queries[0].set_query_class(DNSClass::CH);
        });
        check(false, |it| {
            it.add_query(Query::query(Name::root(), RecordType::A));
        });
        check(false, |it| it.queries.clear());
        check(false, |it| it.metadata.message_type = MessageType::Query);
        check(false, |it| it.metadata.op_code = OpCode::Status);
    }

    #[test]
    fn a_format_error_needs_no_question() {
        check(true, |it| {
            it.queries.clear();
            it.metadata.response_code = ResponseCode::FormErr;
        });
    }

    #[test]
    fn an_answer_cut_in_a_record_is_truncated() {
        let (outgoing, mut bytes) = answer(|it| it.metadata.truncation = true);
        bytes.truncate(bytes.len() - 3);
        assert!(outgoing.answer(&bytes).unwrap().truncation);
        let (outgoing, mut bytes) = answer(|_| ());
        let whole = outgoing.answer_of_datagram(&bytes);
        assert!(!whole.unwrap().truncation);
        bytes.truncate(bytes.len() - 3);
        assert!(outgoing.answer(&bytes).is_none());
        // A datagram may be cut without a word.
        assert!(outgoing.answer_of_datagram(&bytes).unwrap().truncation);
        for (at, bit) in [(0, 1), (2, QR), (13, 1)] {
            let mut forged = bytes.clone();
            forged[at] ^= bit;
            assert!(outgoing.answer_of_datagram(&forged).is_none(), "{at}");
        }
        bytes.truncate(20);
        assert!(outgoing.answer_of_datagram(&bytes).is_none());
    }

    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<u16> = (0..100).map(|_| outgoing().message.id).collect();
        assert!(ids.len() > 90, "{ids:?}");
    }

    proptest! {
        /// Whatever a server sends, an answer is to our question.
        #[test]
        fn no_bytes_are_another_answer(
            noise in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0..40_usize,
        ) {
            let (outgoing, mut bytes) = answer(|it| it.metadata.truncation = true);
            let at = cut.min(bytes.len());
            bytes.truncate(at.max(2));
            bytes.extend(noise);
            if let Some(answer) = outgoing.answer(&bytes) {
                prop_assert_eq!(answer.id, outgoing.message.id);
                prop_assert!(
                    answer.queries == outgoing.message.queries
                        || is_refusal_without_question(&answer)
                );
            }
        }
    }
}
