//! The kinds that a lab serves, as its discovery tells them.

use std::sync::Arc;

use anyhow::bail;
use http::header::ACCEPT;
use serde_json::Value;

use super::Client;

/// The header `Accept` that asks for all kinds in one answer.
const ALL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A kind that is served, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// The name in objects: `EndpointSlice`.
    pub kind: String,
    /// The name in paths: `endpointslices`.
    pub plural: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    /// Whether the subresource `scale` is served.
    pub scales: bool,
}

impl Kind {
    /// `endpointslices.discovery.k8s.io`.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The `apiVersion` of the objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of the collection, or of one object in it.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let mut path = format!("/{root}/{}", self.api_version());
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", self.plural);
        if let Some(name) = name {
            path += &format!("/{name}");
        }
        path
    }

    /// Whether kubectl accepts this name for the kind: `pods`, `pod`, `po`, `Pod`, `pods.v1.` and the full name.
    fn has_name(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        self.plural == lower
            || self.kind.to_lowercase() == lower
            || self.short_names.contains(&lower)
            || self.full_name() == lower
            || format!("{}.{}.{}", self.plural, self.version, self.group) == lower
    }
}

impl Client {
    /// The kind with a name that kubectl accepts. Of several groups the first one in the server's order has it.
    ///
    /// # Errors
    ///
    /// No kind has that name, or the server does not answer.
    pub fn kind(&self, name: &str) -> anyhow::Result<Arc<Kind>> {
        self.find_kind(|it| it.has_name(name), name)
    }

    /// The kind of an object.
    ///
    /// # Errors
    ///
    /// The kind is not served, or the server does not answer.
    pub fn kind_of(&self, object: &Value) -> anyhow::Result<Arc<Kind>> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_it = |it: &Kind| it.kind == kind && it.api_version() == api_version;
        self.find_kind(is_it, &format!("{kind} in {api_version}"))
    }

    /// Asks for the kinds when they are not known, or lack this one: a CustomResourceDefinition may have brought it.
    fn find_kind(&self, is_it: impl Fn(&Kind) -> bool, name: &str) -> anyhow::Result<Arc<Kind>> {
        let mut kinds = self.kinds.lock().expect("nobody panics with the kinds");
        if let Some(found) = kinds.iter().find(|it| is_it(it)) {
            return Ok(found.clone());
        }
        *kinds = ["/api", "/apis"]
            .map(|it| self.discover(it))
            .into_iter()
            .collect::<anyhow::Result<Vec<_>>>()?
            .concat();
        if let Some(found) = kinds.iter().find(|it| is_it(it)) {
            return Ok(found.clone());
        }
        let all: Vec<_> = kinds.iter().map(|it| it.plural.as_str()).collect();
        bail!("there is no kind {name}; there are {}", all.join(", "))
    }

    fn discover(&self, root: &str) -> anyhow::Result<Vec<Arc<Kind>>> {
        let request = http::Request::get(root).header(ACCEPT, ALL);
        Ok(read(&self.send(request.body(Vec::new())?)?))
    }
}

/// The kinds of an `APIGroupDiscoveryList` that can be read.
fn read(discovered: &Value) -> Vec<Arc<Kind>> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for version in items(&discovered["items"]).flat_map(|it| items(&it["versions"])) {
        let readable =
            items(&version["resources"]).filter(|it| items(&it["verbs"]).any(|it| it == "get"));
        found.extend(readable.map(|it| {
            let kind = &it["responseKind"];
            Arc::new(Kind {
                group: text(&kind["group"]),
                version: text(&kind["version"]),
                kind: text(&kind["kind"]),
                plural: text(&it["resource"]),
                short_names: items(&it["shortNames"]).map(text).collect(),
                namespaced: it["scope"] == "Namespaced",
                scales: items(&it["subresources"]).any(|it| it["subresource"] == "scale"),
            })
        }));
    }
    found
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_found_by_every_name_of_kubectl() {
        let resource = |plural: &str, kind: &str, short: &str, verbs: &[&str]| {
            json!({
                "resource": plural, "scope": "Namespaced", "shortNames": [short], "verbs": verbs,
                "responseKind": {"group": "example.com", "version": "v2", "kind": kind},
                "subresources": [{"subresource": "status"}, {"subresource": "scale"}],
            })
        };
        let kinds = read(
            &json!({"items": [{"metadata": {"name": "example.com"}, "versions": [{"version": "v2", "resources": [
                resource("widgets", "Widget", "wd", &["get", "list"]),
                resource("reviews", "Review", "rv", &["create"]),
            ]}]}]}),
        );
        let [widget] = kinds.as_slice() else {
            panic!("a kind that can only be created is no object: {kinds:?}");
        };
        for name in [
            "widgets",
            "widget",
            "Widget",
            "wd",
            "widgets.example.com",
            "widgets.v2.example.com",
        ] {
            assert!(widget.has_name(name), "{name}");
        }
        assert!(!widget.has_name("widgets.v1.example.com") && widget.scales);
        assert_eq!(
            widget.path(Some("n"), Some("a")),
            "/apis/example.com/v2/namespaces/n/widgets/a"
        );
        assert_eq!(widget.path(None, None), "/apis/example.com/v2/widgets");
    }
}
