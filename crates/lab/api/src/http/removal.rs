//! DELETE.

use serde_json::{Value, json};

use super::Call;
use super::options::effect;
use super::writing::content;
use crate::answer::{Answer, json_value, success};
use crate::format::{Format, Include};
use crate::list;
use crate::query::Query;
use crate::status::{self, Status};
use crate::store::{DeleteOptions, Effect, Propagation, ends_at_once, unknown_kind};

impl Call<'_> {
    pub(super) fn delete(&self, name: &str) -> Result<Answer, Status> {
        let options = self.delete_options(&self.body_or_null()?)?;
        let key = self.key(name);
        let last = self.api.store.delete_of(&self.resource, &key, &options)?;
        // As kube-apiserver: the object while it still exists or where its kind is so, else a Status `Success`.
        let object = self.api.store.object(&self.resource, &key);
        let is_there =
            object.is_some_and(|it| it.value()["metadata"]["uid"] == last["metadata"]["uid"]);
        let remains = match options.effect {
            Effect::Stored => is_there,
            Effect::DryRun => !ends_at_once(&self.resource, &last, &options),
        };
        if remains || self.resource.shows_deleted {
            return self.shown(&last);
        }
        let mut details = status::details(&self.resource, name);
        details["uid"] = last["metadata"]["uid"].clone();
        Ok(success(&details))
    }

    pub(super) fn delete_collection(&self) -> Result<Answer, Status> {
        let options = self.delete_options(&self.body_or_null()?)?;
        let mut query = Query::parse(self.query, &self.resource)?;
        query.filter.namespace = self.namespace.clone();
        let page = list::choose(
            &self.api.store.history().lock(),
            &self.resource,
            &query,
            None,
        )?;
        let mut items = Vec::new();
        for object in &page.items {
            match self
                .api
                .store
                .delete_of(&self.resource, &object.key, &options)
            {
                Ok(last) => items.push(Value::clone(&self.resource.show(last))),
                // Another client deleted it since the list.
                Err(status) if status.reason() == "NotFound" => {}
                Err(status) => return Err(status),
            }
        }
        Ok(json_value(&json!({
            "kind": self.resource.list_kind,
            "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": self.api.store.revision().to_string()},
            "items": items,
        })))
    }

    fn body_or_null(&self) -> Result<Value, Status> {
        match self.body {
            [] => Ok(Value::Null),
            _ => content("DeleteOptions", self.content_type, self.body),
        }
    }

    /// Reads the options of a `DeleteOptions` body and of the query parameters.
    pub(super) fn delete_options(&self, body: &Value) -> Result<DeleteOptions, Status> {
        Format::of(self.accept, Include::None)?;
        let kind = body["kind"].as_str().unwrap_or_default();
        if !["", "DeleteOptions"].contains(&kind) {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            return Err(unknown_kind(version, kind));
        }
        let wrong = |field: &str| Status::bad_request(format!("{field} cannot be read"));
        let seconds = "gracePeriodSeconds";
        let grace = match (&body[seconds], self.parameter(seconds)) {
            (Value::Null, None) => None,
            (Value::Null, Some(text)) => Some(text.parse().map_err(|_| wrong(seconds))?),
            (given, _) => {
                let given = given.as_i64().ok_or_else(|| wrong(seconds))?;
                // Negative seconds are one (`BeforeDelete` in `registry/rest/delete.go`).
                let given = if given < 0 { 1 } else { given };
                Some(u32::try_from(given).map_err(|_| wrong(seconds))?)
            }
        };
        let policy = match body["propagationPolicy"].as_str() {
            Some(policy) => Some(policy.to_owned()),
            None => self.parameter("propagationPolicy"),
        };
        let propagation = propagation(policy.as_deref(), body["orphanDependents"].as_bool())?;
        let text = |it: &Value| it.as_str().map(str::to_owned);
        let stages = body["dryRun"].as_array().map_or(&[][..], Vec::as_slice);
        if stages.iter().any(|it| it != "All") {
            let given = &body["dryRun"];
            let why = format!("Unsupported value: {given}: supported values: \"All\"");
            return Err(Status::invalid_delete_options("dryRun", &why));
        }
        let dry = !stages.is_empty();
        Ok(DeleteOptions {
            grace,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            propagation,
            effect: if dry {
                Effect::DryRun
            } else {
                let wrong = |it| Status::invalid_options("DeleteOptions", &[it]);
                effect(self.query).map_err(wrong)?
            },
        })
    }
}

/// What happens to dependents, of both forms in which a request says it (`ValidateDeleteOptions` in
/// `apimachinery/pkg/apis/meta/v1/validation`).
fn propagation(policy: Option<&str>, orphans: Option<bool>) -> Result<Propagation, Status> {
    let field = "propagationPolicy";
    match (policy, orphans) {
        (None, None) => Ok(Propagation::Unspecified),
        (None, Some(true)) => Ok(Propagation::Orphan),
        (None, Some(false)) => Ok(Propagation::Background),
        (Some(policy), Some(_)) => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            Err(Status::invalid_delete_options(
                field,
                &format!("Invalid value: {policy:?}: {why}"),
            ))
        }
        (Some("Background"), None) => Ok(Propagation::Background),
        (Some("Foreground"), None) => Ok(Propagation::Foreground),
        (Some("Orphan"), None) => Ok(Propagation::Orphan),
        (Some(policy), None) => {
            let all = r#""Foreground", "Background", "Orphan", "nil""#;
            let why = format!("Unsupported value: {policy:?}: supported values: {all}");
            Err(Status::invalid_delete_options(field, &why))
        }
    }
}
