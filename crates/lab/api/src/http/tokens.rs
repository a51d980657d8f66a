//! Authentication, and the subresource `token` of ServiceAccounts (`pkg/registry/core/serviceaccount/storage/token.go`).

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::{Api, Call};
use crate::access::authenticate;
use crate::answer::{Answer, created};
use crate::history::now;
use crate::resource::Part;
use crate::status::{Cause, Status};
use crate::tokens::{Bound, Claims, ISSUER, ISSUER_OF_SECRETS, Reference, SecretClaims};
use crate::user::User;

/// Lifetime in seconds of a token when the request names none.
const LIFETIME: i64 = 3600;
/// Shortest and longest lifetime in seconds (`pkg/apis/authentication/validation`).
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// The lifetime that kubelet asks for where a pod names none. Such a token is valid for a year, for programs that read the
/// file once (`--service-account-extend-token-expiration`).
const OF_KUBELET: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

/// The subresource of ServiceAccounts.
pub(crate) const PARTS: &[Part] = &[Part {
    name: "token",
    api_version: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    verbs: &["create"],
    answer: |call, method, name| call.post(method)?.token(name),
}];

impl Api {
    /// The user of a request, from its client certificate or the header `Authorization`.
    pub(super) fn authenticate(
        &self,
        authorization: Option<&str>,
        is_certified: bool,
    ) -> Result<User, Status> {
        let bearer = authorization.and_then(|it| it.strip_prefix("Bearer "));
        if let Some(token) = bearer.filter(|_| !is_certified)
            && let Some(user) = self.account(token, &[])
        {
            return Ok(user);
        }
        authenticate(authorization, Some(&self.token), is_certified)?;
        Ok(User::master(&self.user))
    }

    /// The user of a token of a ServiceAccount. It is for one of `audiences`, or for this server when there are none.
    pub(super) fn account(&self, token: &str, audiences: &[String]) -> Option<User> {
        let is_meant = |it: &String| match audiences {
            [] => it == ISSUER,
            wanted => wanted.contains(it),
        };
        let tokens = self.tokens.as_ref()?;
        let Some(claims) = tokens.verify(token, Timestamp::now().as_second()) else {
            // Such a token is for this server.
            return self
                .account_of_secret(token)
                .filter(|_| is_meant(&ISSUER.to_owned()));
        };
        let is_meant = claims.aud.iter().any(is_meant);
        let bound = &claims.bound;
        let namespace = bound.namespace.as_str();
        let exists = |kind: &str, namespace: &str, it: &Reference| {
            let object = self.store.get(kind, namespace, &it.name);
            object.is_some_and(|object| object["metadata"]["uid"] == *it.uid)
        };
        let all = [
            ("Pod", namespace, &bound.pod),
            ("Secret", namespace, &bound.secret),
        ];
        let mut all = all.into_iter();
        let is_valid = is_meant
            && exists("ServiceAccount", namespace, &bound.serviceaccount)
            && all.all(|(kind, namespace, it)| {
                it.as_ref().is_none_or(|it| exists(kind, namespace, it))
            });
        is_valid.then(|| User::of(&claims))
    }

    /// The user of a token that a Secret holds.
    fn account_of_secret(&self, token: &str) -> Option<User> {
        let claims = self.tokens.as_ref()?.verify_of_secret(token)?;
        let namespace = claims.namespace.as_str();
        let secret = self.store.get("Secret", namespace, &claims.secret)?;
        let account = self
            .store
            .get("ServiceAccount", namespace, &claims.account)?;
        let is_valid = secret["data"]["token"] == BASE64_STANDARD.encode(token)
            && secret["metadata"]["deletionTimestamp"].is_null()
            && account["metadata"]["uid"] == *claims.uid;
        is_valid.then(|| User::account(&claims.sub, &claims.uid, namespace))
    }

    /// The token of a ServiceAccount for a Secret, which must hold it for the token to be valid. `None`: ServiceAccounts have no
    /// tokens.
    pub fn token_of_secret(&self, secret: &Value, account: &Value) -> Option<String> {
        let tokens = self.tokens.as_ref()?;
        let namespace = secret["metadata"]["namespace"].as_str().unwrap_or_default();
        let account = reference(account);
        let claims = SecretClaims {
            iss: ISSUER_OF_SECRETS.to_owned(),
            sub: format!("system:serviceaccount:{namespace}:{}", account.name),
            namespace: namespace.to_owned(),
            secret: reference(secret).name,
            account: account.name,
            uid: account.uid,
        };
        Some(tokens.sign(&claims))
    }

    /// Answers a `TokenRequest` for a ServiceAccount.
    ///
    /// # Errors
    ///
    /// 404: there is no such ServiceAccount, or no such object to bind to. 400, 409, 422: the request is wrong.
    pub fn request_token(
        &self,
        namespace: &str,
        name: &str,
        request: &Value,
    ) -> Result<Value, Status> {
        let tokens = self.tokens.as_ref().ok_or_else(Status::no_resource)?;
        let account = self.object("ServiceAccount", namespace, name)?;
        let spec = &request["spec"];
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(LIFETIME);
        let why = if seconds < SHORTEST {
            Some("may not specify a duration less than 10 minutes")
        } else if seconds > LONGEST {
            Some("may not specify a duration larger than 2^32 seconds")
        } else {
            None
        };
        if let Some(why) = why {
            let why = format!("Invalid value: {seconds}: {why}");
            let cause = Cause::new("spec.expirationSeconds", why);
            return Err(Status::invalid_of(
                "authentication.k8s.io",
                "TokenRequest",
                &[cause],
            ));
        }
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let mut audiences: Vec<String> = audiences
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let issued = Timestamp::now();
        let at = issued.as_second();
        let is_extended = seconds == OF_KUBELET && audiences == [ISSUER];
        let mut bound = Bound {
            namespace: namespace.to_owned(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: reference(&account),
            warnafter: is_extended.then_some(at + seconds),
        };
        self.bind(&mut bound, &spec["boundObjectRef"], &account)?;
        let claims = Claims {
            exp: at + if is_extended { YEAR } else { seconds },
            iat: at,
            iss: ISSUER.to_owned(),
            jti: self.store.history().lock().next_uid(),
            bound,
            nbf: at,
            sub: format!("system:serviceaccount:{namespace}:{name}"),
            aud: audiences.clone(),
        };
        let expires = issued.checked_add(seconds.seconds()).unwrap_or(issued);
        Ok(json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": now()},
            "spec": {
                "audiences": audiences, "expirationSeconds": seconds,
                "boundObjectRef": spec["boundObjectRef"],
            },
            "status": {
                "token": tokens.sign(&claims),
                "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            },
        }))
    }

    fn bind(&self, bound: &mut Bound, wanted: &Value, account: &Value) -> Result<(), Status> {
        if wanted.is_null() {
            return Ok(());
        }
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (kind, name, uid) = (
            text(&wanted["kind"]),
            text(&wanted["name"]),
            text(&wanted["uid"]),
        );
        let account = text(&account["metadata"]["name"]);
        let namespace = match kind.as_str() {
            "Pod" | "Secret" => bound.namespace.as_str(),
            "Node" => "",
            _ => {
                let version = text(&wanted["apiVersion"]);
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to object of type {version}, Kind={kind}"
                )));
            }
        };
        let object = self.object(&kind, namespace, &name)?;
        let found = reference(&object);
        if !uid.is_empty() && uid != found.uid {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            );
            return Err(self.conflict(&kind, &name, &why));
        }
        match kind.as_str() {
            "Pod" => {
                let spec = &object["spec"];
                if spec["serviceAccountName"] != *account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                    )));
                }
                let node = spec["nodeName"].as_str();
                let node = node.and_then(|it| self.store.get("Node", "", it));
                bound.node = node.map(|it| reference(&it));
                bound.pod = Some(found);
            }
            "Secret" => bound.secret = Some(found),
            _ => bound.node = Some(found),
        }
        Ok(())
    }

    /// An object of the core group, or 404.
    pub(super) fn object(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let missing = || match self.store.history().of_kind("v1", kind) {
            Some(resource) => Status::not_found(&resource, name),
            None => Status::no_resource(),
        };
        self.store.get(kind, namespace, name).ok_or_else(missing)
    }

    fn conflict(&self, kind: &str, name: &str, why: &str) -> Status {
        match self.store.history().of_kind("v1", kind) {
            Some(resource) => Status::conflict(&resource, name, why),
            None => Status::no_resource(),
        }
    }
}

impl Call<'_> {
    fn token(&self, name: &str) -> Result<Answer, Status> {
        let request = self.content()?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        for (field, path) in [("name", name), ("namespace", namespace)] {
            let given = request["metadata"][field].as_str().unwrap_or_default();
            if !given.is_empty() && given != path {
                return Err(Status::bad_request(format!(
                    "must match the service account {field}"
                )));
            }
        }
        let token = self.api.request_token(namespace, name, &request)?;
        Ok(created(&token))
    }
}

fn reference(object: &Value) -> Reference {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    Reference {
        name: text(&object["metadata"]["name"]),
        uid: text(&object["metadata"]["uid"]),
    }
}
