//! Fields of a Pod for its own containers (`pkg/fieldpath/fieldpath.go`, `pkg/kubelet/kubelet_pods.go`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod, ResourceFieldSelector};
use sluice_controller::Quantity;

/// What each node has, whatever this machine has: a manifest fits everywhere or nowhere.
pub(crate) const NODE_CPU: &str = "4";
pub(crate) const NODE_MEMORY: &str = "8Gi";

/// A Pod as its containers see it.
pub(super) struct Own<'a> {
    pub(super) pod: &'a Pod,
    pub(super) addresses: Option<[IpAddr; 2]>,
    pub(super) node_addresses: Option<[IpAddr; 2]>,
}

impl Own<'_> {
    pub(super) fn namespace(&self) -> &str {
        let namespace = self.pod.metadata.namespace.as_deref();
        namespace.unwrap_or("default")
    }

    /// The value of a field or of a container's resource, whichever is named; `own` is the container that is meant when
    /// the resource names none.
    ///
    /// # Errors
    ///
    /// No Pod has such a field or resource, in kubelet's words.
    pub(super) fn selected(
        &self,
        field: Option<&ObjectFieldSelector>,
        resource: Option<&ResourceFieldSelector>,
        own: &str,
    ) -> Option<Result<String, String>> {
        if let Some(it) = field {
            let unknown = || format!("unsupported fieldPath: {}", it.field_path);
            return Some(self.field(&it.field_path).ok_or_else(unknown));
        }
        let it = resource?;
        let unknown = || format!("unsupported container resource: {}", it.resource);
        Some(self.resource(own, it).ok_or_else(unknown))
    }

    /// The value of a field; `None` when no Pod has the field.
    fn field(&self, path: &str) -> Option<String> {
        let (metadata, spec) = (&self.pod.metadata, self.pod.spec.as_ref()?);
        let first = |it: Option<[IpAddr; 2]>| it.map_or(String::new(), |it| it[0].to_string());
        let all =
            |it: Option<[IpAddr; 2]>| it.map_or(String::new(), |it| format!("{},{}", it[0], it[1]));
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        for (map, values) in [
            ("metadata.labels", &metadata.labels),
            ("metadata.annotations", &metadata.annotations),
        ] {
            let Some(rest) = path.strip_prefix(map) else {
                continue;
            };
            if rest.is_empty() {
                return Some(lines(values.as_ref()));
            }
            let key = rest.strip_prefix("['")?.strip_suffix("']")?;
            let value = values.as_ref().and_then(|it| it.get(key));
            return Some(value.cloned().unwrap_or_default());
        }
        Some(match path {
            "metadata.name" => text(&metadata.name),
            "metadata.namespace" => self.namespace().to_owned(),
            "metadata.uid" => text(&metadata.uid),
            "spec.nodeName" => text(&spec.node_name),
            "spec.serviceAccountName" => text(&spec.service_account_name),
            "status.podIP" => first(self.addresses),
            "status.podIPs" => all(self.addresses),
            "status.hostIP" => first(self.node_addresses),
            "status.hostIPs" => all(self.node_addresses),
            _ => return None,
        })
    }

    /// The value of a request or limit of a container, in units of the divisor, rounded up. Without a limit it is what the
    /// node has.
    fn resource(&self, own: &str, wanted: &ResourceFieldSelector) -> Option<String> {
        let spec = self.pod.spec.as_ref()?;
        let name = wanted.container_name.as_deref().filter(|it| !it.is_empty());
        let name = name.unwrap_or(own);
        let mut all = spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten());
        let container = all.find(|it| it.name == name)?;
        let (list, kind) = wanted.resource.split_once('.')?;
        let resources = container.resources.as_ref();
        let values = match list {
            "limits" => resources.and_then(|it| it.limits.as_ref()),
            "requests" => resources.and_then(|it| it.requests.as_ref()),
            _ => return None,
        };
        let given = values.and_then(|it| it.get(kind)).map(|it| it.0.as_str());
        let value = match (given, list, kind) {
            (Some(value), _, _) => value,
            (None, "limits", "cpu") => NODE_CPU,
            (None, "limits", "memory") => NODE_MEMORY,
            (None, _, _) => "0",
        };
        let divisor = wanted.divisor.as_ref().map(|it| it.0.as_str());
        let divisor = divisor.filter(|it| *it != "0").unwrap_or("1");
        let read = |it: &str| it.parse::<Quantity>().ok();
        let units = read(value)?.in_units_of(&read(divisor)?)?;
        Some(units.to_string())
    }
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let mut text = String::new();
    for (key, value) in map.into_iter().flatten() {
        // A text takes every write.
        let _ = writeln!(text, "{key}={value:?}");
    }
    text.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_the_pod_are_texts() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "labels": {"a": "1", "b": "x\"y"}},
            "spec": {"nodeName": "n", "serviceAccountName": "robot", "containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "0.25"}}},
                {"name": "d"},
            ]},
        }))
        .unwrap();
        let own = Own {
            pod: &pod,
            addresses: Some(["10.0.0.2", "fd00::2"].map(|it| it.parse().unwrap())),
            node_addresses: Some(["192.0.2.1", "fd00::1"].map(|it| it.parse().unwrap())),
        };
        for (path, expected) in [
            ("metadata.name", "web-1"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u"),
            ("metadata.labels", "a=\"1\"\nb=\"x\\\"y\""),
            ("metadata.labels['a']", "1"),
            ("metadata.annotations['none']", ""),
            ("metadata.annotations", ""),
            ("spec.nodeName", "n"),
            ("spec.serviceAccountName", "robot"),
            ("status.podIP", "10.0.0.2"),
            ("status.podIPs", "10.0.0.2,fd00::2"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1,fd00::1"),
        ] {
            assert_eq!(own.field(path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(own.field("spec.unknown"), None);
        for (resource, divisor, name, expected) in [
            ("limits.cpu", "0", "", "2"),
            ("limits.cpu", "1m", "", "1500"),
            ("requests.cpu", "1m", "", "250"),
            ("limits.memory", "1Mi", "", "64"),
            ("limits.memory", "", "", "67108864"),
            ("requests.memory", "1", "", "0"),
            ("limits.cpu", "1", "d", "4"),
            ("limits.memory", "1M", "d", "8590"),
        ] {
            let wanted = serde_json::from_value(json!({
                "resource": resource, "containerName": name,
                "divisor": if divisor.is_empty() { serde_json::Value::Null } else { divisor.into() },
            }));
            let value = own.resource("c", &wanted.unwrap());
            assert_eq!(
                value.as_deref(),
                Some(expected),
                "{resource} {divisor} {name}"
            );
        }
    }
}
