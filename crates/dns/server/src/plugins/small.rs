//! Plugins of a few lines: `any`, `chaos`, `nsid`, `minimal`, `whoami`.

use std::net::IpAddr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, HINFO, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use sluice_corefile::Chaos;
use sluice_upstream::Question as Asked;

use crate::metrics::Plugin;
use crate::request::{Client, Reply};

/// TTL of the answer to ANY, in seconds, as in CoreDNS.
const ANY_TTL: u32 = 8482;

/// `any`: one HINFO record (RFC 8482, section 4.2).
pub(crate) fn any(asked: &Asked) -> Option<Reply> {
    let query = &asked.query;
    (query.query_type == RecordType::ANY).then(|| {
        let data = HINFO::new("ANY obsoleted".into(), "See RFC 8482".into());
        let record = Record::from_rdata(query.name.clone(), ANY_TTL, RData::HINFO(data));
        Reply::authoritative(vec![record], Plugin::Any)
    })
}

/// `chaos`: TXT queries of class CH about the server.
pub(crate) fn chaos(chaos: &Chaos, asked: &Asked, version: &str, host: &str) -> Option<Reply> {
    let query = &asked.query;
    if query.query_class != DNSClass::CH || query.query_type != RecordType::TXT {
        return None;
    }
    let texts: Vec<&str> = match &*query.name.to_lowercase().to_ascii() {
        "version.bind." | "version.server." => {
            vec![chaos.version.as_deref().unwrap_or(version)]
        }
        "authors.bind." => chaos.authors.iter().map(|it| &**it).collect(),
        "hostname.bind." | "id.server." => vec![host],
        _ => return None,
    };
    let record = |text: &str| {
        let data = RData::TXT(TXT::new(vec![text.to_owned()]));
        let mut record = Record::from_rdata(query.name.clone(), 0, data);
        record.dns_class = DNSClass::CH;
        record
    };
    let records = texts.into_iter().map(record).collect();
    Some(Reply::authoritative(records, Plugin::Chaos))
}

/// `minimal`: positive answers lose what the client did not ask for.
pub(crate) fn minimal(message: &mut Message) {
    if message.response_code == ResponseCode::NoError && !message.answers.is_empty() {
        message.authorities.clear();
        message.additionals.clear();
    }
}

/// `whoami`: the client's address and port, in the additional section.
pub(crate) fn whoami(asked: &Asked, client: Client) -> Reply {
    let name = &asked.query.name;
    let address = match client.address.ip().to_canonical() {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    };
    let protocol = format!("_{}", client.transport.as_str());
    let mut reply = Reply::authoritative(Vec::new(), Plugin::Whoami);
    let additionals = &mut reply.message.additionals;
    additionals.push(Record::from_rdata(name.clone(), 0, address));
    // A name of 255 bytes has no room for the label.
    if let Ok(service) = name.prepend_label(protocol) {
        let data = SRV::new(0, 0, client.address.port(), Name::root());
        additionals.push(Record::from_rdata(service, 0, RData::SRV(data)));
    }
    reply
}
