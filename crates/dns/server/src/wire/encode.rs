//! Responses as bytes, never larger than the client takes.

use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, HeaderCounts, Message, Metadata, emit_message_parts};
use hickory_proto::rr::{Name, Record, RecordData as _};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use super::SMALLEST_PAYLOAD;

/// Bytes of an OPT record without options: root name, type, class, TTL, length.
const OPT: usize = 11;
/// Bytes of an option beside its data: code and length.
const OPTION: usize = 4;

/// A pointer to the name of the question, which follows the header of 12 bytes (RFC 1035, section 4.1.4).
const QUESTION: u16 = 0xC00C;

/// Most bytes of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(u16);

impl Limit {
    /// TCP's length field has 16 bits (RFC 1035, section 4.2.2).
    pub(crate) const TCP: Self = Self(u16::MAX);

    /// UDP: what the client announced, at most `ours`; without EDNS0, 512.
    pub(crate) fn udp(announced: Option<u16>, ours: u16) -> Self {
        Self(announced.map_or(SMALLEST_PAYLOAD, |it| it.min(ours).max(SMALLEST_PAYLOAD)))
    }
}

/// Writes the response. What does not fit goes: first additional records, which changes nothing for the
/// client; then whole records of the answer, which sets TC (RFC 2181, section 9).
///
/// # Errors
/// When a record cannot be written at all.
pub(crate) fn encode(response: &Message, limit: Limit) -> Result<Vec<u8>, ProtoError> {
    let edns = response.edns.as_ref();
    let mut parts = Parts {
        metadata: response.metadata,
        answers: &response.answers,
        authorities: &response.authorities,
        additionals: &response.additionals,
    };
    let (bytes, counts) = parts.write(response, edns, limit.0)?;
    let opt = edns.map_or(0, |_| 1);
    if parts.are_whole(counts) && usize::from(counts.additionals) == parts.additionals.len() + opt {
        return Ok(bytes);
    }
    let room = limit.0.saturating_sub(edns.map_or(0, length));
    let (_, fits) = parts.write(response, None, room)?;
    if parts.are_whole(fits) {
        parts.additionals = &parts.additionals[..usize::from(fits.additionals)];
    } else {
        parts.metadata.truncation = true;
        parts.answers = &parts.answers[..usize::from(fits.answers)];
        parts.authorities = &parts.authorities[..usize::from(fits.authorities)];
        parts.additionals = &[];
    }
    Ok(parts.write(response, edns, limit.0)?.0)
}

/// Bytes of an OPT record.
fn length(edns: &Edns) -> u16 {
    let options = edns.options().options.iter();
    let options: usize = options.map(|(_, it)| OPTION + usize::from(it.len())).sum();
    u16::try_from(OPT + options).unwrap_or(u16::MAX)
}

/// The records of a response that are written.
struct Parts<'a> {
    metadata: Metadata,
    answers: &'a [Record],
    authorities: &'a [Record],
    additionals: &'a [Record],
}

impl Parts<'_> {
    /// Writes as many of the records as fit, and counts them.
    fn write(
        &self,
        response: &Message,
        edns: Option<&Edns>,
        limit: u16,
    ) -> Result<(Vec<u8>, HeaderCounts), ProtoError> {
        let mut bytes = Vec::with_capacity(usize::from(SMALLEST_PAYLOAD));
        let mut encoder = BinEncoder::new(&mut bytes);
        encoder.set_max_size(limit);
        let question = response.queries.first().map(|it| &it.name);
        let answers = self.answers.iter().map(|record| Answer {
            record,
            has_name_of_question: question.is_some_and(|it| has_name(record, it)),
        });
        let answers: Vec<Answer<'_>> = answers.collect();
        let header = emit_message_parts(
            &self.metadata,
            &mut response.queries.iter(),
            &mut answers.iter(),
            &mut self.authorities.iter(),
            &mut self.additionals.iter(),
            edns,
            None,
            &mut encoder,
        )?;
        Ok((bytes, header.counts))
    }

    /// Whether all records fit that a client needs.
    fn are_whole(&self, counts: HeaderCounts) -> bool {
        usize::from(counts.answers) == self.answers.len()
            && usize::from(counts.authorities) == self.authorities.len()
    }
}

/// A record of the answer section. The library compresses the first 120 names of a message: a Service with more endpoints
/// would fill an answer over TCP with copies of its name.
struct Answer<'a> {
    record: &'a Record,
    has_name_of_question: bool,
}

/// Whether a pointer to the question can stand for the owner. A record without data is written in a way of its own.
fn has_name(record: &Record, question: &Name) -> bool {
    !question.is_root() && record.name.eq_case(question) && !record.data.is_update()
}

impl BinEncodable for Answer<'_> {
    fn emit(&self, encoder: &mut BinEncoder<'_>) -> Result<(), ProtoError> {
        if !self.has_name_of_question {
            return self.record.emit(encoder);
        }
        encoder.emit_u16(QUESTION)?;
        self.record.record_type().emit(encoder)?;
        self.record.dns_class.emit(encoder)?;
        encoder.emit_u32(self.record.ttl)?;
        let place = encoder.place::<u16>()?;
        self.record.data.emit(encoder)?;
        let length = encoder.len_since_place(&place);
        let length = u16::try_from(length).expect("a message has no more bytes");
        place.replace(encoder, length)
    }
}
