//! Addresses, aliases, and types without records.

use std::net::IpAddr;

use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{RData, Record, RecordType};
use sluice_model::IpFamily;

use crate::objects::cluster_ips;
use crate::{Answer, Origin, Question};

use super::named::{Found, Named};
use super::scope::Scope;
use super::seen::Seen;
use super::{alias, name_server, srv};

/// Everything but the types that have rules of their own for names without objects.
pub(super) fn answer<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    if name_server::is(scope, question.name) {
        return name_server::addresses(scope, question);
    }
    match scope.find(question.name) {
        Found::Nothing(reason) => scope.name_error(reason),
        Found::Above => scope.no_data(Origin::Above),
        Found::Named(it) => of_type(scope, question, &it),
    }
}

fn of_type<'a>(scope: &Scope<'a>, question: Question<'a>, named: &Named<'a, 'a>) -> Answer<'a> {
    let holder = named.holder();
    let (answers, additionals) = match (question.record_type, named) {
        (RecordType::A | RecordType::AAAA, Named::Alias(service)) => {
            return alias::answer(scope, question, service);
        }
        (RecordType::A, _) => (addresses(scope, question, named, IpFamily::V4), Vec::new()),
        (RecordType::AAAA, _) => (addresses(scope, question, named, IpFamily::V6), Vec::new()),
        (RecordType::SRV, _) => srv::records(scope, question, named),
        (RecordType::CNAME, Named::Alias(service)) => {
            let target = alias::target(service).map(|it| RData::CNAME(CNAME(it)));
            let record = target.map(|it| scope.record(question.name.clone(), it));
            (record.into_iter().collect(), Vec::new())
        }
        _ => (Vec::new(), Vec::new()),
    };
    if answers.is_empty() {
        scope.no_data(Origin::Lacks(holder, question.record_type))
    } else {
        scope.records(answers, additionals, holder)
    }
}

/// The addresses of one family, each once.
pub(super) fn addresses(
    scope: &Scope<'_>,
    question: Question<'_>,
    named: &Named<'_, '_>,
    family: IpFamily,
) -> Vec<Record> {
    match named {
        Named::ClusterIps(service, _) => {
            let addresses = cluster_ips(service);
            of_family(
                scope,
                question,
                addresses.iter().copied(),
                addresses.len(),
                family,
            )
        }
        Named::Endpoints(it) => of_family(scope, question, it.addresses(), it.at_most(), family),
        Named::Pods(it) => of_family(scope, question, [it.address], 1, family),
        Named::Alias(_) => Vec::new(),
    }
}

/// A record for each address of one family, each once. There are `at_most` so many.
pub(super) fn of_family(
    scope: &Scope<'_>,
    question: Question<'_>,
    addresses: impl IntoIterator<Item = IpAddr>,
    at_most: usize,
    family: IpFamily,
) -> Vec<Record> {
    let (mut records, mut seen) = (Vec::new(), Seen::new());
    let addresses = addresses.into_iter().map(|it| it.to_canonical());
    for address in addresses.filter(|it| IpFamily::of(it) == family) {
        if records.is_empty() {
            records.reserve_exact(at_most);
        }
        if seen.is_new(address) {
            records.push(scope.address(question.name.clone(), address));
        }
    }
    records
}
