//! The values of fields that an object does not give.

use serde_json::Value;

use super::{Form, Schema};

impl Schema {
    /// Gives missing fields their defaults, also those inside of defaults.
    pub(crate) fn complete(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for field in self.object().into_iter().flat_map(|it| &it.fields) {
                    let Some(default) = &field.schema.default else {
                        continue;
                    };
                    let slot = map.get(&*field.name);
                    let is_nullable = field.schema.is_nullable();
                    // A number or text of Go's that is always there is missing when it is zero.
                    let is_always = field.form == Form::Always;
                    let is_zero = |it: &Value| is_always && (it == "" || *it == 0);
                    if slot.is_none_or(|it| it.is_null() && !is_nullable || is_zero(it)) {
                        map.insert(field.name.to_string(), default.clone());
                    }
                }
                for (name, value) in map {
                    if let Some(schema) = self.field(name) {
                        let default = schema.default.as_ref();
                        let default = default.filter(|_| value.is_null() && !schema.is_nullable());
                        if let Some(default) = default {
                            *value = default.clone();
                        }
                        schema.complete(value);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = self.items() {
                    list.iter_mut().for_each(|it| items.complete(it));
                }
            }
            _ => {}
        }
    }
}
