//! CustomResourceDefinitions: kinds that clients bring (`apiextensions-apiserver`).

mod structural;
mod validation;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::history::now;
use crate::resource::{NameRule, Published, Registry, Resource, Scale, Subresource};
use crate::schema::Schema;
use crate::status::Status;
use crate::table::{Column, Path, Source, Table};

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Completes and validates a definition, and decides which names it gets. Its names are served as soon as it is stored:
/// kube-apiserver's controllers need a moment for that.
///
/// # Errors
///
/// 422: the definition is wrong.
pub(crate) fn admit(
    resource: &Resource,
    registry: &Registry,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), Status> {
    let causes = validation::causes(old, new);
    if !causes.is_empty() {
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Status::invalid(resource, name, &causes));
    }
    if new["metadata"]["deletionTimestamp"].is_null() {
        let finalizers = &mut new["metadata"]["finalizers"];
        match finalizers.as_array_mut() {
            Some(all) if all.iter().any(|it| it == CLEANUP) => {}
            Some(all) => all.push(CLEANUP.into()),
            None => *finalizers = json!([CLEANUP]),
        }
    }
    conclude(registry, new);
    Ok(())
}

/// Sets the defaults (`apiextensions/v1/defaults.go`).
pub(crate) fn complete(definition: &mut Value) {
    let spec = &mut definition["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let (singular, list) = (kind.to_lowercase(), format!("{kind}List"));
    for (field, value) in [("singular", singular), ("listKind", list)] {
        let slot = &mut spec["names"][field];
        if slot.as_str().is_none_or(str::is_empty) {
            *slot = value.into();
        }
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
}

/// Sets the status: accepted names, conditions and stored versions
/// (`apiextensions-apiserver/pkg/controller/status/naming_controller.go`).
fn conclude(registry: &Registry, definition: &mut Value) {
    let conflict = conflict(registry, definition);
    let versions = items(&definition["spec"]["versions"]);
    let stored = versions.filter(|it| it["storage"] == true);
    let stored: Vec<_> = stored.map(|it| it["name"].clone()).collect();
    let names = definition["spec"]["names"].clone();
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    let status = &mut definition["status"];
    let accepted = match conflict {
        None => {
            status["acceptedNames"] = names;
            set(
                status,
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found",
            )
        }
        Some((reason, message)) => set(status, "NamesAccepted", "False", reason, &message),
    };
    match (accepted, is_established(&json!({"status": status}))) {
        (_, true) => {}
        (true, false) => {
            let message = "the initial names have been accepted";
            set(
                status,
                "Established",
                "True",
                "InitialNamesAccepted",
                message,
            );
        }
        (false, false) => {
            let message = "not all names are accepted";
            set(status, "Established", "False", "NotAccepted", message);
        }
    }
    let mut all: Vec<_> = items(&status["storedVersions"]).cloned().collect();
    all.extend(
        stored
            .into_iter()
            .filter(|it| !items(&status["storedVersions"]).any(|known| known == it)),
    );
    status["storedVersions"] = all.into();
}

/// Sets a condition. Its time changes with its status. Returns whether it is true.
pub(crate) fn set(status: &mut Value, sort: &str, is: &str, reason: &str, message: &str) -> bool {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let new = |since: &Value| {
        json!({
            "type": sort, "status": is, "reason": reason, "message": message, "lastTransitionTime": since,
        })
    };
    if let Some(all) = status["conditions"].as_array_mut() {
        match all.iter_mut().find(|it| it["type"] == sort) {
            Some(known) if known["status"] == is => *known = new(&known["lastTransitionTime"]),
            Some(known) => *known = new(&now().into()),
            None => all.push(new(&now().into())),
        }
    }
    is == "True"
}

/// Why the names of a definition are not free: reason and message.
fn conflict(registry: &Registry, definition: &Value) -> Option<(&'static str, String)> {
    let spec = &definition["spec"];
    let (names, group) = (&spec["names"], spec["group"].as_str().unwrap_or_default());
    let plural = names["plural"].as_str().unwrap_or_default();
    let is_own = |it: &Resource| it.plural == plural && it.custom;
    let others = registry
        .iter()
        .filter(|it| it.group == group && !is_own(it));
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for it in others {
        resources.extend([it.plural.clone(), it.kind.to_lowercase()]);
        resources.extend(it.short_names.iter().cloned());
        kinds.extend([it.kind.clone(), format!("{}List", it.kind)]);
    }
    let texts = |it: &Value| -> Vec<String> {
        let one = it.as_str().map(str::to_owned);
        let several = items(it).filter_map(|it| it.as_str().map(str::to_owned));
        one.into_iter().chain(several).collect()
    };
    let wanted = [
        ("ListKindConflict", &names["listKind"], &kinds),
        ("KindConflict", &names["kind"], &kinds),
        ("ShortNamesConflict", &names["shortNames"], &resources),
        ("SingularConflict", &names["singular"], &resources),
        ("PluralConflict", &names["plural"], &resources),
    ];
    wanted.into_iter().find_map(|(reason, name, taken)| {
        let name = texts(name).into_iter().find(|it| taken.contains(it))?;
        Some((reason, format!("{name:?} is already in use")))
    })
}

/// Whether a definition is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    let mut conditions = items(&definition["status"]["conditions"]);
    conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
}

/// The kinds that a definition brings: its versions, the stored one first.
pub(crate) fn versions(definition: &Value) -> Vec<Resource> {
    let versions = items(&definition["spec"]["versions"]);
    let mut all: Vec<_> = versions.map(|it| (it, version(definition, it))).collect();
    all.sort_by_key(|(it, _)| it["storage"] != true);
    all.retain(|(it, _)| it["storage"] == true || it["served"] == true);
    all.into_iter().map(|(_, it)| it).collect()
}

fn version(definition: &Value, version: &Value) -> Resource {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let texts = |it: &Value| items(it).map(text).collect();
    let subresources = &version["subresources"];
    let has_status = !subresources["status"].is_null();
    let pointer = |field: &str| text(&subresources["scale"][field]).replace('.', "/");
    let (group, name, kind) = (
        text(&spec["group"]),
        text(&version["name"]),
        text(&names["kind"]),
    );
    let deprecated = (version["deprecated"] == true).then(|| {
        let own = version["deprecationWarning"].as_str().map(str::to_owned);
        own.unwrap_or_else(|| format!("{group}/{name} {kind} is deprecated"))
    });
    let fields = items(&version["selectableFields"]).map(|it| text(&it["jsonPath"]));
    let fields = fields.map(|it| it.trim_start_matches('.').to_owned());
    Resource {
        plural: text(&names["plural"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        status: if has_status {
            Subresource::Served
        } else {
            Subresource::Absent
        },
        scale: subresources["scale"].is_object().then(|| Scale {
            replicas: pointer("specReplicasPath"),
            current: pointer("statusReplicasPath"),
            selector: pointer("labelSelectorPath"),
        }),
        parts: &[],
        fields: fields.collect(),
        name: NameRule::Subdomain,
        home: None,
        conversion: None,
        // A status that is a subresource has no first value.
        begin: if has_status { drop_status } else { |_| {} },
        defaults: None,
        admit: None,
        warnings: None,
        deprecated,
        list_kind: text(&names["listKind"]),
        creates_by_put: false,
        versioned: true,
        deletes_collections: true,
        shows_deleted: false,
        served: version["served"] == true,
        custom: true,
        computed: None,
        published: Some(Arc::new(Published::new(published(
            &group, &name, &kind, version,
        )))),
        table: table(version),
        // The definition was validated.
        schema: Schema::of_openapi(&version["schema"]["openAPIV3Schema"]).unwrap_or_default(),
        group,
        version: name,
        kind,
    }
}

fn drop_status(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}

/// The schema for OpenAPI: as it was given, with what every object has.
fn published(group: &str, version: &str, kind: &str, definition: &Value) -> Value {
    let mut schema = definition["schema"]["openAPIV3Schema"].clone();
    let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    for (field, value) in [
        ("apiVersion", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        ("metadata", json!({"allOf": [{"$ref": metadata}]})),
    ] {
        schema["properties"][field] = value;
    }
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": group, "version": version, "kind": kind}]);
    schema
}

fn table(version: &Value) -> Table {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let columns = items(&version["additionalPrinterColumns"]).map(|it| {
        let path = Path::of(it["jsonPath"].as_str().unwrap_or_default());
        Column {
            name: text(&it["name"]),
            sort: text(&it["type"]),
            format: text(&it["format"]),
            description: text(&it["description"]),
            priority: it["priority"].as_i64().unwrap_or_default(),
            source: match it["type"].as_str() {
                Some("date") => Source::Since(path, Value::Null),
                _ => Source::At(path, Value::Null),
            },
        }
    });
    let columns: Vec<_> = columns.collect();
    if columns.is_empty() {
        Table::of("Name, Age")
    } else {
        Table::with(columns)
    }
}

/// The warnings for a definition: the rules in CEL that the server does not evaluate.
pub(crate) fn warnings(_: &Resource, definition: &Value) -> Vec<String> {
    let mut places = Vec::new();
    for (at, version) in items(&definition["spec"]["versions"]).enumerate() {
        let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
        structural::expressions(&version["schema"]["openAPIV3Schema"], &path, &mut places);
    }
    let warning = |it| format!("{it}: the lab does not evaluate CEL expressions");
    places.into_iter().map(warning).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
