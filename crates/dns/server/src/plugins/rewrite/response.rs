//! Changes of responses to rewritten questions.

use std::ops::RangeInclusive;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, Record};
use sluice_corefile::AnswerRule;

use super::names::substituted;
use super::{absolute, text};

/// One change of a response.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    /// A name becomes the one that the client asked, and so do names below it, as owners and in data.
    Below { from: Name, to: Name },
    /// The end of names, as owners and in data.
    Suffix { from: String, to: String },
    /// Owners and targets by patterns.
    Rules(Vec<AnswerRule>),
    /// TTLs in seconds come into this range.
    Ttl(RangeInclusive<u32>),
    /// Replace the response code.
    Code {
        from: ResponseCode,
        to: ResponseCode,
    },
}

impl Undo {
    /// Changes a response.
    pub(crate) fn apply(&self, message: &mut Message) {
        match self {
            Self::Below { from, to } => rename(message, |name| below(name, from, to)),
            Self::Suffix { from, to } => rename(message, |name| {
                let text = text(name);
                absolute(&format!("{}{to}", text.strip_suffix(from.as_str())?)).ok()
            }),
            Self::Rules(rules) => {
                for record in records(message) {
                    rules.iter().for_each(|it| apply_rule(it, record));
                }
            }
            Self::Ttl(range) => {
                for record in records(message) {
                    record.ttl = record.ttl.clamp(*range.start(), *range.end());
                }
            }
            Self::Code { from, to } => {
                if message.response_code == *from {
                    message.metadata.response_code = *to;
                }
            }
        }
    }
}

/// Renames owners, and names in data. A result that is no name leaves the record as it is.
fn rename(message: &mut Message, new: impl Fn(&Name) -> Option<Name>) {
    let change = |name: &mut Name| {
        if let Some(new) = new(name) {
            *name = new;
        }
    };
    for record in records(message) {
        change(&mut record.name);
        if let Some(name) = target(record) {
            change(name);
        }
    }
}

/// `a.from` becomes `a.to`.
fn below(name: &Name, from: &Name, to: &Name) -> Option<Name> {
    if !from.zone_of(name) {
        return None;
    }
    let labels: Vec<&[u8]> = name
        .iter()
        .take(name.iter().len() - from.iter().len())
        .collect();
    let mut new = Name::from_labels(labels.into_iter().chain(to.iter())).ok()?;
    new.set_fqdn(true);
    Some(new)
}

fn apply_rule(rule: &AnswerRule, record: &mut Record) {
    let (from, to, name) = match rule {
        AnswerRule::Name { from, to } => (from, to, Some(&mut record.name)),
        AnswerRule::Value { from, to } => (from, to, target(record)),
    };
    if let Some(name) = name
        && let Some(new) = substituted(from, to, &text(name))
        // A result that is no name leaves the record as it is.
        && let Ok(new) = absolute(&new)
    {
        *name = new;
    }
}

fn records(message: &mut Message) -> impl Iterator<Item = &mut Record> {
    let answers = message.answers.iter_mut();
    answers
        .chain(&mut message.authorities)
        .chain(&mut message.additionals)
}

/// The name in a record's data.
fn target(record: &mut Record) -> Option<&mut Name> {
    match &mut record.data {
        RData::CNAME(it) => Some(&mut it.0),
        RData::NS(it) => Some(&mut it.0),
        RData::PTR(it) => Some(&mut it.0),
        RData::MX(it) => Some(&mut it.exchange),
        RData::SRV(it) => Some(&mut it.target),
        RData::NAPTR(it) => Some(&mut it.replacement),
        RData::SOA(it) => Some(&mut it.mname),
        _ => None,
    }
}
