//! Which records of an upstream's answer are believed: those that belong to the question.
//!
//! The cache keeps whole messages, so that a foreign record could never answer another question
//! here. A client with a cache of its own might believe it.

use hickory_proto::op::Message;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use crate::question::Question;

/// A chain of aliases longer than this is refused, as resolvers do (Unbound: 12, BIND: 16).
pub(crate) const MAX_ALIASES: usize = 16;

/// Why an answer is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// An alias leads back to a name that was passed already.
    #[error("its CNAME records form a loop")]
    AliasLoop,
    /// There are more than 16 aliases one after the other.
    #[error("it has more than {MAX_ALIASES} CNAME records in a chain")]
    AliasesTooMany,
}

/// Drops the records of `answer` that do not belong to `question`.
///
/// - answer section: owners are the question's name and what its aliases lead to;
/// - authority section: NS and SOA of zones that contain one of these names, and DNSSEC records;
/// - additional section: what the two other sections refer to.
pub(crate) fn keep_relevant(question: &Question, answer: &mut Message) -> Result<(), Unusable> {
    let chain = chain(question, &answer.answers)?;
    let wanted = question.query.query_type;
    let class = question.query.query_class;
    answer
        .answers
        .retain(|record| record.dns_class == class && answers(record, wanted, &chain));
    answer.authorities.retain(|record| {
        record.dns_class == class
            && match record.record_type() {
                RecordType::NS | RecordType::SOA => {
                    chain.iter().any(|name| record.name.zone_of(name))
                }
                other => other.is_dnssec(),
            }
    });
    let targets: Vec<&Name> = answer
        .answers
        .iter()
        .chain(&answer.authorities)
        .filter_map(target)
        .collect();
    answer
        .additionals
        .retain(|record| record.dns_class == class && targets.contains(&&record.name));
    Ok(())
}

/// The question's name and the names that its aliases lead to, in order.
fn chain(question: &Question, records: &[Record]) -> Result<Vec<Name>, Unusable> {
    let mut chain = vec![question.query.name.clone()];
    if matches!(
        question.query.query_type,
        RecordType::CNAME | RecordType::ANY
    ) {
        return Ok(chain);
    }
    loop {
        let last = chain.last().expect("begins with the question's name");
        let Some(next) = records.iter().find_map(|record| match &record.data {
            RData::CNAME(alias) if record.name == *last => Some(&alias.0),
            _ => None,
        }) else {
            return Ok(chain);
        };
        if chain.contains(next) {
            return Err(Unusable::AliasLoop);
        }
        if chain.len() > MAX_ALIASES {
            return Err(Unusable::AliasesTooMany);
        }
        chain.push(next.clone());
    }
}

/// Whether `record` says something of a name of `chain` that `wanted` asks for.
fn answers(record: &Record, wanted: RecordType, chain: &[Name]) -> bool {
    match record.record_type() {
        // The CNAME that a DNAME stands for is in the answer too (RFC 6672, section 3.1). RRSIG: its owner is that
        // of the records that it signs, a DNAME's among them.
        RecordType::DNAME | RecordType::RRSIG => chain.iter().any(|name| record.name.zone_of(name)),
        found => {
            chain.contains(&record.name)
                && (found == wanted || found == RecordType::CNAME || wanted == RecordType::ANY)
        }
    }
}

/// The name whose addresses a client needs after `record`.
fn target(record: &Record) -> Option<&Name> {
    match &record.data {
        RData::NS(server) => Some(&server.0),
        RData::MX(exchange) => Some(&exchange.exchange),
        RData::SRV(service) => Some(&service.target),
        RData::NAPTR(rule) => Some(&rule.replacement),
        // `.` as target means the record's own owner (RFC 9460, section 2.5).
        RData::SVCB(service) if service.target_name.is_root() => Some(&record.name),
        RData::SVCB(service) => Some(&service.target_name),
        RData::HTTPS(service) if service.0.target_name.is_root() => Some(&record.name),
        RData::HTTPS(service) => Some(&service.0.target_name),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
