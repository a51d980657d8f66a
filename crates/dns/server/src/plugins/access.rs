//! `acl`: which clients may ask what.

use std::net::IpAddr;

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::RecordType;
use hickory_proto::rr::rdata::opt::EdnsOption;
use sluice_corefile::{AclAction, AclRule};

use crate::metrics::Plugin;
use crate::request::Reply;

/// Option code of an extended DNS error (RFC 8914, section 2).
const EXTENDED_ERROR: u16 = 15;
/// Its codes (RFC 8914, section 4).
const BLOCKED: u16 = 15;
const FILTERED: u16 = 17;

/// What the rules say of a query.
#[derive(Debug)]
pub(crate) enum Access {
    /// The next plugin is asked.
    Allowed,
    /// This is the answer.
    Answered(Box<Reply>),
    /// There is no answer.
    Dropped,
}

/// The first rule that fits decides.
pub(crate) fn decide(rules: &[AclRule], query: &Query, client: IpAddr) -> Access {
    let client = client.to_canonical();
    let fits = |rule: &&AclRule| {
        let types = &rule.types;
        let networks = &rule.networks;
        rule.zones.iter().any(|it| it.zone_of(&query.name))
            && (types.is_empty()
                || types.contains(&RecordType::ANY)
                || types.contains(&query.query_type))
            && (networks.is_empty() || networks.iter().any(|it| it.contains(&client)))
    };
    let answered = |code, error: u16| {
        let mut reply = Reply::empty(code, Plugin::Acl);
        reply.options.push(extended_error(error, ""));
        Access::Answered(Box::new(reply))
    };
    match rules.iter().find(fits).map(|it| it.action) {
        None | Some(AclAction::Allow) => Access::Allowed,
        Some(AclAction::Block) => answered(ResponseCode::Refused, BLOCKED),
        Some(AclAction::Filter) => answered(ResponseCode::NoError, FILTERED),
        Some(AclAction::Drop) => Access::Dropped,
    }
}

/// An extended DNS error: why the answer is what it is.
pub(crate) fn extended_error(code: u16, text: &str) -> EdnsOption {
    let data = [&code.to_be_bytes()[..], text.as_bytes()].concat();
    EdnsOption::Unknown(EXTENDED_ERROR, data)
}
