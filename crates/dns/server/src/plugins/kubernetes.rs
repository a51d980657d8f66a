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

/// The answer to a question.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing: the next plugin is asked.
    Passed,
    Answered(Box<Reply>),
    /// An alias: `reply` has the CNAME, the records of `target` are to be appended.
    Alias {
        reply: Box<Reply>,
        target: Name,
    },
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

    /// Answers from the objects as they are now. `pods` are those that the engine's revision counts.
    pub(crate) fn answer(
        &self,
        objects: &RwLock<Objects>,
        pods: PodRecords,
        asked: &Asked,
    ) -> Known {
        if self.settings.zones.around(&asked.query.name).is_none() {
            return Known::Passed;
        }
        let objects = objects.read().unwrap_or_else(PoisonError::into_inner);
        let question = Question {
            name: &asked.query.name,
            record_type: asked.query.query_type,
        };
        let revision = objects.revision(pods);
        match answer(&objects, &self.settings, question).outcome {
            Outcome::NotOurs => Known::Passed,
            Outcome::NotReady { soa } => {
                let mut reply = negative(ResponseCode::ServFail, *soa);
                reply.error = Some("the objects of the cluster are not complete yet".into());
                Known::Answered(reply)
            }
            Outcome::Records {
                answers,
                additionals,
            } => {
                let mut reply = lasting(positive(answers), revision);
                reply.message.additionals = additionals;
                Known::Answered(reply)
            }
            Outcome::Alias { answers, target } => Known::Alias {
                reply: lasting(positive(answers), revision),
                target,
            },
            Outcome::NoData { soa } => {
                Known::Answered(lasting(negative(ResponseCode::NoError, *soa), revision))
            }
            Outcome::NameError { .. } if self.fallthrough.includes(&asked.query.name) => {
                Known::Passed
            }
            Outcome::NameError { soa } => {
                Known::Answered(lasting(negative(ResponseCode::NXDomain, *soa), revision))
            }
        }
    }
}

fn negative(code: ResponseCode, soa: Record) -> Box<Reply> {
    let mut reply = Box::new(Reply::empty(code, Plugin::Kubernetes));
    reply.message.metadata.authoritative = true;
    reply.message.authorities = vec![soa];
    reply
}

fn lasting(mut reply: Box<Reply>, revision: u64) -> Box<Reply> {
    reply.revision = Some(revision);
    reply
}

fn positive(answers: Vec<Record>) -> Box<Reply> {
    Box::new(Reply::authoritative(answers, Plugin::Kubernetes))
}
