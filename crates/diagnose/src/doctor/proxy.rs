//! Who writes the rules of this machine.

use std::net::IpAddr;

use sluice_model::Notice;

use super::policies::Enforcement;
use super::process::processes;
use super::report::{Finding, State};

/// What an agent says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    pub version: &'a str,
    /// The name of its mode.
    pub mode: &'a str,
    pub pid: u32,
    /// Why the last sync failed; `None` when it worked.
    pub failed: Option<&'a str>,
    /// Whether the source has given its first complete list.
    pub source_synced: bool,
    /// The first kind of objects that the API server tells nothing new about, and since when.
    pub stale: Option<&'a str>,
    /// Which family is not served, and why; `None` when all are.
    pub unserved: Option<&'a str>,
    /// Whether the rules are those of the plan.
    pub synced: bool,
    /// Its DNS server; `None` without one.
    pub dns: Option<NodeDns<'a>>,
    /// How it enforces network policies; `None` where it does not.
    pub policies: Option<Enforcement<'a>>,
}

/// Why no agent answers.
#[derive(Clone, Debug)]
pub struct NoAgent {
    pub why: String,
    /// What makes one answer.
    pub mend: String,
    /// A process listens on the agent's socket.
    pub is_there: bool,
}

/// The DNS server inside an agent.
#[derive(Clone, Copy, Debug)]
pub struct NodeDns<'a> {
    /// The addresses on which it answers.
    pub addresses: &'a [IpAddr],
    /// The cluster's DNS Service, which answers when the agent does not.
    pub service: &'a str,
}

/// Who keeps the rules of this node. `agent`: its answer, or why there is none. `is_old`: what it knows may be old.
pub(super) fn proxy(agent: &Result<Agent<'_>, NoAgent>, is_old: bool) -> Finding {
    let agent = match agent {
        Ok(agent) => agent,
        Err(none) => {
            return match kube_proxy().filter(|_| !none.is_there) {
                Some(pid) => Finding::ok("proxy", format!("kube-proxy runs here (pid {pid})")),
                None => Finding::fail("proxy", &*none.why).mend(&*none.mend),
            };
        }
    };
    let unread = agent.stale.filter(|it| !it.contains(Notice::STALE_SINCE));
    let (state, what) = match (agent.failed, agent.unserved.or(unread)) {
        (Some(error), _) => (State::Fail, format!("the last sync failed: {error}")),
        (None, _) if !agent.source_synced => (
            State::Fail,
            "the source has given no complete list yet".to_owned(),
        ),
        (None, Some(why)) => (State::Warn, why.to_owned()),
        (None, None) if !agent.synced => (State::Warn, "a sync is due".to_owned()),
        (None, None) if is_old => (
            State::Ok,
            "the rules match what the source said last".to_owned(),
        ),
        (None, None) => (State::Ok, "the rules match the source".to_owned()),
    };
    let Agent {
        version, mode, pid, ..
    } = agent;
    let finding = Finding::new(
        "proxy",
        state,
        format!("sluice {version} ({mode}, pid {pid}): {what}"),
    );
    match state {
        State::Ok => finding,
        _ => finding.mend("sluice status"),
    }
}

/// Objects that may be old, where the API server tells the agent nothing new. `stale`: see [`Agent::stale`].
pub(super) fn stale(stale: &str) -> Option<Finding> {
    let (kind, rest) = stale.split_once(Notice::STALE_SINCE)?;
    let (since, reason) = rest.split_once(": ").unwrap_or((rest, "no answer"));
    let kind = kind.rsplit(": ").next().unwrap_or(kind);
    let evidence = format!(
        "stale since {since}, rules may be old: no news of {kind} from the API server: {reason}"
    );
    Some(Finding::warn("source", evidence).mend(
        "sluice status has the API server's problems: does the server run, and can this node reach it? What follows is of \
         that time",
    ))
}

/// The same, where the agent has not noticed yet: it waits for news, and none may be right. `why`: what the doctor found.
pub(super) fn unanswered(why: &str) -> Finding {
    let evidence = format!("stale from now on, rules may be old: {why}");
    Finding::warn("source", evidence).mend(
        "does the API server run, and can this node reach it? The agent says so within a minute, and keeps its rules",
    )
}

/// The agent's process is in another network namespace than the doctor: the rules and interfaces here are not those of its
/// node. `pid`: its process.
pub(super) fn elsewhere(pid: u32) -> Finding {
    let evidence = format!(
        "the doctor runs in another network namespace than the agent (pid {pid}), whose rules and interfaces are not seen here"
    );
    let command = format!("nsenter --net=/proc/{pid}/ns/net sluice doctor ...");
    Finding::fail("namespace", evidence).mend(command)
}

/// Rules of an earlier proxy beside those of the running agent: packets meet whichever comes first.
///
/// `beside`: the other modes with a sign of their rules.
pub(super) fn leftovers(mode: &str, beside: Vec<(&'static str, String)>) -> Vec<Finding> {
    let warn = |(other, sign): (&'static str, String)| {
        let evidence = format!("{sign}: rules of the {other} mode are here beside those of {mode}");
        let finding = Finding::warn("leftovers", evidence);
        finding.mend(match kube_proxy() {
            Some(pid) => format!("a kube-proxy runs beside Sluice (pid {pid}): stop one of them"),
            None => "restart Sluice: after its first sync it removes what an earlier proxy left"
                .to_owned(),
        })
    };
    beside.into_iter().map(warn).collect()
}

/// The process of a kube-proxy in this network namespace.
pub(super) fn kube_proxy() -> Option<u32> {
    let mut all = processes().into_iter();
    all.find_map(|(pid, name)| (name == "kube-proxy").then_some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_may_be_old_are_a_warning_with_the_time() {
        let line = "API server: Services: stale since 2026-01-01T00:00:00Z: connection refused: 10.0.0.1:6443";
        let found = stale(line).expect("they are stale");
        assert_eq!(found.state, State::Warn);
        let expected = "stale since 2026-01-01T00:00:00Z, rules may be old: no news of Services from the API server: \
                        connection refused: 10.0.0.1:6443";
        assert_eq!(found.evidence, expected);
        assert_eq!(
            stale("API server: Pods: not readable since 2026: 403"),
            None
        );
    }
}
