//! Validation of CustomResourceDefinitions (`pkg/apis/apiextensions/validation/validation.go`).

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_controller::Format;
use sluice_model::{is_label, is_subdomain};

use super::{items, structural};
use crate::schema::Schema;
use crate::status::Cause;

/// The message for a name that is no DNS-1035 label (`IsDNS1035Label`).
const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The annotation that definitions of Kubernetes' own groups need.
const APPROVED: &str = "api-approved.kubernetes.io";

/// What is wrong with a definition.
pub(super) fn causes(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Causes(Vec::new());
    let spec = &new["spec"];
    causes.place(new);
    causes.names(&spec["names"]);
    causes.versions(spec);
    if spec["preserveUnknownFields"] == true {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        causes.invalid("spec.preserveUnknownFields", &true.into(), why);
    }
    let strategy = &spec["conversion"]["strategy"];
    if *strategy != "None" {
        let why = format!("Unsupported value: {strategy}: supported values: \"None\"");
        causes.push("spec.conversion.strategy", why);
    }
    if let Some(old) = old {
        causes.change(old, new);
    }
    causes.0
}

struct Causes(Vec<Cause>);

impl Causes {
    fn push(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Cause::new(field, message));
    }

    fn invalid(&mut self, field: impl Into<String>, value: &Value, why: &str) {
        self.push(field, format!("Invalid value: {value}: {why}"));
    }

    /// A name that must be a label, if it is given.
    fn label(&mut self, field: impl Into<String>, value: &Value, before: &str) {
        let text = value.as_str().unwrap_or_default().to_owned();
        let text = if before.is_empty() {
            text
        } else {
            text.to_lowercase()
        };
        let is_label = is_label(&text) && text.starts_with(|it: char| it.is_ascii_lowercase());
        if !text.is_empty() && !is_label {
            self.invalid(field, value, &format!("{before}{LABEL}"));
        }
    }

    /// The definition's name, group and scope.
    fn place(&mut self, new: &Value) {
        let (metadata, spec) = (&new["metadata"], &new["spec"]);
        let group = spec["group"].as_str().unwrap_or_default();
        let plural = spec["names"]["plural"].as_str().unwrap_or_default();
        if metadata["name"] != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            self.invalid("metadata.name", &metadata["name"], why);
        }
        let is_kubernetes = |it: &str| group == it || group.ends_with(&format!(".{it}"));
        if (is_kubernetes("k8s.io") || is_kubernetes("kubernetes.io"))
            && metadata["annotations"][APPROVED]
                .as_str()
                .is_none_or(str::is_empty)
        {
            let message = format!(
                "Required value: protected groups must have approval annotation {APPROVED:?}, see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            self.push(format!("metadata.annotations[{APPROVED}]"), message);
        }
        match group {
            "" => self.push("spec.group", "Required value"),
            it if !is_subdomain(it) => {
                for why in Format::Subdomain.problems(it) {
                    self.invalid("spec.group", &it.into(), &why);
                }
            }
            it if !it.contains('.') => {
                self.invalid(
                    "spec.group",
                    &it.into(),
                    "should be a domain with at least one dot",
                );
            }
            _ => {}
        }
        match spec["scope"].as_str().unwrap_or_default() {
            "Cluster" | "Namespaced" => {}
            "" => self.push("spec.scope", "Required value"),
            other => self.push(
                "spec.scope",
                format!(
                    "Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\""
                ),
            ),
        }
    }

    fn names(&mut self, names: &Value) {
        for field in ["plural", "kind"] {
            if names[field].as_str().is_none_or(str::is_empty) {
                self.push(format!("spec.names.{field}"), "Required value");
            }
        }
        let mixed = "may have mixed case, but should otherwise match: ";
        for (field, before) in [
            ("plural", ""),
            ("singular", ""),
            ("kind", mixed),
            ("listKind", mixed),
        ] {
            self.label(format!("spec.names.{field}"), &names[field], before);
        }
        for field in ["shortNames", "categories"] {
            for (at, name) in items(&names[field]).enumerate() {
                self.label(format!("spec.names.{field}[{at}]"), name, "");
            }
        }
        if names["kind"] == names["listKind"] {
            let why = "kind and listKind may not be the same";
            self.invalid("spec.names.listKind", &names["listKind"], why);
        }
    }

    fn versions(&mut self, spec: &Value) {
        let versions: Vec<_> = items(&spec["versions"]).collect();
        // A schema that all versions share is validated once, at the place that version 1beta1 had for it.
        let schemas: Vec<_> = versions.iter().map(|it| &it["schema"]).collect();
        let is_one = schemas.windows(2).all(|it| it[0] == it[1]);
        for (at, version) in versions.iter().enumerate() {
            let path = format!("spec.versions[{at}]");
            self.label(format!("{path}.name"), &version["name"], "");
            let schema = &version["schema"]["openAPIV3Schema"];
            let place = if is_one {
                "spec.validation.openAPIV3Schema".to_owned()
            } else {
                format!("{path}.schema.openAPIV3Schema")
            };
            if schema.is_null() {
                self.push(
                    format!("{path}.schema.openAPIV3Schema"),
                    "Required value: schemas are required",
                );
            } else if !is_one || at == 0 {
                self.schema(schema, &place);
            }
            for (at, column) in items(&version["additionalPrinterColumns"]).enumerate() {
                self.column(column, &format!("{path}.additionalPrinterColumns[{at}]"));
            }
            let scale = &version["subresources"]["scale"];
            if scale.is_object() {
                self.scale(scale, &format!("{path}.subresources.scale"));
            }
        }
        let names: BTreeSet<_> = versions.iter().map(|it| it["name"].to_string()).collect();
        let stored = versions.iter().filter(|it| it["storage"] == true).count();
        let all = &spec["versions"];
        if names.len() < versions.len() {
            self.invalid("spec.versions", all, "must contain unique version names");
        }
        if stored != 1 {
            let why = "must have exactly one version marked as storage version";
            self.invalid("spec.versions", all, why);
        }
    }

    fn schema(&mut self, schema: &Value, path: &str) {
        let wrong = structural::causes(schema, path);
        if wrong.is_empty()
            && let Err(why) = Schema::of_openapi(schema)
        {
            self.invalid(path, &Value::Null, &why);
        } else if wrong.is_empty() {
            self.defaults(schema, path);
        }
        self.0.extend(wrong);
    }

    /// Each default is a value that its schema accepts (`apiserver/schema/defaulting/validation.go`).
    fn defaults(&mut self, schema: &Value, path: &str) {
        if let (Some(given), Ok(own)) = (schema.get("default"), Schema::of_part(schema)) {
            let path = format!("{path}.default");
            let mut pruned = given.clone();
            // A wrong type is found below.
            let unknown = own.prune(&mut pruned).unwrap_or_default();
            if !unknown.is_empty() {
                self.invalid(&path, given, "must not have unknown fields");
            }
            for mut cause in own.check("", given, None) {
                cause.field = [&*path, &*cause.field].join(".");
                cause
                    .field
                    .truncate(cause.field.trim_end_matches('.').len());
                self.0.push(cause);
            }
        }
        for (below, path) in structural::children(schema, path) {
            self.defaults(below, &path);
        }
    }

    fn column(&mut self, column: &Value, path: &str) {
        const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        if text("name").is_empty() {
            self.push(format!("{path}.name"), "Required value");
        }
        if !TYPES.contains(&text("type")) {
            let why = format!("must be one of {}", TYPES.join(","));
            self.invalid(format!("{path}.type"), &column["type"], &why);
        }
        match text("jsonPath") {
            "" => self.push(format!("{path}.JSONPath"), "Required value"),
            given if !given.starts_with('.') => {
                let why = "must be a simple json path starting with .";
                self.invalid(format!("{path}.JSONPath"), &given.into(), why);
            }
            _ => {}
        }
    }

    fn scale(&mut self, scale: &Value, path: &str) {
        for (field, below) in [
            ("specReplicasPath", ".spec."),
            ("statusReplicasPath", ".status."),
        ] {
            match scale[field].as_str().unwrap_or_default() {
                "" => self.push(format!("{path}.{field}"), "Required value"),
                given if !given.starts_with(below) => {
                    let why = format!(
                        "should be a json path under {}",
                        below.trim_end_matches('.')
                    );
                    self.invalid(format!("{path}.{field}"), &given.into(), &why);
                }
                _ => {}
            }
        }
        let selector = scale["labelSelectorPath"].as_str().unwrap_or_default();
        if !selector.is_empty()
            && ![".spec.", ".status."]
                .iter()
                .any(|it| selector.starts_with(it))
        {
            let why = "should be a json path under either .spec or .status";
            self.invalid(format!("{path}.labelSelectorPath"), &selector.into(), why);
        }
    }

    /// Refuses a change of the group and the names, and of what is fixed once the definition is established.
    fn change(&mut self, old: &Value, new: &Value) {
        let mut fields = vec!["/spec/group", "/spec/names/plural"];
        if super::is_established(old) {
            fields.extend(["/spec/scope", "/spec/names/kind"]);
        }
        for field in fields {
            let value = |it: &Value| it.pointer(field).cloned().unwrap_or_default();
            if value(old) != value(new) {
                let path = field.trim_start_matches('/').replace('/', ".");
                self.invalid(path, &value(new), "field is immutable");
            }
        }
        let versions: Vec<_> = items(&new["spec"]["versions"])
            .map(|it| &it["name"])
            .collect();
        for (at, stored) in items(&new["status"]["storedVersions"]).enumerate() {
            if !versions.contains(&stored) {
                let path = format!("status.storedVersions[{at}]");
                let name = stored.as_str().unwrap_or_default();
                let why = format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                     {name} from status.storedVersions"
                );
                self.invalid(path, stored, &why);
            }
        }
    }
}
