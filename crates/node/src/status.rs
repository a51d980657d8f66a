//! The answer of `GET /status` on the agent's socket: the fields of the runtime, then those of each
//! consumer. Scripts read it: fields are added, not changed.

use std::path::PathBuf;

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
    /// The kubeconfig of the API server that the agent follows, as an absolute path; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// What the agent does instead of answering: everything else is of the time before. Absent while it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
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

    /// The status of an agent that does not answer, because it is busy with this. What it has not done yet is not known.
    #[must_use]
    pub(crate) fn busy_with(mut self, what: String) -> String {
        self.head.busy = Some(what);
        let json = self.json();
        let Ok(mut fields) = serde_json::from_str::<serde_json::Map<_, _>>(&json) else {
            return json;
        };
        if let Some(synced) = fields.get_mut("synced") {
            *synced = false.into();
        }
        serde_json::Value::from(fields).to_string()
    }

    /// The JSON with an uptime of 0: equal as long as nothing but the time has changed.
    pub(crate) fn timeless(&self) -> String {
        let mut timeless = self.clone();
        timeless.head.uptime_seconds = 0.0;
        timeless.json()
    }
}
