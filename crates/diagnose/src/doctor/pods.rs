//! The pods behind a Service, as the API server has them: which ports their containers have, and whether they run. Pure.

use std::fmt;

use super::listed;
use super::report::Finding;

/// The part of a Service that chooses pods and their ports, and the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePods {
    /// `app=web,tier=front`; empty for a Service without a selector.
    pub selector: String,
    /// The ports whose `targetPort` is a name.
    pub targets: Vec<Target>,
    /// The pods with these labels.
    pub pods: Vec<PodState>,
}

/// A port of a Service that leads to a port of containers by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or number of the Service's port.
    pub port: String,
    /// `targetPort`.
    pub name: String,
}

/// A pod and its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    pub name: String,
    /// `status.phase`.
    pub phase: String,
    /// Its addresses; none before it has one.
    pub addresses: Vec<String>,
    pub node: Option<String>,
    pub containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub ports: Vec<ContainerPort>,
    pub restarts: u32,
    pub is_ready: bool,
    /// Why it waits, and the message, which may be empty: `CrashLoopBackOff`, `ImagePullBackOff`.
    pub waiting: Option<(String, String)>,
    /// How it ended last: exit code, and the reason, which may be empty: `OOMKilled`.
    pub ended: Option<(i32, String)>,
}

/// A port of a container that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPort {
    pub name: String,
    pub number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

impl fmt::Display for ContainerPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.name, self.number, self.protocol)
    }
}

/// Pods that are not there, names of ports that no container has, containers that do not run.
pub(super) fn pods(namespace: &str, of: &ServicePods) -> Vec<Finding> {
    if of.selector.is_empty() {
        return Vec::new();
    }
    let Some(first) = of.pods.first() else {
        let evidence = format!("no pod in {namespace} has the labels {}", of.selector);
        return vec![Finding::fail("pods", evidence).mend(format!(
            "kubectl -n {namespace} get pods --show-labels: spec.selector of the Service must fit the labels of its pods"
        ))];
    };
    let mut findings: Vec<Finding> = of
        .targets
        .iter()
        .filter_map(|it| target(it, &of.pods))
        .collect();
    findings.extend(of.pods.iter().flat_map(|it| containers(namespace, it)));
    if findings.is_empty() {
        let evidence = match of.pods.len() {
            1 => format!("{} has the labels {}", first.name, of.selector),
            all => format!("{all} have the labels {}", of.selector),
        };
        findings.push(Finding::ok("pods", evidence));
    }
    findings
}

/// A name that no container has, with the nearest one.
fn target(target: &Target, pods: &[PodState]) -> Option<Finding> {
    let containers = pods.iter().flat_map(|it| &it.containers);
    let mut ports: Vec<&ContainerPort> = containers.flat_map(|it| &it.ports).collect();
    let Target { port, name } = target;
    if ports.iter().any(|it| it.name == *name) {
        return None;
    }
    ports.sort_by_key(|it| (distance(&it.name, name), &it.name, it.number));
    ports.dedup();
    let hint = match ports.first() {
        Some(nearest) => format!("; did you mean {nearest}? They have {}", listed(&ports)),
        None => "; their ports have no names".to_owned(),
    };
    let evidence =
        format!("targetPort {name} of port {port}: no container has a port of this name{hint}");
    Some(Finding::fail("pods", evidence).mend(
        "targetPort of the Service, or ports[].name of the container: both must be the same; or give the number",
    ))
}

/// Containers of a pod that do not run, or did not.
pub(super) fn containers(namespace: &str, pod: &PodState) -> Vec<Finding> {
    let all = pod.containers.iter();
    all.filter_map(|it| container(namespace, &pod.name, it))
        .collect()
}

fn container(namespace: &str, pod: &str, it: &Container) -> Option<Finding> {
    let name = format!("pod/{pod}: container {}", it.name);
    let ended = it.ended.as_ref().map(|(code, reason)| match &**reason {
        "" => format!(", last exit code {code}"),
        reason => format!(", last exit code {code} ({reason})"),
    });
    let ended = ended.unwrap_or_default();
    let plural = if it.restarts == 1 { "" } else { "s" };
    let restarts = format!("{} restart{plural}{ended}", it.restarts);
    let previous = format!(
        "kubectl -n {namespace} logs {pod} -c {} --previous",
        it.name
    );
    match &it.waiting {
        // The first moments of every container.
        Some((reason, _)) if ["ContainerCreating", "PodInitializing"].contains(&&**reason) => None,
        Some((reason, _)) if it.restarts > 0 => {
            Some(Finding::fail("pods", format!("{name}: {reason}, {restarts}")).mend(previous))
        }
        Some((reason, message)) => {
            let message = if message.is_empty() {
                String::new()
            } else {
                format!(": {message}")
            };
            let describe = format!("kubectl -n {namespace} describe pod/{pod}");
            Some(Finding::fail("pods", format!("{name}: {reason}{message}")).mend(describe))
        }
        None if it.restarts > 0 => {
            let evidence = format!("{name}: {restarts}");
            let finding = if it.is_ready {
                Finding::warn("pods", evidence)
            } else {
                Finding::fail("pods", evidence)
            };
            Some(finding.mend(previous))
        }
        None => None,
    }
}

/// Letters to insert, delete or replace until one word is the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut corner = at;
        row[0] = at + 1;
        for (column, b) in other.chars().enumerate() {
            let replaced = corner + usize::from(a != b);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::report::State;
    use super::*;

    fn pod(container: Container) -> PodState {
        PodState {
            name: "web-1".to_owned(),
            containers: vec![container],
            ..PodState::default()
        }
    }

    fn said(targets: &[&str], all: Vec<PodState>) -> Vec<(State, String)> {
        let targets = targets.iter().map(|it| Target {
            port: "80".to_owned(),
            name: (*it).to_owned(),
        });
        let of = ServicePods {
            selector: "app=web".to_owned(),
            targets: targets.collect(),
            pods: all,
        };
        let found = pods("default", &of).into_iter();
        found.map(|it| (it.state, it.evidence)).collect()
    }

    fn ports(names: &[(&str, u16)]) -> Container {
        let ports = names.iter().map(|(name, number)| ContainerPort {
            name: (*name).to_owned(),
            number: *number,
            protocol: "TCP".to_owned(),
        });
        Container {
            name: "web".to_owned(),
            ports: ports.collect(),
            ..Container::default()
        }
    }

    #[test]
    fn a_name_that_no_container_has_comes_with_the_nearest() {
        let all = || vec![pod(ports(&[("metrics", 9090), ("http", 8080)]))];
        let expected = "targetPort htpp of port 80: no container has a port of this name; did you mean http (8080/TCP)? They \
                        have http (8080/TCP), metrics (9090/TCP)";
        assert_eq!(said(&["htpp"], all()), [(State::Fail, expected.to_owned())]);
        assert_eq!(
            said(&["http"], all()),
            [(State::Ok, "web-1 has the labels app=web".to_owned())]
        );
        let unnamed = said(&["http"], vec![pod(ports(&[]))]);
        assert!(
            unnamed[0].1.ends_with("; their ports have no names"),
            "{unnamed:?}"
        );
        assert!(
            said(&[], Vec::new())[0]
                .1
                .contains("no pod in default has the labels app=web")
        );
    }

    #[test]
    fn containers_that_end_again_and_again_are_told_with_their_exit_code() {
        let looping = Container {
            restarts: 5,
            waiting: Some(("CrashLoopBackOff".to_owned(), String::new())),
            ended: Some((137, "OOMKilled".to_owned())),
            ..ports(&[])
        };
        let expected = "pod/web-1: container web: CrashLoopBackOff, 5 restarts, last exit code 137 (OOMKilled)";
        assert_eq!(
            said(&[], vec![pod(looping.clone())]),
            [(State::Fail, expected.to_owned())]
        );
        let recovered = Container {
            waiting: None,
            is_ready: true,
            restarts: 1,
            ..looping
        };
        let expected = "pod/web-1: container web: 1 restart, last exit code 137 (OOMKilled)";
        assert_eq!(
            said(&[], vec![pod(recovered)]),
            [(State::Warn, expected.to_owned())]
        );
        let image = Container {
            waiting: Some(("ImagePullBackOff".to_owned(), "no such image".to_owned())),
            ..ports(&[])
        };
        let expected = "pod/web-1: container web: ImagePullBackOff: no such image";
        assert_eq!(
            said(&[], vec![pod(image)]),
            [(State::Fail, expected.to_owned())]
        );
    }

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("", "", 0),
            ("http", "htpp", 1),
            ("http", "https", 1),
            ("web", "", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
