//! The class of an answer, and how long it may be cached.

use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record, RecordType};

use crate::question::Question;

/// TTL of answers that name none (no SOA, no record at all), as in CoreDNS.
const TTL_UNKNOWN: Duration = Duration::from_secs(5);
/// Longest time that a record is cached, as in CoreDNS.
const TTL_MAX: Duration = Duration::from_secs(3600);

/// The class of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Records, or a referral to other servers.
    Success,
    /// There is no such name, or no such record.
    Denial,
    /// The upstream could not tell: SERVFAIL and NOTIMP.
    Failure,
}

/// The class of `answer` and the TTL that its records allow, before the configuration's bounds.
/// `None` when it must not be kept.
pub(super) fn classify(question: &Question, answer: &Message) -> Option<(Class, Duration)> {
    if answer.truncation || !question.is_cacheable() {
        return None;
    }
    let soa = answer.authorities.iter().find_map(minimum);
    let refers = answer
        .authorities
        .iter()
        .any(|record| record.record_type() == RecordType::NS);
    let wanted = question.query.query_type;
    let answered = answer
        .answers
        .iter()
        .any(|record| wanted == RecordType::ANY || record.record_type() == wanted);
    match (answer.response_code, soa) {
        (ResponseCode::NoError, _) if answered => Some((Class::Success, shortest(answer))),
        // RFC 2308, section 5: the shorter of the SOA record's TTL and its MINIMUM field.
        (ResponseCode::NoError | ResponseCode::NXDomain, Some(minimum)) => {
            Some((Class::Denial, minimum.min(shortest(answer))))
        }
        (ResponseCode::NoError, None) if refers => Some((Class::Success, TTL_UNKNOWN)),
        (ResponseCode::NoError, None) => Some((Class::Denial, TTL_UNKNOWN.min(shortest(answer)))),
        (ResponseCode::ServFail | ResponseCode::NotImp, _) => Some((Class::Failure, TTL_UNKNOWN)),
        _ => None,
    }
}

/// MINIMUM of an SOA record.
fn minimum(record: &Record) -> Option<Duration> {
    match &record.data {
        RData::SOA(soa) => Some(seconds(soa.minimum)),
        _ => None,
    }
}

/// The shortest TTL of all sections.
fn shortest(answer: &Message) -> Duration {
    answer
        .all_sections()
        .map(|record| seconds(record.ttl))
        .fold(TTL_MAX, Duration::min)
}

/// A TTL with the highest bit set means zero (RFC 2181, section 8).
fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(i32::try_from(ttl).map_or(0, |_| u64::from(ttl)))
}
