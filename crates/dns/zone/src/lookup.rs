//! From a question to an answer.
//!
//! ```text
//! name ─place─▶ labels ─find─▶ what has the name ─records, srv, alias─▶ records of the type
//!      └reverse─▶ address ──▶ who has the address
//! ```
//!
//! What the specification leaves open is answered as CoreDNS does (`plugin/kubernetes`,
//! `plugin/backend_lookup.go`).

mod alias;
mod find;
mod name_server;
mod named;
mod place;
mod records;
mod reverse;
mod scope;
mod seen;
mod srv;

use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{RData, RecordType};

use crate::origin::{Holder, Missing};
use crate::{Answer, Objects, Origin, Outcome, Question, Settings};

use named::Found;
use scope::Scope;

/// What `dns-version.<zone>` says: the version of the specification that the records follow.
const SPECIFICATION: &str = "1.1.0";

/// Its TTL, in seconds: a version does not change while a server runs.
const SPECIFICATION_TTL: u32 = 28_800;

/// Answers a question. Total and pure: the same objects, settings and question give the same answer.
#[must_use]
pub fn answer<'a>(
    objects: &'a Objects,
    settings: &'a Settings,
    question: Question<'a>,
) -> Answer<'a> {
    let Some(zone) = settings.zones.closest(question.name) else {
        return Answer {
            outcome: Outcome::NotOurs,
            origin: Origin::NotOurs,
        };
    };
    let scope = Scope::new(objects, settings, question.name, zone);
    match question.record_type {
        RecordType::SOA => soa(&scope, question),
        RecordType::NS if scope.is_apex(question.name) => name_server::answer(&scope, question),
        RecordType::PTR => reverse::answer(&scope, question),
        RecordType::TXT => text(&scope, question),
        _ => records::answer(&scope, question),
    }
}

fn soa<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    if scope.is_apex(question.name) {
        return scope.records(vec![scope.soa()], Vec::new(), Holder::Zone);
    }
    // The existence of a name is not looked at, as in CoreDNS.
    scope.no_data(Origin::Lacks(Holder::Zone, RecordType::SOA))
}

fn text<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    if scope.is_below(question.name, &[b"dns-version"]) {
        let text = RData::TXT(TXT::new(vec![SPECIFICATION.to_owned()]));
        let mut record = scope.record(question.name.clone(), text);
        record.ttl = SPECIFICATION_TTL;
        return scope.records(vec![record], Vec::new(), Holder::Version);
    }
    match scope.find(question.name) {
        Found::Nothing(reason) => scope.name_error(reason),
        // Of names that only have others below them, CoreDNS says for this type that they do not exist.
        Found::Above => scope.name_error(Missing::NoText),
        Found::Named(it) => scope.no_data(Origin::Lacks(it.holder(), RecordType::TXT)),
    }
}
