//! `template`: answers made from the question.

use std::net::IpAddr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};
use hickory_proto::serialize::txt::Parser;
use regex::Captures;
use sluice_corefile::{Template, Text, TextValue};
use sluice_upstream::Question as Asked;

use crate::metrics::Plugin;
use crate::plugins::access::extended_error;
use crate::request::Reply;

/// TTL of records that name none, in seconds: that of CoreDNS's library.
const DEFAULT_TTL: u32 = 3600;

/// Why a template that is for a question has no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is for the zone, and its patterns are not for the name.
    Unmatched,
    /// A record cannot be read.
    Record {
        section: &'static str,
        error: String,
    },
}

/// The first template that is for the question answers: its index and its reply. `None`: the next plugin is
/// asked.
pub(crate) fn answer(
    templates: &[Template],
    asked: &Asked,
    client: IpAddr,
) -> Option<(usize, Result<Reply, Fault>)> {
    if templates.is_empty() {
        return None;
    }
    let name = asked.query.name.to_lowercase();
    let text = name.to_ascii();
    for (number, template) in templates.iter().enumerate() {
        let Some(zone) = zone(template, asked, &name) else {
            continue;
        };
        let groups = template.matches.iter().find_map(|it| it.captures(&text));
        let Some(groups) = groups else {
            if template.fallthrough.includes(&name) {
                continue;
            }
            return Some((number, Err(Fault::Unmatched)));
        };
        let values = Values {
            name: &text,
            zone: &zone.to_ascii(),
            record_type: &asked.query.query_type.to_string(),
            class: &asked.query.query_class.to_string(),
            remote: &client.to_canonical().to_string(),
            groups: &groups,
        };
        return Some((number, values.reply(template)));
    }
    None
}

/// The template's zone around the name, if class and type fit too.
fn zone<'a>(template: &'a Template, asked: &Asked, name: &Name) -> Option<&'a Name> {
    let query = &asked.query;
    let class = [DNSClass::ANY, query.query_class].contains(&template.class);
    let kind = query.query_type == RecordType::ANY
        || [RecordType::ANY, query.query_type].contains(&template.record_type);
    let around = template.zones.iter().filter(|it| it.zone_of(name));
    around
        .max_by_key(|it| it.iter().len())
        .filter(|_| class && kind)
}

/// The values that texts may contain.
struct Values<'a> {
    name: &'a str,
    zone: &'a str,
    record_type: &'a str,
    class: &'a str,
    remote: &'a str,
    groups: &'a Captures<'a>,
}

impl<'a> Values<'a> {
    fn reply(&self, template: &Template) -> Result<Reply, Fault> {
        let section = |section, texts: &[Text]| {
            let mut records = Vec::new();
            for text in texts {
                let fault = |error| Fault::Record { section, error };
                records.extend(self.records(text).map_err(fault)?);
            }
            Ok(records)
        };
        let mut reply =
            Reply::authoritative(section("answer", &template.answer)?, Plugin::Template);
        reply.message.authorities = section("authority", &template.authority)?;
        reply.message.additionals = section("additional", &template.additional)?;
        reply.message.metadata.response_code = template.rcode;
        reply.message.metadata.authoritative = template.rcode != ResponseCode::ServFail;
        let error = template.ederror.iter();
        reply.options = error
            .map(|(code, text)| extended_error(*code, text))
            .collect();
        Ok(reply)
    }

    /// The records of one text, which is one line of a zone file. Empty: none.
    fn records(&self, text: &Text) -> Result<Vec<Record>, String> {
        let line = text.render(|it| self.value(it))?;
        if line.trim().is_empty() {
            return Ok(Vec::new());
        }
        let zone = format!("$TTL {DEFAULT_TTL}\n{line}\n");
        let parsed = Parser::new(zone, None, Some(Name::root())).parse();
        let (_, sets) = parsed.map_err(|error| format!("record {line:?}: {error}"))?;
        let records = sets.into_values().flat_map(|it| {
            let records: Vec<Record> = it.records_without_rrsigs().cloned().collect();
            records
        });
        Ok(records.collect())
    }

    fn value(&self, value: &TextValue) -> &'a str {
        let group = |it: Option<regex::Match<'a>>| it.map_or("", |it| it.as_str());
        match value {
            TextValue::Name => self.name,
            TextValue::Type => self.record_type,
            TextValue::Class => self.class,
            TextValue::Zone => self.zone,
            TextValue::Remote => self.remote,
            TextValue::Match(number) => group(self.groups.get(*number)),
            TextValue::Group(name) => group(self.groups.name(name)),
        }
    }
}
