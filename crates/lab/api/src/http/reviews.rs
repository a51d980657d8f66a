//! Questions about users and their rights. There is no authorization: every user may do everything.

use bytes::Bytes;
use hyper::header::ACCEPT;
use hyper::{Method, Request};
use serde_json::{Value, json};

use super::{Api, writing};
use crate::answer::{Answer, created};
use crate::format::{Format, Include};
use crate::status::Status;
use crate::tokens::ISSUER;
use crate::user::User;

/// Why every right is granted, for `kubectl auth can-i -v 6`.
const REASON: &str = "there is no authorization here: every user may do everything";

impl Api {
    /// The answer to a review; `None` for other paths.
    pub(super) fn review(
        &self,
        request: &Request<Bytes>,
        content_type: Option<&str>,
        user: &User,
    ) -> Option<Result<Answer, Status>> {
        let parts: Vec<_> = request.uri().path().split('/').skip(1).collect();
        let (group, kind) = match parts.as_slice() {
            ["apis", group @ "authentication.k8s.io", "v1", plural] => (group, plural),
            ["apis", group @ "authorization.k8s.io", "v1", plural] => (group, plural),
            [
                "apis",
                group @ "authorization.k8s.io",
                "v1",
                "namespaces",
                _,
                plural,
            ] => (group, plural),
            _ => return None,
        };
        let kind = match (*group, *kind) {
            ("authentication.k8s.io", "selfsubjectreviews") => "SelfSubjectReview",
            ("authentication.k8s.io", "tokenreviews") => "TokenReview",
            ("authorization.k8s.io", "selfsubjectaccessreviews") => "SelfSubjectAccessReview",
            ("authorization.k8s.io", "subjectaccessreviews") => "SubjectAccessReview",
            ("authorization.k8s.io", "localsubjectaccessreviews") => "LocalSubjectAccessReview",
            ("authorization.k8s.io", "selfsubjectrulesreviews") => "SelfSubjectRulesReview",
            _ => return None,
        };
        if request.method() != Method::POST {
            return Some(Err(Status::method_not_allowed()));
        }
        let accept = request
            .headers()
            .get(ACCEPT)
            .and_then(|it| it.to_str().ok());
        if Format::of(accept, Include::None).ok() != Some(Format::Plain) {
            return Some(Err(Status::not_acceptable()));
        }
        let asked = writing::content(content_type, request.body());
        Some(asked.map(|asked| {
            created(&json!({
                "kind": kind, "apiVersion": format!("{group}/v1"),
                "metadata": {"creationTimestamp": null},
                "spec": asked["spec"],
                "status": self.verdict(kind, &asked["spec"], user),
            }))
        }))
    }

    fn verdict(&self, kind: &str, spec: &Value, user: &User) -> Value {
        match kind {
            "SelfSubjectReview" => json!({"userInfo": user.info()}),
            "SelfSubjectRulesReview" => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            "TokenReview" => self.token_verdict(spec),
            _ => json!({"allowed": true, "reason": REASON}),
        }
    }

    fn token_verdict(&self, spec: &Value) -> Value {
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let mut audiences: Vec<String> = audiences
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect();
        let token = spec["token"].as_str().unwrap_or_default();
        let user = self.account(token, &audiences);
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        match user {
            Some(user) => {
                json!({"authenticated": true, "user": user.info(), "audiences": audiences})
            }
            None => json!({"user": {}, "error": "invalid bearer token"}),
        }
    }
}
