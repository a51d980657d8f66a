//! Who writes the rules of this machine.

use std::fs;

use super::report::{Finding, State};

/// What an agent says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// Version, mode and pid.
    pub name: &'a str,
    /// Why the last sync failed; `None` when it worked.
    pub failed: Option<&'a str>,
    /// Whether the source has given its first complete list.
    pub source_synced: bool,
    /// Which family is not served, and why; `None` when all are.
    pub unserved: Option<&'a str>,
    /// Whether the rules are those of the plan.
    pub synced: bool,
}

/// Who keeps the rules of this node. `agent`: its answer, or why there is none.
#[must_use]
pub fn proxy(agent: Result<Agent<'_>, String>) -> Finding {
    let agent = match agent {
        Ok(agent) => agent,
        Err(error) => {
            return match kube_proxy() {
                Some(pid) => Finding::new(
                    "proxy",
                    State::Ok,
                    format!("kube-proxy runs here (pid {pid})"),
                ),
                None => Finding::new("proxy", State::Fail, error)
                    .mend("start it: rules follow no change without it, and nobody repairs them"),
            };
        }
    };
    let (state, what) = match (agent.failed, agent.unserved) {
        (Some(error), _) => (State::Fail, format!("the last sync failed: {error}")),
        (None, _) if !agent.source_synced => (
            State::Fail,
            "the source has given no complete list yet".to_owned(),
        ),
        (None, Some(unserved)) => (State::Warn, unserved.to_owned()),
        (None, None) if !agent.synced => (State::Warn, "a sync is due".to_owned()),
        (None, None) => (State::Ok, "the rules match the source".to_owned()),
    };
    let finding = Finding::new("proxy", state, format!("{}: {what}", agent.name));
    match state {
        State::Ok => finding,
        _ => finding.mend("sluice status"),
    }
}

/// Rules of an earlier proxy beside those of the running agent: packets meet whichever comes first.
///
/// `beside`: the other modes with a sign of their rules.
pub fn leftovers(mode: &str, beside: Vec<(&'static str, String)>) -> Vec<Finding> {
    let warn = |(other, sign): (&'static str, String)| {
        let evidence = format!("{sign}: rules of the {other} mode are here beside those of {mode}");
        let finding = Finding::new("leftovers", State::Warn, evidence);
        finding.mend(match kube_proxy() {
            Some(pid) => format!("a kube-proxy runs beside Sluice (pid {pid}): stop one of them"),
            None => "restart Sluice: after its first sync it removes what an earlier proxy left"
                .to_owned(),
        })
    };
    beside.into_iter().map(warn).collect()
}

/// The process of a kube-proxy in this network namespace.
#[must_use]
pub fn kube_proxy() -> Option<u32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = namespace("self")?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|it| it.file_name().into_string().ok());
    let found = pids.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_named = name.is_ok_and(|it| it.trim_end() == "kube-proxy");
        is_named && namespace(pid).as_ref() == Some(&own)
    });
    found?.parse().ok()
}

/// Whether a table or chain belongs to a Service proxy, or is the kubelet's.
#[must_use]
pub fn is_of_a_proxy(table: &str, chain: &str) -> bool {
    ["sluice", "kube-proxy"].contains(&table)
        || ["KUBE-", "SLUICE-"].iter().any(|it| chain.starts_with(it))
}
