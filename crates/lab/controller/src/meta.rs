//! Metadata of API objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};
use sluice_model::NamespacedName;

/// Characters of generated names: no vowels, and no characters that look alike (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHANUMERICS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Namespace and name.
pub(crate) fn key(metadata: &ObjectMeta) -> NamespacedName {
    let text = |it: &Option<String>| it.as_deref().unwrap_or_default().to_owned();
    NamespacedName::new(text(&metadata.namespace), text(&metadata.name))
}

/// `metadata.name`; empty when absent.
pub(crate) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// The value of a label; empty when absent.
pub(crate) fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> &'a str {
    value(metadata.labels.as_ref(), name)
}

/// The value of an annotation; empty when absent.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> &'a str {
    value(metadata.annotations.as_ref(), name)
}

fn value<'a>(map: Option<&'a BTreeMap<String, String>>, name: &str) -> &'a str {
    map.and_then(|it| it.get(name)).map_or("", String::as_str)
}

/// A reference to a Pod, as endpoints and Events have it.
#[must_use]
pub fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The owner reference of a dependent to an object of the core group.
pub(crate) fn owned_by(kind: &str, owner: &ObjectMeta) -> OwnerReference {
    controlled_by("v1", kind, owner)
}

/// The owner reference of an object that a controller makes for `owner`.
pub(crate) fn controlled_by(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether an object belongs to this Service, and not to an earlier one of the same name.
pub(crate) fn is_owned_by(metadata: &ObjectMeta, service: &Service) -> bool {
    let owner = owned_by("Service", &service.metadata);
    metadata.owner_references.iter().flatten().any(|it| {
        it.uid == owner.uid && it.kind == owner.kind && it.api_version == owner.api_version
    })
}

/// A hash that is the same in every run.
pub(crate) fn hash(texts: &[&str]) -> u64 {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.len().to_be_bytes());
        hasher.update(text);
    }
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}

/// `prefix` and five characters, a name that is not taken.
pub(crate) fn generated_name(prefix: &str, seed: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let names = (0_u64..).map(|attempt| {
        let number = hash(&[seed, prefix, &attempt.to_string()]);
        format!("{prefix}{}", characters(number, 5))
    });
    let mut free = names.filter(|it| !is_taken(it));
    free.next().expect("the names never end")
}

/// The last `count` digits of a number, at most 13, in the characters of generated names.
pub(crate) fn characters(mut number: u64, count: usize) -> String {
    let length = ALPHANUMERICS.len() as u64;
    let characters = (0..count).map(|_| {
        let at = number % length;
        number /= length;
        char::from(ALPHANUMERICS[usize::try_from(at).expect("less than 27")])
    });
    characters.collect()
}
