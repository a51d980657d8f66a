//! What a resolver finds for a name, step by step, for people.

use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde::{Deserialize, Serialize};

use crate::{Objects, Outcome, Question, SearchPath, Settings, answer};

/// What a resolver asks for one name, and what it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The name as it was given.
    pub name: String,
    /// The type of the records, as in `AAAA`.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The names that were asked for, in order. The last one ended the search.
    pub steps: Vec<Step>,
}

/// One name that a resolver asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The full name.
    pub name: String,
    /// What comes back.
    pub result: StepResult,
    /// The records, as in a zone file.
    pub records: Vec<String>,
    /// Which object answers, or why none does.
    pub why: String,
}

/// What comes back for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    /// Records.
    Found,
    /// The name exists, without records of this type (NODATA).
    NoData,
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The name is in no zone of the cluster: other servers decide, and nobody asked them.
    Elsewhere,
    /// The objects are not complete (SERVFAIL).
    NotReady,
}

impl Resolution {
    /// Looks up a name: with a search path as a resolver completes it, without one as it is.
    #[must_use]
    pub fn of(
        objects: &Objects,
        settings: &Settings,
        path: Option<&SearchPath>,
        name: &Name,
        record_type: RecordType,
    ) -> Self {
        let mut absolute = name.clone();
        absolute.set_fqdn(true);
        let names = path.map_or_else(|| vec![absolute], |it| it.steps(name));
        let mut steps = Vec::new();
        for name in &names {
            let step = Step::of(objects, settings, name, record_type);
            let is_last = match step.result {
                StepResult::Found | StepResult::Elsewhere | StepResult::NotReady => true,
                StepResult::NoData | StepResult::NoName => false,
            };
            steps.push(step);
            if is_last {
                break;
            }
        }
        Self {
            name: name.to_ascii(),
            record_type: record_type.to_string(),
            steps,
        }
    }

    /// Whether the search ended with records.
    pub fn is_found(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|it| it.result == StepResult::Found)
    }
}

impl Step {
    fn of(objects: &Objects, settings: &Settings, name: &Name, record_type: RecordType) -> Self {
        let question = Question { name, record_type };
        let found = answer(objects, settings, question);
        let (result, records) = match &found.outcome {
            Outcome::Records { answers, .. } => (StepResult::Found, lines(answers)),
            Outcome::Alias { answers, .. } => (StepResult::Found, lines(answers)),
            Outcome::NoData { .. } => (StepResult::NoData, Vec::new()),
            Outcome::NameError { .. } => (StepResult::NoName, Vec::new()),
            Outcome::NotOurs => (StepResult::Elsewhere, Vec::new()),
            Outcome::NotReady { .. } => (StepResult::NotReady, Vec::new()),
        };
        Self {
            name: name.to_ascii(),
            result,
            records,
            why: found.origin.to_string(),
        }
    }
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
        match first == Some(&it.name) {
            true => line,
            false => format!("{} {line}", it.name.to_ascii()),
        }
    };
    records.iter().map(line).collect()
}
