//! Who sends requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::tokens::Claims;

/// The user of a request (`UserInfo` of `authentication.k8s.io/v1`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// Empty for users that are no ServiceAccount.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with every right.
    pub fn master(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: ["system:masters", "system:authenticated"]
                .map(str::to_owned)
                .to_vec(),
            ..Self::default()
        }
    }

    /// The ServiceAccount of a token (`pkg/serviceaccount/util.go`, `ServiceAccountInfo`).
    pub(crate) fn of(claims: &Claims) -> Self {
        let bound = &claims.bound;
        let extra = |name: &str, value: String| {
            let name = format!("authentication.kubernetes.io/{name}");
            (name, vec![value])
        };
        let mut extras = vec![extra("credential-id", format!("JTI={}", claims.jti))];
        for (kind, reference) in [("pod", &bound.pod), ("node", &bound.node)] {
            if let Some(it) = reference {
                extras.push(extra(&format!("{kind}-name"), it.name.clone()));
                extras.push(extra(&format!("{kind}-uid"), it.uid.clone()));
            }
        }
        Self {
            extra: extras.into_iter().collect(),
            ..Self::account(&claims.sub, &bound.serviceaccount.uid, &bound.namespace)
        }
    }

    /// A ServiceAccount.
    pub(crate) fn account(name: &str, uid: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            extra: BTreeMap::new(),
        }
    }

    /// The user as `UserInfo`.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
