//! How one object of an answer is read.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use sluice_model::{NamespacedName, Reference};
use sluice_yaml::{message, quoted};

use crate::convert::{Interner, displayable};
use crate::kind::{Kind, reference};
use crate::object::Object;

/// One object as the server described it.
#[derive(Debug)]
pub(crate) struct Received {
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    pub(crate) outcome: Outcome,
}

/// Which object it is, and its version.
pub(crate) type Identified = (Reference, Option<String>);

/// The result of reading an object.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The object can be used, without the values that the problems name.
    Usable(Object, Vec<String>),
    /// The object cannot be used; the problems say why.
    Unusable(Reference, Vec<String>),
}

impl Outcome {
    /// Which object it is.
    pub(crate) fn key(&self) -> Reference {
        match self {
            Self::Usable(object, _) => object.reference(),
            Self::Unusable(key, _) => key.clone(),
        }
    }
}

/// The fields that identify an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentityMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

/// Reads an object that exists. A field of a wrong type is a problem of this object alone.
///
/// # Errors
/// The text is no JSON: then nothing of the answer can be trusted.
pub(crate) fn read<K: Kind>(json: &str, names: &mut Interner) -> Result<Received, String> {
    let object: K = match parse(json)? {
        Ok(object) => object,
        Err(problem) => {
            let (key, version) = identify::<K>(json)?;
            let outcome = Outcome::Unusable(key, vec![problem]);
            return Ok(Received { version, outcome });
        }
    };
    let converted = Kind::convert(&object, names);
    let problems = converted.faults.iter().map(ToString::to_string).collect();
    let meta = object.identity();
    let outcome = match converted.object {
        Some(object) => Outcome::Usable(Object::new(object), problems),
        None => {
            let key = key::<K>(meta.name, meta.namespace);
            Outcome::Unusable(key, problems)
        }
    };
    let version = meta.version.map(str::to_owned);
    Ok(Received { version, outcome })
}

/// Reads the key and the version of an object.
///
/// # Errors
/// As of [`read`].
pub(crate) fn identify<K: Kind>(json: &str) -> Result<Identified, String> {
    let meta = parse::<Identity>(json)?.unwrap_or_default().metadata;
    let key = key::<K>(meta.name.as_deref(), meta.namespace.as_deref());
    Ok((key, meta.resource_version))
}

/// The object that has this name. A name that no object can have is quoted: such an object is never usable, and costs
/// itself alone.
fn key<K: Kind>(name: Option<&str>, namespace: Option<&str>) -> Reference {
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or("default");
    let [namespace, name] = [namespace, name.unwrap_or_default()].map(|it| {
        if displayable(it) {
            it.to_owned()
        } else {
            quoted(it)
        }
    });
    reference::<K>(NamespacedName::new(namespace, name))
}

/// Parses JSON. The inner error is for JSON that does not have the expected types.
fn parse<T: DeserializeOwned>(json: &str) -> Result<Result<T, String>, String> {
    serde_json::from_str(json).map(Ok).or_else(|error| {
        let text = message(&error.to_string());
        match error.classify() {
            Category::Data => Ok(Err(text)),
            _ => Err(format!("no JSON: {text}")),
        }
    })
}
