//! Paths of requests.

use std::borrow::Cow;
use std::sync::Arc;

use crate::resource::{Registry, Resource};

/// What a path addresses.
#[derive(Debug)]
pub enum Target {
    /// `/version`.
    Version,
    /// `/healthz`, `/livez` and `/readyz`.
    Health,
    /// A collection or an object.
    Objects {
        resource: Arc<Resource>,
        /// `None`: all namespaces, or a cluster-wide object.
        namespace: Option<String>,
        /// `None`: the whole collection.
        name: Option<String>,
        /// `status`, `log` and so on.
        subresource: Option<String>,
    },
    /// Any other path.
    Nothing,
}

impl Target {
    /// Reads `/api/v1/...` and `/apis/GROUP/VERSION/...`, cluster-wide or in a namespace, for the
    /// kinds of `registry`.
    pub fn of(path: &str, registry: &Registry) -> Self {
        let parts: Vec<_> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            ["version"] => Self::Version,
            ["healthz" | "readyz" | "livez", ..] => Self::Health,
            ["api", version, rest @ ..] => Self::objects(registry, "", version, rest),
            ["apis", group, version, rest @ ..] => Self::objects(registry, group, version, rest),
            _ => Self::Nothing,
        }
    }

    fn objects(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, rest) = match rest {
            // Subresources of the Namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return Self::Nothing,
        };
        match registry.of_path(group, version, plural) {
            Some(resource) if resource.namespaced || namespace.is_none() => Self::Objects {
                resource: resource.clone(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.map(str::to_owned),
            },
            _ => Self::Nothing,
        }
    }
}

/// The path of a watch as clients before `?watch=1` asked for it, `/api/v1/watch/namespaces/a/pods`, without `watch`; any
/// other path as it is. The paths are deprecated and still served (`endpoints/request/requestinfo.go`).
pub(crate) fn without_watch(path: &str) -> Cow<'_, str> {
    let version = match path.split('/').nth(1) {
        Some("api") => 2,
        Some("apis") => 3,
        _ => return path.into(),
    };
    let parts: Vec<_> = path.split('/').collect();
    match parts.get(version + 1..) {
        Some(["watch", rest @ ..]) if !rest.is_empty() => {
            [&parts[..=version], rest].concat().join("/").into()
        }
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::KINDS;

    #[test]
    fn paths_are_read() {
        let show = |path: &str| match Target::of(path, &KINDS) {
            Target::Version => "version".to_owned(),
            Target::Health => "health".to_owned(),
            Target::Nothing => "nothing".to_owned(),
            Target::Objects {
                resource,
                namespace,
                name,
                subresource,
            } => {
                let part = subresource.map(|it| format!(" {it}")).unwrap_or_default();
                format!("{} {namespace:?} {name:?}{part}", resource.full_name())
            }
        };
        for (path, expect) in [
            ("/version", "version"),
            ("/livez/ping", "health"),
            ("/api/v1/services", "services None None"),
            ("/api/v1/namespaces", "namespaces None None"),
            ("/api/v1/namespaces/a", r#"namespaces None Some("a")"#),
            (
                "/api/v1/namespaces/a/services",
                r#"services Some("a") None"#,
            ),
            ("/api/v1/nodes/n1", r#"nodes None Some("n1")"#),
            ("/api/v1/namespaces/a/nodes", "nothing"),
            (
                "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b",
                r#"endpointslices.discovery.k8s.io Some("a") Some("b")"#,
            ),
            ("/apis/discovery.k8s.io/v1beta1/endpointslices", "nothing"),
            ("/api/v1/services/", r#"services None Some("")"#),
            (
                "/api/v1/namespaces/a/pods/b/log",
                r#"pods Some("a") Some("b") log"#,
            ),
            (
                "/api/v1/namespaces/a/status",
                r#"namespaces None Some("a") status"#,
            ),
            ("/", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(show(path), expect, "{path}");
        }
    }
}
