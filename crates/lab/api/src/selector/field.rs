//! `fieldSelector`: equality of the few fields that a collection offers.

use crate::object::Object;
use crate::resource::Resource;

/// A parsed field selector; the empty one matches every object.
#[derive(Debug, Default)]
pub struct FieldSelector(Vec<Term>);

#[derive(Debug)]
struct Term {
    field: Field,
    equal: bool,
    value: String,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// The position in [`Resource::fields`].
    Own(usize),
}

impl FieldSelector {
    /// Parses `metadata.name=a,spec.clusterIP!=None`.
    ///
    /// # Errors
    ///
    /// A term has no operator, or the collection does not offer the field.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, String> {
        let terms = text.split(',').filter(|it| !it.is_empty());
        let terms = terms.map(|term| {
            let (field, equal, value) = if let Some((field, value)) = term.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = term.split_once("==") {
                (field, true, value)
            } else if let Some((field, value)) = term.split_once('=') {
                (field, true, value)
            } else {
                return Err(format!("invalid field selector: {term:?}"));
            };
            let own = |field| resource.fields.iter().position(|it| it == field);
            let field = match field {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                other => own(other)
                    .map(Field::Own)
                    .ok_or_else(|| format!("field label not supported: {field}"))?,
            };
            let value = value.to_owned();
            Ok(Term {
                field,
                equal,
                value,
            })
        });
        terms.collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|term| {
            let real = match term.field {
                Field::Name => &*object.key.name,
                Field::Namespace => &*object.key.namespace,
                Field::Own(at) => object.fields.get(at).map_or("", String::as_str),
            };
            (real == term.value) == term.equal
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Key;
    use crate::resource::KINDS;

    #[test]
    fn fields_are_compared() {
        let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
        let key = Key::new("ns", "web");
        let body = json!({"metadata": {}, "spec": {"clusterIP": "None"}});
        let object = Object::freeze(resource.clone(), key, 1, body.as_object().unwrap().clone());
        for (text, expect) in [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name==web,metadata.namespace=ns", true),
            ("metadata.name=web,metadata.namespace=other", false),
            ("metadata.namespace!=ns", false),
            ("spec.clusterIP!=None", false),
            ("spec.clusterIP=None", true),
            ("spec.type=", true),
            ("spec.type!=ExternalName", true),
        ] {
            let selector = FieldSelector::parse(text, resource).unwrap();
            assert_eq!(selector.matches(&object), expect, "{text}");
        }
        for (text, expect) in [
            ("metadata.name", "invalid field selector"),
            ("spec.ports=1", "field label not supported: spec.ports"),
        ] {
            let error = FieldSelector::parse(text, resource).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }
}
