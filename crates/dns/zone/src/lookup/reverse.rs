//! PTR records: who has an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name, RData};

use crate::objects::Ready;
use crate::origin::{Holder, Missing};
use crate::{Answer, Origin, Question};

use super::named::Found;
use super::scope::Scope;
use super::seen::Seen;

pub(super) fn answer<'a>(scope: &Scope<'a>, question: Question<'a>) -> Answer<'a> {
    match address(question.name) {
        Some(it) => of_address(scope, question, it),
        None => match scope.find(question.name) {
            Found::Nothing(reason) => scope.name_error(reason),
            Found::Above => scope.no_data(Origin::Above),
            Found::Named(it) => scope.no_data(Origin::Lacks(it.holder(), question.record_type)),
        },
    }
}

/// The Service that has the address as ClusterIP, else the ready endpoints that have it. Endpoints count even
/// when their Service does not exist, as in CoreDNS. Most resolvers take the first name: that of an endpoint with a hostname of
/// its own, which leads back to this address alone.
fn of_address<'a>(scope: &Scope<'a>, question: Question<'a>, address: IpAddr) -> Answer<'a> {
    let (objects, settings) = (scope.objects, scope.settings);
    let exposed = |namespace: &str| {
        settings.namespaces.is_empty() || scope.exposed(namespace.as_bytes()).is_ok()
    };
    let ptr = |labels: &[&[u8]]| {
        let mut name = Name::new();
        for label in labels {
            name = name.append_label(*label).ok()?;
        }
        let target = name.append_name(settings.zones.primary()).ok()?;
        Some(scope.record(question.name.clone(), RData::PTR(PTR(target))))
    };
    let mut services = objects
        .services_at(address)
        .filter(|it| exposed(&it.name.namespace));
    if let Some(service) = services.next() {
        let name = &service.name;
        let record = ptr(&[name.name.as_bytes(), name.namespace.as_bytes(), b"svc"]);
        if let Some(record) = record {
            return scope.records(vec![record], Vec::new(), Holder::Service(service));
        }
    }
    let (mut own_names, mut records, mut first, mut seen) =
        (Vec::new(), Vec::new(), None, Seen::new());
    let endpoints = objects
        .endpoints_at(address)
        .filter(|_| !settings.no_endpoints);
    for (slice, position) in endpoints.filter(|(it, _)| exposed(&it.object.name.namespace)) {
        let endpoint = &slice.object.endpoints[position];
        let own = Ready { endpoint, address }.name(settings.endpoint_pod_names);
        let namespace = slice.object.name.namespace.as_bytes();
        let service = slice
            .object
            .service
            .as_deref()
            .unwrap_or_default()
            .as_bytes();
        if seen.is_new((own, service, namespace)) {
            let record = ptr(&[own.as_bytes(), service, namespace, b"svc"]);
            match endpoint.hostname {
                Some(_) => own_names.extend(record),
                None => records.extend(record),
            }
        }
        first.get_or_insert(Holder::Endpoint(&slice.object, endpoint));
    }
    own_names.append(&mut records);
    let records = own_names;
    match first {
        Some(holder) if !records.is_empty() => scope.records(records, Vec::new(), holder),
        _ => scope.name_error(Missing::OwnerOf(address)),
    }
}

/// The whole address that a name under `in-addr.arpa` or `ip6.arpa` spells, the family's own in both.
fn address(name: &Name) -> Option<IpAddr> {
    let mut labels = name.iter().rev();
    let top = labels.next()?;
    let family = labels.next()?;
    if !top.eq_ignore_ascii_case(b"arpa") {
        return None;
    }
    if family.eq_ignore_ascii_case(b"in-addr") && labels.len() == 4 {
        let mut octets = [0; 4];
        for (octet, label) in octets.iter_mut().zip(labels) {
            *octet = number(label)?;
        }
        return Some(Ipv4Addr::from(octets).into());
    }
    if family.eq_ignore_ascii_case(b"ip6") && labels.len() == 32 {
        let mut bits = 0;
        for label in labels {
            let [digit] = label else { return None };
            bits = bits << 4 | u128::from(char::from(*digit).to_digit(16)?);
        }
        return Some(IpAddr::from(Ipv6Addr::from(bits)).to_canonical());
    }
    None
}

/// A decimal number as in an address: without sign and leading zeros.
fn number(label: &[u8]) -> Option<u8> {
    let plain = label.iter().all(u8::is_ascii_digit) && (label.len() == 1 || label[0] != b'0');
    std::str::from_utf8(label)
        .ok()
        .filter(|_| plain)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_names() {
        let check = |name: &str, expected: Option<&str>| {
            let expected = expected.map(|it| it.parse().unwrap());
            assert_eq!(
                address(&Name::from_ascii(name).unwrap()),
                expected,
                "{name}"
            );
        };
        check("2.1.244.10.IN-addr.arpa.", Some("10.244.1.2"));
        check("1.244.10.in-addr.arpa.", None);
        check("x.2.1.244.10.in-addr.arpa.", None);
        check("02.1.244.10.in-addr.arpa.", None);
        check("256.1.244.10.in-addr.arpa.", None);
        check("2.1.244.10.in-addr.example.", None);
        check("arpa.", None);
        let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.D.f.ip6.arpa.";
        check(v6, Some("fd00:10::1"));
        check(&v6[2..], None);
        check(&v6.replacen('1', "g", 1), None);
        check(&v6.replacen('1', "11", 1), None);
    }
}
