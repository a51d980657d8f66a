//! `acl`: which clients may ask what.

use std::net::IpAddr;

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{Name, RecordType};
use sluice_corefile::{AclAction, AclRule};

use crate::metrics::Plugin;
use crate::request::Reply;

/// Option code of an extended DNS error (RFC 8914, section 2).
const EXTENDED_ERROR: u16 = 15;
/// Its codes (RFC 8914, section 4).
const BLOCKED: u16 = 15;
const FILTERED: u16 = 17;

/// The action of the first rule that matches, with its zone that contains the name. `None` without a match.
pub(crate) fn decide<'a>(
    rules: &'a [AclRule],
    query: &Query,
    client: IpAddr,
) -> Option<(AclAction, &'a Name)> {
    let client = client.to_canonical();
    rules.iter().find_map(|rule| {
        let AclRule {
            types, networks, ..
        } = rule;
        let around = rule.zones.iter().filter(|it| it.zone_of(&query.name));
        let zone = around.max_by_key(|it| it.iter().len())?;
        let fits = (types.is_empty()
            || types.contains(&RecordType::ANY)
            || types.contains(&query.query_type))
            && (networks.is_empty() || networks.iter().any(|it| it.contains(&client)));
        fits.then_some((rule.action, zone))
    })
}

/// REFUSED, with the reason.
pub(crate) fn blocked() -> Reply {
    with_error(ResponseCode::Refused, BLOCKED)
}

/// NOERROR without records, and why.
pub(crate) fn filtered() -> Reply {
    with_error(ResponseCode::NoError, FILTERED)
}

fn with_error(code: ResponseCode, error: u16) -> Reply {
    let mut reply = Reply::empty(code, Plugin::Acl);
    reply.options.push(extended_error(error, ""));
    reply
}

/// An extended DNS error: why the answer is what it is.
pub(crate) fn extended_error(code: u16, text: &str) -> EdnsOption {
    let data = [&code.to_be_bytes()[..], text.as_bytes()].concat();
    EdnsOption::Unknown(EXTENDED_ERROR, data)
}
