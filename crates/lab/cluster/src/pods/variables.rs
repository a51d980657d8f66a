//! The environment of a container (`makeEnvironmentVariables` in `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/envvars`). Errors are in
//! kubelet's words.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Service};

use super::Read;
use super::fields::Own;
use super::volumes::content::{data, found};
use crate::object::{key_of, typed};
use crate::own_service;

/// Names and values, in the order in which they are set.
pub(super) type Variables = Vec<(String, String)>;

/// The variables of a container; an error names the object or key that is missing.
pub(super) fn of_container(
    container: &Container,
    own: &Own<'_>,
    objects: &dyn Read,
) -> Result<Variables, String> {
    let mut all = of_objects(container, own, objects)?;
    let services = services(own, objects);
    for it in container.env.iter().flatten() {
        let known = |name: &str| {
            let mut own = all.iter().rev();
            let own = own.find(|(it, _)| it == name).map(|(_, value)| value);
            own.or(services.get(name)).cloned()
        };
        let value = match (&it.value, &it.value_from) {
            (Some(value), _) => Some(expand(value, known)),
            (None, Some(source)) => of_source(source, container, own, objects)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            all.retain(|(name, _)| *name != it.name);
            all.push((it.name.clone(), value));
        }
    }
    for (name, value) in services {
        if all.iter().all(|(it, _)| *it != name) {
            all.push((name, value));
        }
    }
    Ok(all)
}

/// The variables of `envFrom`.
fn of_objects(
    container: &Container,
    own: &Own<'_>,
    objects: &dyn Read,
) -> Result<Variables, String> {
    let mut all: Variables = Vec::new();
    for source in container.env_from.iter().flatten() {
        let named = source
            .config_map_ref
            .as_ref()
            .map(|it| ("ConfigMap", &it.name, it.optional))
            .or(source
                .secret_ref
                .as_ref()
                .map(|it| ("Secret", &it.name, it.optional)));
        let Some((kind, name, optional)) = named else {
            continue;
        };
        let optional = optional == Some(true);
        let Some(object) = found(objects, own.namespace(), kind, name, optional)? else {
            continue;
        };
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (key, value) in data(kind, &object) {
            let name = format!("{prefix}{key}");
            // The kernel has no variable with such a name.
            if name.is_empty() || name.contains(['=', '\0']) {
                continue;
            }
            all.retain(|(it, _)| *it != name);
            all.push((name, text(&value)));
        }
    }
    Ok(all)
}

/// The value of `valueFrom`; `None` when what it names is optional and missing.
fn of_source(
    source: &EnvVarSource,
    container: &Container,
    own: &Own<'_>,
    objects: &dyn Read,
) -> Result<Option<String>, String> {
    let (field, resource) = (&source.field_ref, &source.resource_field_ref);
    if let Some(value) = own.selected(field.as_ref(), resource.as_ref(), &container.name) {
        return value.map(Some);
    }
    let keyed = source
        .config_map_key_ref
        .as_ref()
        .map(|it| ("ConfigMap", &it.name, &it.key, it.optional))
        .or(source
            .secret_key_ref
            .as_ref()
            .map(|it| ("Secret", &it.name, &it.key, it.optional)));
    let Some((kind, name, key, optional)) = keyed else {
        return Ok(None);
    };
    let optional = optional == Some(true);
    let Some(object) = found(objects, own.namespace(), kind, name, optional)? else {
        return Ok(None);
    };
    match data(kind, &object).get(key) {
        Some(value) => Ok(Some(text(value))),
        None if optional => Ok(None),
        None => Err(format!(
            "couldn't find key {key} in {kind} {}/{name}",
            own.namespace()
        )),
    }
}

/// A value without NUL, which ends a variable in the kernel.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).replace('\0', "")
}

/// The variables that name Services: that of the API, and those of the pod's namespace unless the pod refuses them.
fn services(own: &Own<'_>, objects: &dyn Read) -> BTreeMap<String, String> {
    let spec = own.pod.spec.as_ref();
    let wants_all = spec.and_then(|it| it.enable_service_links) != Some(false);
    let mut all = BTreeMap::new();
    for object in objects.list("Service") {
        let key = key_of(&object);
        let is_own = *key.namespace == *"default" && *key.name == *own_service::NAME;
        let is_here = *key.namespace == *own.namespace();
        if (is_own || wants_all && is_here)
            && let Ok(service) = typed::<Service>(&object)
        {
            of_service(&service, &mut all);
        }
    }
    all
}

fn of_service(service: &Service, all: &mut BTreeMap<String, String>) {
    let spec = service.spec.as_ref();
    let ip = spec.and_then(|it| it.cluster_ip.as_deref());
    // Headless Services and external names have none.
    let Ok(ip) = ip.unwrap_or_default().parse::<IpAddr>() else {
        return;
    };
    let upper = |it: &str| it.to_uppercase().replace('-', "_");
    let name = upper(service.metadata.name.as_deref().unwrap_or_default());
    let host = match ip {
        IpAddr::V4(it) => it.to_string(),
        IpAddr::V6(it) => format!("[{it}]"),
    };
    let mut put = |suffix: &str, value: String| all.insert(format!("{name}_{suffix}"), value);
    let ports = spec.and_then(|it| it.ports.as_deref()).unwrap_or_default();
    put("SERVICE_HOST", ip.to_string());
    for (at, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let (number, scheme) = (port.port, protocol.to_lowercase());
        let url = format!("{scheme}://{host}:{number}");
        if at == 0 {
            put("SERVICE_PORT", number.to_string());
            put("PORT", url.clone());
        }
        if let Some(it) = port.name.as_deref().filter(|it| !it.is_empty()) {
            put(&format!("SERVICE_PORT_{}", upper(it)), number.to_string());
        }
        let link = format!("PORT_{number}_{protocol}");
        put(&link, url);
        put(&format!("{link}_PROTO"), scheme);
        put(&format!("{link}_PORT"), number.to_string());
        put(&format!("{link}_ADDR"), ip.to_string());
    }
}

/// Replaces `$(NAME)`. `$$` is a dollar; a name that is not known stays (`third_party/forked/golang/expansion`).
pub(super) fn expand(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|it| it.split_once(')'))
        {
            result.push_str(&known(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            result.push('$');
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    struct Objects;

    impl Read for Objects {
        fn get(&self, kind: &str, _: &str, name: &str) -> Option<Arc<Value>> {
            let object = match (kind, name) {
                ("ConfigMap", "conf") => json!({"data": {"A": "one", "B": "two"}}),
                ("Secret", "key") => json!({"data": {"A": "c2VjcmV0"}}),
                _ => return None,
            };
            Some(Arc::new(object))
        }

        fn list(&self, kind: &str) -> Vec<Arc<Value>> {
            assert_eq!(kind, "Service");
            let service = |namespace: &str, name: &str, ip: &str, ports: Value| {
                Arc::new(json!({
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"clusterIP": ip, "ports": ports},
                }))
            };
            let https = json!([{"name": "https", "port": 443, "protocol": "TCP"}]);
            vec![
                service("default", "kubernetes", "10.96.0.1", https.clone()),
                service(
                    "shop",
                    "my-db",
                    "fd00::5",
                    json!([{"port": 53, "protocol": "UDP"}]),
                ),
                service("shop", "headless", "None", https.clone()),
                service("other", "far", "10.96.0.9", https),
            ]
        }

        fn token(&self, _: &Pod, _: Option<&str>, _: i64) -> Result<String, String> {
            unreachable!("no variable is a token")
        }
    }

    fn variables(container: &Value, links: bool) -> Result<Variables, String> {
        let mut whole = json!({"name": "c"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        let pod = json!({
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"containers": [whole], "enableServiceLinks": links},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let own = Own {
            pod: &pod,
            addresses: None,
            node_addresses: None,
        };
        of_container(&pod.spec.as_ref().unwrap().containers[0], &own, &Objects)
    }

    /// The variables of the container itself, or the error.
    #[track_caller]
    fn check(container: &Value, expected: &str) {
        let found = match variables(container, false) {
            Err(error) => error,
            Ok(all) => {
                let own = all.iter().filter(|(it, _)| !it.starts_with("KUBERNETES_"));
                let own = own.map(|(name, value)| format!("{name}={value}"));
                own.collect::<Vec<_>>().join(" ")
            }
        };
        assert_eq!(found, expected, "{container}");
    }

    #[test]
    fn variables_come_from_objects_and_fields() {
        let from = |kind: &str, name: &str, more: Value| {
            let mut source = json!({"name": name});
            source
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({kind: source})
        };
        let none = || json!({});
        let optional = || json!({"optional": true});
        check(
            &json!({"envFrom": [from("configMapRef", "conf", none())]}),
            "A=one B=two",
        );
        let mut prefixed = from("secretRef", "key", none());
        prefixed["prefix"] = "X_".into();
        check(&json!({"envFrom": [prefixed]}), "X_A=secret");
        check(
            &json!({"envFrom": [from("configMapRef", "none", none())]}),
            r#"configmap "none" not found"#,
        );
        check(
            &json!({"envFrom": [from("secretRef", "none", optional())]}),
            "",
        );
        let value = |it: Value| json!({"env": [{"name": "V", "valueFrom": it}]});
        let key = |kind: &str, name: &str, key: &str| from(kind, name, json!({"key": key}));
        check(&value(key("configMapKeyRef", "conf", "B")), "V=two");
        check(&value(key("secretKeyRef", "key", "A")), "V=secret");
        check(
            &value(key("secretKeyRef", "none", "A")),
            r#"secret "none" not found"#,
        );
        check(
            &value(key("configMapKeyRef", "conf", "Z")),
            "couldn't find key Z in ConfigMap shop/conf",
        );
        check(
            &value(from(
                "secretKeyRef",
                "key",
                json!({"key": "Z", "optional": true}),
            )),
            "",
        );
        check(
            &value(json!({"fieldRef": {"fieldPath": "metadata.name"}})),
            "V=p",
        );
        check(
            &value(json!({"resourceFieldRef": {"resource": "limits.cpu"}})),
            "V=4",
        );
        check(
            &json!({
                "envFrom": [from("configMapRef", "conf", none())],
                "env": [
                    {"name": "A", "value": "mine"},
                    {"name": "C", "value": "$(A)/$(B)/$(NONE)/$$(A)/$(KUBERNETES_SERVICE_PORT)"},
                    {"name": "D"},
                ],
            }),
            "B=two A=mine C=mine/two/$(NONE)/$(A)/443 D=",
        );
    }

    #[test]
    fn services_are_named_in_variables() {
        let all: BTreeMap<String, String> =
            variables(&json!({}), true).unwrap().into_iter().collect();
        for (name, value) in [
            ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
            ("KUBERNETES_SERVICE_PORT", "443"),
            ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
            ("KUBERNETES_PORT", "tcp://10.96.0.1:443"),
            ("KUBERNETES_PORT_443_TCP", "tcp://10.96.0.1:443"),
            ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
            ("KUBERNETES_PORT_443_TCP_PORT", "443"),
            ("KUBERNETES_PORT_443_TCP_ADDR", "10.96.0.1"),
            ("MY_DB_SERVICE_HOST", "fd00::5"),
            ("MY_DB_PORT_53_UDP", "udp://[fd00::5]:53"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(
            all.keys()
                .all(|it| !it.contains("HEADLESS") && !it.contains("FAR"))
        );
        let few = variables(&json!({}), false).unwrap();
        assert!(few.iter().all(|(it, _)| it.starts_with("KUBERNETES_")) && !few.is_empty());
        let own = variables(
            &json!({"env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "x"}]}),
            true,
        );
        let own = own.unwrap();
        let mut hosts = own.iter().filter(|(it, _)| it == "KUBERNETES_SERVICE_HOST");
        assert_eq!(hosts.next().map(|(_, it)| it.as_str()), Some("x"));
        assert_eq!(hosts.next(), None);
    }
}
