//! `metadata.managedFields`: which manager owns which fields.

use serde_json::{Value, json};

use super::Manager;
use super::fields::{Fields, Path};
use crate::resource::Resource;

/// Most managers of one object that wrote by other means than apply (`DefaultMaxUpdateManagers`).
const MOST_UPDATES: usize = 10;

/// The manager that gets the fields of the oldest managers.
const ANCIENT: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

#[derive(Debug)]
struct Entry {
    manager: String,
    subresource: String,
    operation: Operation,
    api_version: String,
    time: String,
    fields: Fields,
}

/// The managers of one object.
#[derive(Debug)]
pub(super) struct Managers(Vec<Entry>);

/// Gives the wish of a client that no manager owns anything, an empty list, its other form, a list of one empty entry: an
/// object in its one form has no empty lists (`isResetManagedFields`).
pub(crate) fn keep_reset(object: &mut Value) {
    if let Some(given) = object.pointer_mut("/metadata/managedFields")
        && *given == json!([])
    {
        *given = json!([{}]);
    }
}

pub(super) fn is_reset(given: &Value) -> bool {
    *given == json!([{}])
}

impl Managers {
    /// Reads `metadata.managedFields`.
    pub(super) fn of(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let entries = entries.into_iter().flatten().map(|entry| Entry {
            manager: text(&entry["manager"]),
            subresource: text(&entry["subresource"]),
            operation: match entry["operation"].as_str() {
                Some("Apply") => Operation::Apply,
                _ => Operation::Update,
            },
            api_version: text(&entry["apiVersion"]),
            time: text(&entry["time"]),
            fields: Fields::read(&entry["fieldsV1"]),
        });
        Self(entries.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the entry of a manager and returns its fields and its time.
    pub(super) fn take(
        &mut self,
        manager: &Manager,
        operation: Operation,
    ) -> Option<(Fields, String)> {
        let place = self.0.iter().position(|it| {
            (it.manager.as_str(), it.subresource.as_str(), it.operation)
                == (
                    manager.name.as_str(),
                    manager.subresource.as_str(),
                    operation,
                )
        })?;
        let entry = self.0.remove(place);
        Some((entry.fields, entry.time))
    }

    pub(super) fn put(
        &mut self,
        manager: &Manager,
        operation: Operation,
        resource: &Resource,
        fields: Fields,
        time: String,
    ) {
        self.0.push(Entry {
            manager: manager.name.clone(),
            subresource: manager.subresource.clone(),
            operation,
            api_version: resource.api_version(),
            time,
            fields,
        });
    }

    /// Which managers own some of `changed`. A manager has the name that conflict messages use; `version` takes the place of
    /// the one in which it wrote.
    pub(super) fn owning(&self, changed: &Fields, version: Option<&str>) -> Vec<(String, Path)> {
        let mut owned = Vec::new();
        for it in &self.0 {
            let mut shown = format!("{:?}", it.manager);
            if !it.subresource.is_empty() {
                shown.push_str(&format!(" with subresource {:?}", it.subresource));
            }
            if it.operation == Operation::Update {
                let version = version.unwrap_or(&it.api_version);
                shown.push_str(&format!(" using {version}"));
            }
            let paths = it.fields.shared(changed).paths().into_iter();
            owned.extend(paths.map(|path| (shown.clone(), path)));
        }
        owned.sort_by(|(_, one), (_, other)| one.cmp(other));
        owned
    }

    /// The fields of each manager, and `more`.
    pub(super) fn fields<'a>(&'a self, more: &'a Fields) -> Vec<&'a Fields> {
        let all = self.0.iter().map(|it| &it.fields);
        all.chain([more]).collect()
    }

    /// Takes the ownership of `paths` from every manager.
    pub(super) fn disown(&mut self, paths: &Fields) {
        for entry in &mut self.0 {
            entry.fields.remove(paths);
        }
    }

    /// Gives the fields of the oldest managers that updated to one, when there are too many of them
    /// (`managedfields/internal/capmanagers.go`).
    pub(super) fn cap(&mut self) {
        let all = std::mem::take(&mut self.0).into_iter();
        let (mut updates, mut kept): (Vec<_>, Vec<_>) =
            all.partition(|it| it.operation == Operation::Update);
        updates.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
        let mut more = updates.len().saturating_sub(MOST_UPDATES);
        let begin = kept.len();
        for it in updates {
            let mut oldest = kept[begin..].iter_mut().filter(|_| more > 0);
            match oldest.find(|oldest| oldest.api_version == it.api_version) {
                None => kept.push(it),
                Some(bucket) => {
                    bucket.manager = ANCIENT.to_owned();
                    bucket.subresource.clear();
                    bucket.fields.extend(it.fields);
                    bucket.time = it.time;
                    more -= 1;
                }
            }
        }
        self.0 = kept;
    }

    /// Writes `metadata.managedFields`.
    pub(super) fn write(mut self, object: &mut Value) {
        self.0.retain(|it| !it.fields.is_empty());
        // `sortEncodedManagedFields` in `managedfields/internal/managedfields.go`.
        self.0.sort_by(|a, b| {
            let order = |it: &Entry| it.operation == Operation::Update;
            (
                order(a),
                &a.time,
                &a.manager,
                &a.api_version,
                &a.subresource,
            )
                .cmp(&(
                    order(b),
                    &b.time,
                    &b.manager,
                    &b.api_version,
                    &b.subresource,
                ))
        });
        let entries = self.0.iter().map(|it| {
            let mut entry = json!({
                "manager": it.manager,
                "operation": match it.operation {
                    Operation::Apply => "Apply",
                    Operation::Update => "Update",
                },
                "apiVersion": it.api_version,
                "time": it.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": it.fields.write(),
            });
            if !it.subresource.is_empty() {
                entry["subresource"] = it.subresource.clone().into();
            }
            entry
        });
        let entries: Value = entries.collect();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("managedFields".to_owned(), entries);
        }
    }
}
