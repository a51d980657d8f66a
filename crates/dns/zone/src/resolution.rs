//! What a resolver finds for a name, step by step, for people.

mod near;

use std::net::IpAddr;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde::{Deserialize, Serialize};
use sluice_model::{ClusterIps, ServiceKind};

use crate::{Answer, Holder, Objects, Origin, Outcome, Question, SearchPath, Settings, answer};

/// What a resolver asks for one name, and what it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The name as it was given.
    pub name: String,
    /// The pod (`namespace/name`) whose search path completes the name; `None`: it is asked for as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The addresses of that pod, when its Pod is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_addresses: Vec<IpAddr>,
    /// The types of the records, as in `AAAA` or `A,AAAA`.
    #[serde(rename = "type")]
    pub record_types: String,
    /// The names that were asked for, in order. The last one ended the search.
    pub steps: Vec<Step>,
    /// What may have been meant when nothing was found, in sentences without full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
}

/// One name that a resolver asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The full name.
    pub name: String,
    /// What comes back.
    pub result: StepResult,
    /// The records, as in a zone file.
    pub records: Vec<String>,
    /// Which object answers, or why none does.
    pub why: String,
    /// Where a client of the name goes: the addresses of its A and AAAA records, or of its SRV records' targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Destination>,
    /// The Service (`namespace/name`) whose ClusterIPs answer; `None` for everything else that has records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ip_of: Option<String>,
    /// What the name stands for, when the answer has a CNAME: the end of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
}

/// Where a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    pub address: IpAddr,
    /// The port, when an SRV record names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// What comes back for one name. Of several types of records the first of these that one of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    /// Records.
    Found,
    /// The objects are not complete (SERVFAIL).
    NotReady,
    /// The name is in no zone of the cluster: other servers decide, and nobody asked them.
    Elsewhere,
    /// The name exists, without records of this type (NODATA).
    NoData,
    /// The name does not exist (NXDOMAIN).
    NoName,
}

impl Resolution {
    /// Looks up a name: with a search path as a resolver completes it, without one as it is. Of several types all are
    /// asked in each step, as `getaddrinfo` does with A and AAAA, and records of one type end the search.
    #[must_use]
    pub fn of(
        objects: &Objects,
        settings: &Settings,
        path: Option<&SearchPath>,
        name: &Name,
        record_types: &[RecordType],
    ) -> Self {
        let mut absolute = name.clone();
        absolute.set_fqdn(true);
        let names = path.map_or_else(|| vec![absolute], |it| it.steps(name));
        let mut steps = Vec::new();
        let mut near = Vec::new();
        for name in &names {
            let (step, origin) = Step::of(objects, settings, name, record_types);
            let is_last = match step.result {
                StepResult::Found | StepResult::Elsewhere | StepResult::NotReady => true,
                StepResult::NoData | StepResult::NoName => false,
            };
            near.extend(near::near(objects, settings, name, &origin));
            steps.push(step);
            if is_last {
                break;
            }
        }
        let is_found = steps.iter().any(|it| it.result == StepResult::Found);
        let types: Vec<String> = record_types.iter().map(ToString::to_string).collect();
        Self {
            name: name.to_ascii(),
            pod: None,
            pod_addresses: Vec::new(),
            record_types: types.join(","),
            steps,
            near: if is_found { Vec::new() } else { near },
        }
    }

    /// Whether the search ended with records.
    pub fn is_found(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|it| it.result == StepResult::Found)
    }
}

impl Step {
    /// Also returns what the answer comes from.
    fn of<'a>(
        objects: &'a Objects,
        settings: &'a Settings,
        name: &'a Name,
        record_types: &[RecordType],
    ) -> (Self, Origin<'a>) {
        let answers = record_types.iter().map(|it| {
            let record_type = *it;
            answer(objects, settings, Question { name, record_type })
        });
        let answers: Vec<Answer<'a>> = answers.collect();
        let first = answers.iter().min_by_key(|it| result(&it.outcome));
        let (result, origin) = first.map_or((StepResult::NoName, Origin::NotOurs), |it| {
            (result(&it.outcome), it.origin)
        });
        let mut step = Self {
            name: name.to_ascii(),
            result,
            records: Vec::new(),
            why: origin.to_string(),
            destinations: Vec::new(),
            cluster_ip_of: cluster_ip_of(&origin),
            alias_of: None,
        };
        for it in &answers {
            step.add(&it.outcome);
        }
        (step, origin)
    }

    /// Adds the records of one type. Those of two types begin with the same aliases.
    fn add(&mut self, outcome: &Outcome) {
        let (answers, additionals) = match outcome {
            Outcome::Records {
                answers,
                additionals,
            } => (answers, &additionals[..]),
            Outcome::Alias { answers, .. } => (answers, &[][..]),
            _ => return,
        };
        for line in lines(answers) {
            if !self.records.contains(&line) {
                self.records.push(line);
            }
        }
        for it in answers {
            match &it.data {
                RData::CNAME(it) => self.alias_of = Some(it.0.to_ascii()),
                RData::SRV(it) => {
                    let targets = additionals.iter().filter(|own| own.name == it.target);
                    let port = Some(it.port);
                    let targets = targets.filter_map(|it| it.data.ip_addr());
                    self.destinations
                        .extend(targets.map(|address| Destination { address, port }));
                }
                data => self.destinations.extend(data.ip_addr().map(|address| {
                    let port = None;
                    Destination { address, port }
                })),
            }
        }
    }
}

fn result(outcome: &Outcome) -> StepResult {
    match outcome {
        Outcome::Records { .. } | Outcome::Alias { .. } => StepResult::Found,
        Outcome::NoData { .. } => StepResult::NoData,
        Outcome::NameError { .. } => StepResult::NoName,
        Outcome::NotOurs => StepResult::Elsewhere,
        Outcome::NotReady { .. } => StepResult::NotReady,
    }
}

fn cluster_ip_of(origin: &Origin<'_>) -> Option<String> {
    let Origin::From(Holder::Service(service)) = origin else {
        return None;
    };
    let has_own = matches!(service.cluster_ips, ClusterIps::Assigned(_));
    let is_alias = service.kind == ServiceKind::ExternalName;
    (has_own && !is_alias).then(|| service.name.to_string())
}

/// Without names and classes, which the step says: `30 A 10.96.0.10`. A record of another name, as behind a
/// CNAME, begins with it.
fn lines(records: &[Record]) -> Vec<String> {
    let first = records.first().map(|it| &it.name);
    let line = |it: &Record| {
        let data = match &it.data {
            RData::TXT(text) => format!("\"{text}\""),
            data => data.to_string(),
        };
        let line = format!("{} {} {data}", it.ttl, it.record_type());
        if first == Some(&it.name) {
            line
        } else {
            format!("{} {line}", it.name.to_ascii())
        }
    };
    records.iter().map(line).collect()
}
