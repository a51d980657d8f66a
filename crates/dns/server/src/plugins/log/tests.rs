use std::time::Instant;

use hickory_proto::op::{OpCode, Query};
use sluice_upstream::Transport;

use super::*;
use crate::request::Client;
use crate::wire::{self, Received};

fn request() -> Request {
    let mut message = Message::new(29008, hickory_proto::op::MessageType::Query, OpCode::Query);
    message.add_query(Query::query(
        Name::from_ascii("Example.org.").unwrap(),
        RecordType::A,
    ));
    let Received::Query(query) = wire::read(&message.to_vec().unwrap()) else {
        panic!("a query");
    };
    Request {
        query,
        client: Client {
            address: "[::1]:50759".parse().unwrap(),
            local: "127.0.0.1:53".parse().unwrap(),
            transport: Transport::Udp,
        },
        received: Instant::now(),
        turn: 0,
    }
}

/// The common log format of CoreDNS's documentation.
fn common() -> Vec<LogPart> {
    use LogField::*;
    let fields: [(Option<LogField>, &str); 12] = [
        (Some(Remote), ":"),
        (Some(Port), " - "),
        (Some(Id), " \""),
        (Some(Type), " "),
        (Some(Class), " "),
        (Some(Name), " "),
        (Some(Protocol), " "),
        (Some(QuerySize), " "),
        (Some(DnssecOk), " "),
        (Some(BufferSize), "\" "),
        (Some(ResponseCode), " "),
        (Some(ResponseFlags), " "),
    ];
    let part = |(field, text): (Option<LogField>, &str)| {
        let field = field.map(LogPart::Field);
        field.into_iter().chain([LogPart::Literal(text.into())])
    };
    let mut parts: Vec<_> = fields.into_iter().flat_map(part).collect();
    parts.extend([
        LogPart::Field(ResponseSize),
        LogPart::Literal(" ".into()),
        LogPart::Field(Duration),
    ]);
    parts
}

#[test]
fn the_common_format_is_coredns() {
    let mut response = Message::response(29008, OpCode::Query);
    response.metadata.recursion_desired = true;
    response.metadata.authoritative = true;
    let request = request();
    let entry = Entry {
        request: &request,
        response: &response,
        size: 68,
        took: Duration::from_nanos(37_990_251),
    };
    let rule = LogRule {
        zone: Name::root(),
        format: common(),
        classes: LogClass::ALL.to_vec(),
    };
    assert_eq!(
        entry.line(&rule),
        "[::1]:50759 - 29008 \"A IN Example.org. udp 29 false 512\" NOERROR qr,aa,rd 68 0.037990251s"
    );
}
