//! What a path means.

use crate::resource::{self, Resource};

/// The thing a path names.
#[derive(Debug)]
pub(crate) enum Target {
    Version,
    Health,
    Objects {
        resource: &'static Resource,
        namespace: Option<String>,
        name: Option<String>,
    },
    Nothing,
}

impl Target {
    /// Reads `/api/v1/...` and `/apis/GROUP/VERSION/...`, cluster-wide or of one namespace.
    pub(crate) fn of(path: &str) -> Self {
        let parts: Vec<_> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            ["version"] => Self::Version,
            ["healthz" | "readyz" | "livez", ..] => Self::Health,
            ["api", version, rest @ ..] => Self::objects("", version, rest),
            ["apis", group, version, rest @ ..] => Self::objects(group, version, rest),
            _ => Self::Nothing,
        }
    }

    fn objects(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name) = match rest {
            [plural] => (*plural, None),
            [plural, name] => (*plural, Some((*name).to_owned())),
            _ => return Self::Nothing,
        };
        match resource::of_path(group, version, plural) {
            Some(resource) if resource.namespaced || namespace.is_none() => Self::Objects {
                resource,
                namespace: namespace.map(str::to_owned),
                name,
            },
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let show = |path: &str| match Target::of(path) {
            Target::Version => "version".to_owned(),
            Target::Health => "health".to_owned(),
            Target::Nothing => "nothing".to_owned(),
            Target::Objects {
                resource,
                namespace,
                name,
            } => format!("{} {namespace:?} {name:?}", resource.full_name()),
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
            ("/", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(show(path), expect, "{path}");
        }
    }
}
