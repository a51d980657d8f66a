//! What network policies say about a packet.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use sluice_plan::explain::{Decision, Explanation};
use sluice_policy_agent::PolicyAnswer;

use crate::view::View;

/// Most endpoints of a Service that are asked about.
const ASKED: usize = 16;

/// The same answer for some destinations of a packet.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    /// The packet's own, or endpoints that it may be sent to.
    destinations: Vec<SocketAddr>,
    #[serde(flatten)]
    answer: PolicyAnswer,
}

/// The answers about the destinations of a packet. None where the agent enforces no policies, and about what the node itself
/// sends, which no policy is about.
pub(super) fn of(view: &View, from: &str, explanation: &Explanation) -> Vec<Judged> {
    if from == "node" {
        return Vec::new();
    }
    let destinations: Vec<SocketAddr> = match (explanation.verdict, &explanation.service) {
        (Decision::Balance, Some(hit)) => {
            let members = hit.endpoints.iter().filter(|it| it.included);
            members.map(|it| it.address).take(ASKED).collect()
        }
        (Decision::NotService, _) => vec![explanation.destination],
        _ => Vec::new(),
    };
    let mut judged: Vec<Judged> = Vec::new();
    for to in destinations {
        let Some(answer) = view.policy(explanation.source, to, &explanation.protocol) else {
            break;
        };
        match judged.iter_mut().find(|it| it.answer == answer) {
            Some(same) => same.destinations.push(to),
            None => judged.push(Judged {
                destinations: vec![to],
                answer,
            }),
        }
    }
    judged
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyAnswer {
            allowed,
            egress,
            ingress,
        } = &self.answer;
        let verb = if *allowed { "allow" } else { "drop" };
        let to: Vec<String> = self.destinations.iter().map(ToString::to_string).collect();
        writeln!(f, "  policies  {verb} to {}", to.join(", "))?;
        writeln!(f, "    egress  {egress}")?;
        writeln!(f, "    ingress {ingress}")
    }
}
