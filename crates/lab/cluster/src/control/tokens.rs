//! Secrets that hold a token of a ServiceAccount (`pkg/controller/serviceaccount/tokens_controller.go`): they are filled, and
//! end with their ServiceAccount.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sluice_api::{Api, DeleteOptions};
use sluice_model::NamespacedName;

use super::refusals::{Refusals, id};
use super::writes::{MANAGER, gone};

const ACCOUNT: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// The Secrets of this type.
pub(super) type Secrets = BTreeMap<NamespacedName, Arc<Value>>;

/// Whether a Secret is one of these.
pub(super) fn is_of_account(secret: &Value) -> bool {
    secret["type"] == "kubernetes.io/service-account-token"
}

/// Fills those that lack something, and deletes those whose ServiceAccount does not exist. `authority` is the certificate of
/// the API's authority, in PEM.
pub(super) fn keep(api: &Api, secrets: &Secrets, authority: &str, refusals: &mut Refusals) {
    for (key, secret) in secrets {
        let annotation = |name: &str| {
            let given = secret["metadata"]["annotations"][name].as_str();
            given.filter(|it| !it.is_empty())
        };
        let Some(name) = annotation(ACCOUNT) else {
            continue;
        };
        let account = api.store.get("ServiceAccount", &key.namespace, name);
        let account = account.filter(|it| {
            let uid = &it["metadata"]["uid"];
            annotation(UID).is_none_or(|given| *uid == *given)
        });
        match account {
            None => {
                let options = DeleteOptions {
                    uid: secret["metadata"]["uid"].as_str().map(str::to_owned),
                    ..DeleteOptions::default()
                };
                refusals.attempt(id("delete", "Secret", key), || {
                    gone(
                        api.store
                            .delete("Secret", &key.namespace, &key.name, options),
                    )
                });
            }
            Some(account) => {
                if let Some(filled) = filled(api, secret, &account, authority) {
                    refusals.attempt(id("fill", "Secret", key), || {
                        api.store.by(MANAGER).update(filled).map(drop)
                    });
                }
            }
        }
    }
}

/// The Secret with all that it should have; `None` when it lacks nothing.
fn filled(api: &Api, secret: &Value, account: &Value, authority: &str) -> Option<Value> {
    let namespace = secret["metadata"]["namespace"].as_str().unwrap_or_default();
    let is_empty = |field: &str| secret["data"][field].as_str().is_none_or(str::is_empty);
    let authority = BASE64_STANDARD.encode(authority);
    if secret["data"]["ca.crt"] == authority && !is_empty("namespace") && !is_empty("token") {
        return None;
    }
    let mut filled = secret.clone();
    filled["data"]["ca.crt"] = authority.into();
    if is_empty("namespace") {
        filled["data"]["namespace"] = BASE64_STANDARD.encode(namespace).into();
    }
    if is_empty("token") {
        let token = api.token_of_secret(secret, account)?;
        filled["data"]["token"] = BASE64_STANDARD.encode(token).into();
    }
    filled["metadata"]["annotations"][UID] = account["metadata"]["uid"].clone();
    Some(filled)
}

#[cfg(test)]
mod tests;
