//! Aliases of a server block: names that stand for others, whose records belong to the answer.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use sluice_upstream::Question as Asked;

use super::Engine;
use super::block::{Block, Way};
use crate::metrics::Plugin;
use crate::plugins::template::{self, Fault};
use crate::request::{Reply, renamed};

/// Aliases that are followed one after the other, as in CoreDNS.
const MOST_ALIASES: u8 = 8;

impl Block {
    /// The records of an alias's target.
    pub(super) async fn target(
        &self,
        engine: &Engine,
        asked: &Asked,
        target: Name,
        way: Way,
    ) -> Reply {
        if way.aliases >= MOST_ALIASES {
            let error = format!("more than {MOST_ALIASES} aliases");
            return Reply::failure(error, Plugin::Kubernetes);
        }
        let way = Way {
            aliases: way.aliases + 1,
            is_step: true,
            ..way
        };
        engine.follow(&renamed(asked, target), way).await
    }

    /// `template`, and the target of its answer.
    pub(super) async fn templated(
        &self,
        engine: &Engine,
        asked: &Asked,
        way: Way,
    ) -> Option<Reply> {
        let client = way.client.address.ip();
        let metrics = &engine.common.metrics;
        let (server, zone) = (&*self.label.0, &*self.label.1);
        let (number, answered) = template::answer(&self.plugins.template, asked, client)?;
        let template = &self.plugins.template[number];
        let (class, kind) = (
            &*template.class.to_string(),
            &*template.record_type.to_string(),
        );
        Some(match answered {
            Ok(reply) => {
                let labels = [server, zone, "", class, kind];
                metrics.template_matches.with_label_values(&labels).inc();
                self.followed(engine, asked, reply, way).await
            }
            Err(Fault::Unmatched) => {
                Reply::failure("no pattern of the template matches", Plugin::Template)
            }
            Err(Fault::Record { section, error }) => {
                let labels = [server, zone, "", class, kind, section, &number.to_string()];
                metrics.template_failures.with_label_values(&labels).inc();
                Reply::failure(error, Plugin::Template)
            }
        })
    }

    /// Adds what is known of the target when a template answers with a CNAME.
    async fn followed(&self, engine: &Engine, asked: &Asked, mut reply: Reply, way: Way) -> Reply {
        let kind = asked.query.query_type;
        if [RecordType::CNAME, RecordType::ANY].contains(&kind) {
            return reply;
        }
        let target = match reply.message.answers.last().map(|it| &it.data) {
            Some(RData::CNAME(it)) => it.0.clone(),
            _ => return reply,
        };
        let target = self.target(engine, asked, target, way).await;
        reply.message.answers.extend(target.message.answers);
        reply
    }
}

/// An alias with the records of its target: the alias alone where the target has none, does not exist, or no
/// plugin is there to be asked.
pub(super) fn joined(mut alias: Reply, target: Reply) -> Reply {
    match target.message.response_code {
        _ if target.plugin == Plugin::None => return alias,
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        // CoreDNS sends the alias alone here, too (`plugin/backend_lookup.go`). A client takes that for a name
        // without addresses and gives up, though another try or server might have an answer.
        _ => {
            return Reply {
                error: target.error,
                ..Reply::empty(ResponseCode::ServFail, target.plugin)
            };
        }
    }
    alias.message.metadata.truncation |= target.message.truncation;
    alias.message.answers.extend(target.message.answers);
    alias.revision = alias.revision.filter(|it| target.revision == Some(*it));
    alias
}
