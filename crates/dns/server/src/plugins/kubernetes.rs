//! `kubernetes`: what the cluster's objects answer.

use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record};
use sluice_corefile::{Fallthrough, Kubernetes as Config, Pods};
use sluice_upstream::Question as Asked;
use sluice_zone::{NoForwardZone, Objects, Outcome, PodRecords, Question, Settings, Zones, answer};

use crate::metrics::Plugin;
use crate::request::Reply;

/// One `kubernetes` of a server block.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    settings: Settings,
    fallthrough: Fallthrough,
}

impl Kubernetes {
    /// `listens` are the addresses of the server, for NS records.
    pub(crate) fn new(config: &Config, listens: Vec<IpAddr>) -> Result<Self, NoForwardZone> {
        let settings = Settings {
            ttl: config.ttl,
            pods: match config.pods {
                Pods::Disabled => PodRecords::Disabled,
                Pods::Insecure => PodRecords::Insecure,
                Pods::Verified => PodRecords::Verified,
            },
            endpoint_pod_names: config.endpoint_pod_names,
            ignore_empty_service: config.ignore_empty_service,
            no_endpoints: !config.endpoints,
            namespaces: config
                .namespaces
                .iter()
                .map(|it| it.as_str().into())
                .collect(),
            listens,
            ..Settings::new(Zones::new(config.zones.iter().cloned())?)
        };
        Ok(Self {
            settings,
            fallthrough: config.fallthrough.clone(),
        })
    }

    /// Answers from the objects as they are now. `pods` are those that the engine's revision counts. With a
    /// name, the reply is an alias: the records of the name are to be appended. `None`: the next plugin is asked.
    pub(crate) fn answer(
        &self,
        objects: &RwLock<Objects>,
        pods: PodRecords,
        asked: &Asked,
    ) -> Option<(Reply, Option<Name>)> {
        self.settings.zones.around(&asked.query.name)?;
        let objects = objects.read().unwrap_or_else(PoisonError::into_inner);
        let question = Question {
            name: &asked.query.name,
            record_type: asked.query.query_type,
        };
        let revision = objects.revision(pods);
        let mut alias = None;
        let mut reply = match answer(&objects, &self.settings, question).outcome {
            Outcome::NotOurs => return None,
            Outcome::NotReady { soa } => {
                let mut reply = negative(ResponseCode::ServFail, *soa);
                reply.error = Some("the objects of the cluster are not complete yet".into());
                return Some((reply, None));
            }
            Outcome::Records {
                answers,
                additionals,
            } => {
                let mut reply = Reply::authoritative(answers, Plugin::Kubernetes);
                reply.message.additionals = additionals;
                reply
            }
            Outcome::Alias { answers, target } => {
                alias = Some(target);
                Reply::authoritative(answers, Plugin::Kubernetes)
            }
            Outcome::NoData { soa } => negative(ResponseCode::NoError, *soa),
            Outcome::NameError { .. } if self.fallthrough.includes(&asked.query.name) => {
                return None;
            }
            Outcome::NameError { soa } => negative(ResponseCode::NXDomain, *soa),
        };
        reply.revision = Some(revision);
        Some((reply, alias))
    }
}

fn negative(code: ResponseCode, soa: Record) -> Reply {
    let mut reply = Reply::authoritative(Vec::new(), Plugin::Kubernetes);
    reply.message.metadata.response_code = code;
    reply.message.authorities = vec![soa];
    reply
}
