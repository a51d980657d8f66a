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
    /// Parses `metadata.name=a,spec.clusterIP!=None` (`apimachinery/pkg/fields/selector.go`). In a value, `\` stands
    /// before `\`, `,` and `=`.
    ///
    /// # Errors
    ///
    /// A term has no operator, a value is not escaped, or the collection does not offer the field.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, String> {
        let terms = split(text).into_iter().filter(|it| !it.is_empty());
        let terms = terms.map(|term| {
            let all = || format!("invalid selector: '{text}'; can't understand '{term}'");
            // The first operator counts: a value may have others, escaped.
            let (before, value) = term.split_once('=').ok_or_else(all)?;
            let (field, equal, value) = match before.strip_suffix('!') {
                Some(field) => (field, false, value),
                None => (before, true, value.strip_prefix('=').unwrap_or(value)),
            };
            Ok(Term {
                field: Field::of(field, resource)?,
                equal,
                value: unescaped(value)?,
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

impl Field {
    /// The words are those of each kind's conversion function (`pkg/apis/*/v1/conversion.go`), or of
    /// `DefaultMetaV1FieldSelectorConversion` where there is none. Only that one takes a namespace for objects without.
    fn of(name: &str, resource: &Resource) -> Result<Self, String> {
        let has_own = resource.custom || !resource.fields.is_empty();
        // Pods had this field before v1.
        let wanted = match name {
            "spec.host" if resource.is("", "Pod") => "spec.nodeName",
            name => name,
        };
        match resource.fields.iter().position(|it| it == wanted) {
            _ if wanted == "metadata.name" => Ok(Self::Name),
            _ if wanted == "metadata.namespace" && (resource.namespaced || !has_own) => {
                Ok(Self::Namespace)
            }
            Some(place) => Ok(Self::Own(place)),
            None if !has_own => Err(format!(
                "{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
            None if resource.is("batch", "Job") => {
                Err(format!("field label {name:?} not supported for Job"))
            }
            None => Err(format!("field label not supported: {name}")),
        }
    }
}

/// The terms between commas; a comma after `\` belongs to a value.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (place, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescaped(value: &str) -> Result<String, String> {
    let (mut letters, mut plain) = (value.chars(), String::new());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(it @ ('\\' | ',' | '=')) => plain.push(it),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // kube-apiserver prints the number of the character.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(letter)
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
