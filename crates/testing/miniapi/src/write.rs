//! POST, PUT and PATCH of the collections that clients may write.

use serde_json::Value;

use crate::error::Error;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::{Expect, Refusal, Store, WriteError};

/// A write request for one collection.
pub(crate) struct Write<'a> {
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) method: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
}

impl Write<'_> {
    /// Carries it out. The answer is a status code and the object as stored.
    pub(crate) fn run(self, store: &Store) -> Result<(u16, Value), Status> {
        if !self.resource.writable {
            return Err(Status::method_not_allowed());
        }
        let wrong = |it| Status::bad_request(format!("the body is no JSON object: {it}"));
        let body: Value = serde_json::from_slice(self.body).map_err(wrong)?;
        match (self.method, &self.name) {
            ("POST", None) => self.put(store, body, Expect::Absent, 201),
            ("PUT", Some(_)) => {
                let version = body["metadata"]["resourceVersion"].as_str();
                let version = version.and_then(|it| it.parse().ok());
                self.put(store, body, Expect::Present(version), 200)
            }
            ("PATCH", Some(_)) => self.patch(store, body),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn patch(self, store: &Store, patch: Value) -> Result<(u16, Value), Status> {
        let known = [
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        if !known.iter().any(|it| self.content_type.starts_with(it)) {
            return Err(Status::unsupported_media_type());
        }
        let name = self.name.clone().unwrap_or_default();
        let key = crate::object::Key {
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.clone(),
        };
        let old = store.lock().collection(self.resource).get(&key).cloned();
        let missing = || Status::not_found(&self.resource.full_name(), &name);
        let old = old.ok_or_else(missing)?;
        let mut object = old.value();
        merge(&mut object, patch);
        let expect = Expect::Present(Some(old.revision));
        self.put(store, object, expect, 200)
    }

    fn put(
        &self,
        store: &Store,
        mut object: Value,
        expect: Expect,
        code: u16,
    ) -> Result<(u16, Value), Status> {
        if !object.is_object() || !object["metadata"].is_object() {
            return Err(Status::bad_request("the body is no object with metadata"));
        }
        // Clients may leave the type to the path.
        for (field, real) in [
            ("kind", self.resource.kind.to_owned()),
            ("apiVersion", self.resource.api_version()),
        ] {
            if object[field].as_str().unwrap_or(&real) != real {
                let message = format!("{field} {} does not fit the path", object[field]);
                return Err(Status::bad_request(message));
            }
            object[field] = real.into();
        }
        let metadata = &mut object["metadata"];
        if let (Some(prefix), None) = (metadata["generateName"].as_str(), metadata["name"].as_str())
        {
            let revision = store.lock().revision;
            metadata["name"] = format!("{prefix}{revision:05x}").into();
        }
        for (field, path) in [("name", &self.name), ("namespace", &self.namespace)] {
            let Some(path) = path else { continue };
            let given = object["metadata"][field].as_str().unwrap_or(path);
            if given != path {
                let message = format!("metadata.{field} {given:?} does not fit the path");
                return Err(Status::bad_request(message));
            }
            object["metadata"][field] = path.clone().into();
        }
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let full = self.resource.full_name();
        match store.write(object, expect) {
            Ok(stored) => Ok((code, stored.value())),
            Err(WriteError::Object(Error::Object { why, .. })) => Err(Status::new(
                422,
                "Invalid",
                format!("{full} {name:?} is invalid: {why}"),
            )),
            Err(WriteError::Object(other)) => Err(Status::bad_request(other.to_string())),
            Err(WriteError::Refused(Refusal::Exists)) => Err(Status::already_exists(&full, &name)),
            Err(WriteError::Refused(Refusal::Missing)) => Err(Status::not_found(&full, &name)),
            Err(WriteError::Refused(Refusal::Conflict)) => Err(Status::conflict(&full, &name)),
        }
    }
}

/// RFC 7396: null removes, objects merge, everything else replaces.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if let Some(fields) = target.as_object_mut() {
            match value {
                Value::Null => {
                    fields.remove(&key);
                }
                value => merge(fields.entry(key).or_insert(Value::Null), value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_merge() {
        // From the table of RFC 7396, appendix A.
        for (target, patch, expect) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!([1]), json!({"a": {"b": null}}), json!({"a": {}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expect, "{target} {patch}");
        }
    }
}
