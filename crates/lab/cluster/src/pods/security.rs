//! As whom a container runs and what it may do (`pkg/securitycontext`, `pkg/kubelet/kuberuntime/security_context.go`).

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use super::fields::Own;
use super::{command, hosts};
use crate::entry::Confined;

/// The capabilities that container runtimes give (`defaultUnixCaps` of containerd, `pkg/oci/spec.go`).
const CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// The user of a container that must not be root and names none: no image says which. It is that of many images without root.
const NOBODY: i64 = 65532;

/// What a container has instead of this machine's own; `None` for Sluice's own images, which are parts of the node.
///
/// # Errors
///
/// It must not run as root, and asks for it; in kubelet's words.
pub(super) fn of_container(
    container: &Container,
    own: &Own<'_>,
) -> Result<Option<Confined>, String> {
    if command::own_image(container).is_some() {
        return Ok(None);
    }
    let pod = own.pod;
    refuse_host(pod)?;
    let of_pod = pod.spec.as_ref().and_then(|it| it.security_context.clone());
    let of_pod = of_pod.unwrap_or_default();
    let context = container.security_context.clone().unwrap_or_default();
    let user = user(pod, &of_pod, &context, container)?;
    let id = |it: Option<i64>| it.and_then(|it| u32::try_from(it).ok());
    let groups = of_pod.supplemental_groups.iter().flatten().copied();
    let groups = groups.chain(of_pod.fs_group);
    Ok(Some(Confined {
        user,
        group: id(context.run_as_group.or(of_pod.run_as_group)).unwrap_or(0),
        groups: groups.filter_map(|it| id(Some(it))).collect(),
        capabilities: capabilities(&context),
        no_new_privileges: context.allow_privilege_escalation == Some(false),
        read_only: context.read_only_root_filesystem == Some(true),
        directory: container.working_dir.as_ref().map(Into::into),
        hosts: hosts::text(own),
        termination_log: None,
    }))
}

/// Refuses what would show a container the processes or the shared memory of the lab, or of this machine.
fn refuse_host(pod: &Pod) -> Result<(), String> {
    let spec = pod.spec.as_ref();
    let asked = [
        ("hostPID", spec.and_then(|it| it.host_pid)),
        ("hostIPC", spec.and_then(|it| it.host_ipc)),
    ];
    match asked.into_iter().find(|(_, it)| *it == Some(true)) {
        None => Ok(()),
        Some((field, _)) => Err(format!(
            "{field}: a node of a lab shares this with the lab, so no pod gets it: leave it out, or use \
             `sluice lab exec NODE -- PROGRAM`"
        )),
    }
}

fn user(
    pod: &Pod,
    of_pod: &PodSecurityContext,
    context: &SecurityContext,
    container: &Container,
) -> Result<u32, String> {
    let must_not_be_root = context.run_as_non_root.or(of_pod.run_as_non_root) == Some(true);
    let user = context.run_as_user.or(of_pod.run_as_user);
    match user {
        Some(0) if must_not_be_root => Err(format!(
            "container's runAsUser breaks non-root policy (pod: {:?}, container: {})",
            pod.metadata.name.as_deref().unwrap_or_default(),
            container.name
        )),
        None if !must_not_be_root => Ok(0),
        user => {
            let user = user.unwrap_or(NOBODY);
            u32::try_from(user).map_err(|_| format!("runAsUser: {user} is no user"))
        }
    }
}

/// The default ones with those that are added and without those that are dropped; `None` is all.
fn capabilities(context: &SecurityContext) -> Option<Vec<String>> {
    if context.privileged == Some(true) {
        return None;
    }
    let wanted = context.capabilities.clone().unwrap_or_default();
    let name = |it: String| {
        let upper = it.to_uppercase();
        upper.strip_prefix("CAP_").unwrap_or(&upper).to_owned()
    };
    let added: Vec<String> = wanted.add.into_iter().flatten().map(name).collect();
    let dropped: Vec<String> = wanted.drop.into_iter().flatten().map(name).collect();
    let all = |it: &[String]| it.iter().any(|it| it == "ALL");
    if all(&added) && dropped.is_empty() {
        return None;
    }
    let mut kept = CAPABILITIES.map(str::to_owned).to_vec();
    kept.retain(|it| !all(&dropped) && !dropped.contains(it));
    kept.extend(added.into_iter().filter(|it| it != "ALL"));
    Some(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// User, group, groups and number of capabilities of a container; or why it cannot run.
    fn show(of_pod: &Value, context: &Value) -> String {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "securityContext": of_pod,
                "containers": [{"name": "c", "image": "any", "securityContext": context}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let own = Own {
            pod: &pod,
            addresses: None,
            node_addresses: None,
        };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        match of_container(container, &own) {
            Ok(it) => {
                let it = it.unwrap();
                let capabilities = it.capabilities.map(|it| it.len());
                format!("{}:{} {:?} {capabilities:?}", it.user, it.group, it.groups)
            }
            Err(why) => why,
        }
    }

    #[test]
    fn nothing_of_the_host_is_shared() {
        for (field, expect) in [
            ("hostPID", false),
            ("hostIPC", false),
            ("hostNetwork", true),
        ] {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], field: true}});
            let refused = refuse_host(&serde_json::from_value(pod).unwrap());
            assert_eq!(refused.is_ok(), expect, "{field}");
            if let Err(why) = refused {
                assert!(why.starts_with(field), "{why}");
            }
        }
    }

    #[test]
    fn the_container_comes_before_the_pod() {
        for (of_pod, context, expected) in [
            (json!({}), json!({}), "0:0 [] Some(14)"),
            (
                json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]}),
                json!({}),
                "1000:3000 [4000, 2000] Some(14)",
            ),
            (
                json!({"runAsUser": 1000, "runAsNonRoot": true}),
                json!({"runAsUser": 0}),
                "container's runAsUser breaks non-root policy (pod: \"p\", container: c)",
            ),
            (
                json!({"runAsNonRoot": true}),
                json!({"capabilities": {"drop": ["ALL"]}}),
                "65532:0 [] Some(0)",
            ),
            (
                json!({"runAsNonRoot": true}),
                json!({"runAsNonRoot": false}),
                "0:0 [] Some(14)",
            ),
            (
                json!({}),
                json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CAP_NET_ADMIN"]}}),
                "0:0 [] Some(2)",
            ),
            (
                json!({}),
                json!({"capabilities": {"drop": ["net_raw"]}}),
                "0:0 [] Some(13)",
            ),
            (json!({}), json!({"privileged": true}), "0:0 [] None"),
        ] {
            assert_eq!(show(&of_pod, &context), expected, "{of_pod} {context}");
        }
    }
}
