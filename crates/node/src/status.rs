//! The answer of `GET /status` on the agent's socket: the fields of the runtime, then those of each
//! consumer. Scripts read it: fields are added, not changed.

use serde::{Deserialize, Serialize};

use crate::consumer::Section;

/// The fields of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Version of the agent.
    pub version: String,
    /// Process id of the agent.
    pub pid: u32,
    /// Name of the node.
    pub node: String,
    /// Data plane: `nftables`, `iptables`, `ipvs`, `ebpf`.
    pub mode: String,
    /// Seconds since the agent started.
    pub uptime_seconds: f64,
}

/// The whole status as JSON.
#[derive(Clone, Debug)]
pub struct StatusAnswer {
    head: AgentStatus,
    sections: Vec<Section>,
}

impl StatusAnswer {
    pub(crate) fn new(head: AgentStatus, sections: Vec<Section>) -> Self {
        Self { head, sections }
    }

    /// The status as one JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let mut json = serde_json::to_string(&self.head).expect("strings and numbers");
        json.pop();
        for section in &self.sections {
            let fields = match section.name {
                Some(name) => format!("\"{name}\":{}", section.json),
                None => section.json[1..section.json.len() - 1].to_owned(),
            };
            if !fields.is_empty() {
                json.push(',');
                json.push_str(&fields);
            }
        }
        json.push('}');
        json
    }

    /// The JSON with an uptime of 0: equal as long as nothing but the time has changed.
    pub(crate) fn timeless(&self) -> String {
        let mut timeless = self.clone();
        timeless.head.uptime_seconds = 0.0;
        timeless.json()
    }
}
