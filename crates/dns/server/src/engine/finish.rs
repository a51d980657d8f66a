//! Replies of plugins as responses.

use std::time::Instant;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::RecordType;
use hickory_proto::rr::rdata::opt::{EdnsOption, NSIDPayload};
use sluice_upstream::Transport;

use super::{Engine, Response, Reusable, Site, Version};
use crate::metrics::{Family, Plugin, Sample};
use crate::plugins::{loadbalance, log};
use crate::request::{Client, Reply, Request};
use crate::wire::{Limit, encode};

/// Our UDP payload where `bufsize` says nothing: what passes every path unfragmented (DNS flag day 2020).
const PAYLOAD: u16 = 1232;

impl Engine {
    /// Writes a reply, logs and describes it. `site` is that of the query, `version` what the reply was
    /// made from, but for the objects.
    pub(super) fn finish(
        &self,
        site: Option<&Site>,
        request: &Request,
        reply: Reply,
        version: Version,
    ) -> Response {
        let payload = site
            .and_then(|it| it.block.plugins.bufsize)
            .unwrap_or(PAYLOAD);
        let query = &request.query;
        let Reply {
            mut message,
            plugin,
            revision,
            error,
            options,
        } = reply;
        let metadata = &mut message.metadata;
        metadata.id = query.metadata.id;
        metadata.op_code = OpCode::Query;
        metadata.message_type = MessageType::Response;
        metadata.recursion_desired = query.metadata.recursion_desired;
        metadata.checking_disabled = query.metadata.checking_disabled;
        metadata.authentic_data &= query.asked.understands_authentic_data();
        message.queries = vec![query.asked.query.clone()];
        message.edns = query.edns.map(|_| {
            let mut edns = Edns::new();
            edns.set_max_payload(payload)
                .set_dnssec_ok(query.asked.dnssec_ok);
            options
                .into_iter()
                .for_each(|it| edns.options_mut().insert(it));
            let nsid = site.and_then(|it| it.block.nsid(&self.common.host));
            if let Some(nsid) = nsid.filter(|_| query.edns.is_some_and(|it| it.asks_nsid)) {
                edns.options_mut().insert(nsid);
            }
            edns
        });
        let limit = limit(request.client, query.edns.map(|it| it.payload), payload);
        let bytes = written(&message, limit);
        let sample = Sample {
            tally: site.map_or(&self.dropped, |it| &it.tally).clone(),
            transport: request.client.transport,
            family: Family::of(request.client.address.ip()),
            record_type: query.asked.query.query_type,
            dnssec_ok: query.asked.dnssec_ok,
            query_size: query.size,
            response_size: bytes.len(),
            code: message.response_code,
            plugin,
        };
        let is_logged = site.is_some_and(|it| it.tell(request, &message, bytes.len(), error));
        let has_options = query.edns.is_some_and(|it| it.has_options);
        let reusable = revision
            .filter(|_| !is_logged && !has_options)
            .map(|objects| Reusable {
                version: Version { objects, ..version },
                variants: if site.is_some_and(|it| it.block.plugins.loadbalance.is_some()) {
                    Reusable::variants(loadbalance::addresses(&message))
                } else {
                    1
                },
            });
        Response {
            bytes,
            sample,
            reusable,
        }
    }

    /// The response to a query that no block sees. `None`: it cannot be written.
    pub(super) fn refusal(
        &self,
        message: &Message,
        client: Client,
        size: usize,
    ) -> Option<Response> {
        let bytes = encode(message, limit(client, None, PAYLOAD)).ok()?;
        let question = message.queries.first();
        Some(Response {
            sample: Sample {
                tally: self.dropped.clone(),
                transport: client.transport,
                family: Family::of(client.address.ip()),
                record_type: question.map_or(RecordType::ZERO, |it| it.query_type),
                dnssec_ok: false,
                query_size: size,
                response_size: bytes.len(),
                code: message.response_code,
                plugin: Plugin::None,
            },
            bytes,
            reusable: None,
        })
    }

    /// SERVFAIL, after a fault of ours.
    pub(super) fn failure(
        &self,
        (metadata, query): (Metadata, Query),
        client: Client,
    ) -> Option<Response> {
        let mut message = Message::response(metadata.id, OpCode::Query);
        message.metadata = Metadata::response_from_request(&metadata);
        message.metadata.response_code = ResponseCode::ServFail;
        message.add_query(query);
        self.refusal(&message, client, 0)
    }
}

impl Site {
    /// Logs query and error. Returns whether the query is logged.
    fn tell(
        &self,
        request: &Request,
        response: &Message,
        size: usize,
        error: Option<String>,
    ) -> bool {
        let query = &request.query.asked.query;
        if let (Some(error), Some(errors)) = (error, &self.block.errors) {
            errors.log(query, response.response_code, &error);
        }
        let rule = log::rule(&self.block.plugins.log, &query.name, response);
        if let Some(rule) = rule {
            let entry = log::Entry {
                request,
                response,
                size,
                took: Instant::now().saturating_duration_since(request.received),
            };
            entry.log(rule);
        }
        rule.is_some()
    }
}

fn limit(client: Client, announced: Option<u16>, ours: u16) -> Limit {
    match client.transport {
        Transport::Udp => Limit::udp(announced, ours),
        Transport::Tcp => Limit::TCP,
    }
}

/// The bytes of a response. One with a record that cannot be written becomes SERVFAIL.
fn written(message: &Message, limit: Limit) -> Vec<u8> {
    encode(message, limit).unwrap_or_else(|_| {
        let mut failure = Message::response(message.id, OpCode::Query);
        failure.metadata.recursion_desired = message.recursion_desired;
        failure.metadata.checking_disabled = message.checking_disabled;
        failure.metadata.response_code = ResponseCode::ServFail;
        failure.queries.clone_from(&message.queries);
        encode(&failure, limit).expect("the question was read from a query of ours")
    })
}

/// The server's identity (RFC 5001).
pub(super) fn nsid(text: &str) -> Option<EdnsOption> {
    let payload = NSIDPayload::new(text.as_bytes().to_vec()).ok()?;
    Some(EdnsOption::NSID(payload))
}
