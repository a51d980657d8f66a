//! Services that stand for another name.

use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_model::{IpFamily, Service};

use crate::origin::Holder;
use crate::{Answer, Origin, Outcome, Question};

use super::name_server;
use super::named::{Found, Named};
use super::records;
use super::scope::Scope;

/// Longest chain of aliases, as in CoreDNS.
const LONGEST: usize = 8;

/// Addresses of a name that stands for another. Inside the zone the alias is followed; when nothing is at its
/// end, then the alias is left out as well, as CoreDNS does.
pub(super) fn answer<'a>(
    scope: &Scope<'a>,
    question: Question<'a>,
    service: &'a Service,
) -> Answer<'a> {
    let holder = Holder::Service(service);
    let nothing = || scope.no_data(Origin::Lacks(holder, question.record_type));
    let mut answers: Vec<Record> = Vec::new();
    let (mut owner, mut service) = (question.name.clone(), service);
    loop {
        let was_here = |it: &Name| *it == owner || answers.iter().any(|own| own.name == *it);
        let Some(target) = target(service).filter(|it| !was_here(it)) else {
            return nothing();
        };
        if answers.len() == LONGEST {
            return nothing();
        }
        let data = RData::CNAME(CNAME(target.clone()));
        answers.push(scope.record(owner, data));
        if !scope.zone.name.zone_of(&target) {
            return Answer {
                outcome: Outcome::Alias { answers, target },
                origin: Origin::From(holder),
            };
        }
        match next(scope, question.record_type, &target) {
            Next::Alias(it) => service = it,
            Next::End(it) if it.is_empty() => return nothing(),
            Next::End(it) => {
                answers.extend(it);
                return scope.records(answers, Vec::new(), holder);
            }
            Next::Unknown => {
                let soa = Box::new(scope.soa());
                return Answer {
                    outcome: Outcome::NotReady { soa },
                    origin: Origin::Lacks(holder, question.record_type),
                };
            }
        }
        owner = target;
    }
}

/// What is at the end of one alias.
enum Next<'a> {
    Alias(&'a Service),
    End(Vec<Record>),
    /// Nothing yet: objects are missing.
    Unknown,
}

fn next<'a>(scope: &Scope<'a>, record_type: RecordType, target: &Name) -> Next<'a> {
    let question = Question {
        name: target,
        record_type,
    };
    let family = match record_type {
        RecordType::AAAA => IpFamily::V6,
        _ => IpFamily::V4,
    };
    if name_server::is(scope, target) {
        return Next::End(name_server::of_family(scope, question, family));
    }
    match scope.find(target) {
        Found::Named(Named::Alias(it)) => Next::Alias(it),
        Found::Named(it) => Next::End(records::addresses(scope, question, &it, family)),
        Found::Nothing(_) if !scope.objects.is_synced() => Next::Unknown,
        Found::Nothing(_) | Found::Above => Next::End(Vec::new()),
    }
}

/// What a Service stands for; `None` when that is no name.
pub(super) fn target(service: &Service) -> Option<Name> {
    let mut name = Name::root();
    for label in service.external_name.as_deref()?.split('.') {
        name = name.append_label(label.as_bytes()).ok()?;
    }
    Some(name)
}
