//! `log`: one line for each query.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use sluice_corefile::{LogClass, LogField, LogPart, LogRule};

use crate::metrics::code_label;
use crate::request::Request;
use crate::wire::SMALLEST_PAYLOAD;

/// The rule for a response: the first that is for its name and class.
pub(crate) fn rule<'a>(
    rules: &'a [LogRule],
    name: &Name,
    response: &Message,
) -> Option<&'a LogRule> {
    let fits = |it: &&LogRule| it.zone.zone_of(name) && it.classes.contains(&class(response));
    rules.iter().find(fits)
}

/// The values of a log line.
pub(crate) struct Entry<'a> {
    pub(crate) request: &'a Request,
    pub(crate) response: &'a Message,
    /// Length of the response in bytes.
    pub(crate) size: usize,
    pub(crate) took: Duration,
}

impl Entry<'_> {
    /// Writes the line.
    pub(crate) fn log(&self, rule: &LogRule) {
        tracing::info!("{}", self.line(rule));
    }

    fn line(&self, rule: &LogRule) -> String {
        let mut line = String::new();
        for part in &rule.format {
            match part {
                LogPart::Literal(text) => line.push_str(text),
                LogPart::Field(field) => {
                    self.field(*field, &mut line).expect("strings grow");
                }
            }
        }
        line
    }

    fn field(&self, field: LogField, line: &mut String) -> fmt::Result {
        let query = &self.request.query;
        let question = &query.asked.query;
        let client = self.request.client;
        match field {
            LogField::Type => write!(line, "{}", question.query_type),
            LogField::Name => write!(line, "{}", question.name),
            LogField::Class => write!(line, "{}", question.query_class),
            LogField::Protocol => line.write_str(client.transport.as_str()),
            LogField::Remote => address(line, client.address),
            LogField::Local => address(line, client.local),
            LogField::QuerySize => write!(line, "{}", query.size),
            LogField::Port => write!(line, "{}", client.address.port()),
            LogField::Duration => write!(line, "{:.9}s", self.took.as_secs_f64()),
            LogField::ResponseCode => line.write_str(code_label(self.response.response_code)),
            LogField::ResponseSize => write!(line, "{}", self.size),
            LogField::ResponseFlags => line.write_str(&flags(self.response)),
            LogField::BufferSize => {
                let payload = query.edns.map_or(SMALLEST_PAYLOAD, |it| it.payload);
                write!(line, "{payload}")
            }
            LogField::DnssecOk => write!(line, "{}", query.asked.dnssec_ok),
            LogField::Id => write!(line, "{}", query.metadata.id),
            LogField::Opcode => write!(line, "{}", u8::from(query.metadata.op_code)),
        }
    }
}

fn address(line: &mut String, address: SocketAddr) -> fmt::Result {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => write!(line, "{ip}"),
        IpAddr::V6(ip) => write!(line, "[{ip}]"),
    }
}

/// As `qr,aa,rd`, in CoreDNS's order.
fn flags(response: &Message) -> String {
    let flags = [
        ("qr", true),
        ("aa", response.authoritative),
        ("tc", response.truncation),
        ("rd", response.recursion_desired),
        ("ra", response.recursion_available),
        ("ad", response.authentic_data),
        ("cd", response.checking_disabled),
    ];
    let set: Vec<_> = flags.iter().filter(|it| it.1).map(|it| it.0).collect();
    set.join(",")
}

/// The class of a response (CoreDNS's `plugin/pkg/response`).
fn class(response: &Message) -> LogClass {
    let authorities = &response.authorities;
    let has = |kind: RecordType| authorities.iter().any(|it| it.record_type() == kind);
    match response.response_code {
        ResponseCode::NoError if !response.answers.is_empty() => LogClass::Success,
        ResponseCode::NoError if has(RecordType::SOA) => LogClass::Denial,
        ResponseCode::NoError => LogClass::Success,
        ResponseCode::NXDomain => LogClass::Denial,
        _ => LogClass::Error,
    }
}

#[cfg(test)]
mod tests;
