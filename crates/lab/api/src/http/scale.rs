//! `scale`: the number of replicas of a workload as an object of its own.

use hyper::Method;
use serde_json::{Value, json};

use super::Call;
use super::options::{Verb, WriteOptions};
use super::patching::conflicts;
use super::writing::{Part, content, manager, with_warnings};
use crate::answer::{Answer, json_value};
use crate::apply::applied;
use crate::history::now;
use crate::patch::PatchType;
use crate::resource::{SCALE, Scale};
use crate::selector::selector_text;
use crate::status::Status;
use crate::validation;

impl Call<'_> {
    pub(super) fn scale(&self, of: &Scale, method: &Method, name: &str) -> Result<Answer, Status> {
        let workload = self.find(name)?;
        let scale = scale_of(of, &workload);
        let (verb, patch_type) = match *method {
            Method::GET => return Ok(json_value(&scale)),
            Method::PUT => (Verb::Update, None),
            Method::PATCH => {
                let patch_type = self.patch_type()?;
                (patch_type.verb(), Some(patch_type))
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let options = self.options(verb)?;
        let (wanted, warnings) = match patch_type {
            None => {
                let mut wanted = content(&SCALE.kind, self.content_type, self.body)?;
                self.fit(&SCALE, name, &mut wanted)?;
                let warnings = self.check(&SCALE, &mut wanted, &options)?;
                (wanted, warnings)
            }
            Some(PatchType::Apply) => {
                return self.apply_scale(of, name, &workload, &options);
            }
            Some(patch_type) => self.patched(&SCALE, &scale, name, patch_type, &options)?,
        };
        let mut new = Value::clone(&workload);
        *slot(&mut new, &of.replicas) = replicas_of(name, &wanted)?.into();
        known(&mut new, &wanted);
        let stored = self.store(&workload, new, Part::Scale, &options)?;
        let answer = json_value(&scale_of(of, &self.resource.show(stored)));
        Ok(with_warnings(answer, &warnings))
    }

    /// Server-side apply of the number of replicas, which the manager then owns in the workload
    /// (`managedfields/scalehandler.go`).
    fn apply_scale(
        &self,
        of: &Scale,
        name: &str,
        workload: &Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mut config = self.config(&SCALE.api_version(), &SCALE.kind)?;
        validation::prune(&SCALE, &mut config)?;
        let mut wanted = json!({});
        if !config["spec"]["replicas"].is_null() {
            *slot(&mut wanted, &of.replicas) = replicas_of(name, &config)?.into();
        }
        wanted["metadata"] = json!({"name": name});
        let manager = manager(options, Part::Scale);
        let conflicts = conflicts(options);
        let mut new = applied(
            &self.resource,
            Some(workload),
            &wanted,
            &manager,
            conflicts,
            &now(),
        )?;
        known(&mut new, &config);
        let stored = self.api.store.update_with(new, options.effect)?;
        Ok(json_value(&scale_of(of, &self.resource.show(stored))))
    }
}

/// Gives the workload the version and uid of a client's `Scale`, as preconditions of the write.
fn known(workload: &mut Value, scale: &Value) {
    for field in ["resourceVersion", "uid"] {
        let given = scale["metadata"][field].as_str();
        if let Some(given) = given.filter(|it| !it.is_empty()) {
            workload["metadata"][field] = given.into();
        }
    }
}

/// The wanted number in a `Scale`; a missing one is 0 (`ValidateScale` in `pkg/apis/autoscaling/validation`).
fn replicas_of(name: &str, scale: &Value) -> Result<i64, Status> {
    validation::refuse(&SCALE, name, &SCALE.schema.check("", scale, None))?;
    Ok(scale["spec"]["replicas"].as_i64().unwrap_or_default())
}

/// The value at a pointer, whose missing fields are made.
fn slot<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    let fields = pointer.split('/').skip(1);
    fields.fold(value, |value, field| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[field]
    })
}

fn scale_of(of: &Scale, workload: &Value) -> Value {
    let metadata = &workload["metadata"];
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64);
    let selector = match workload
        .pointer(&of.selector)
        .filter(|_| !of.selector.is_empty())
    {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(it) if it["matchLabels"].is_object() || it["matchExpressions"].is_array() => {
            selector_text(it)
        }
        Some(labels) => selector_text(&json!({"matchLabels": labels})),
    };
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(&of.replicas).unwrap_or(1)},
        "status": {
            "replicas": number(&of.current).unwrap_or_default(),
            "selector": selector,
        },
    })
}
