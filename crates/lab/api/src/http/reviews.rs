//! Questions about users and their rights. There is no authorization: every user may do everything.

use serde_json::{Value, json};

use super::Call;
use super::options::Verb;
use crate::answer::{Answer, created};
use crate::body;
use crate::format::{Format, Include};
use crate::resource::Computed;
use crate::status::Status;
use crate::tokens::ISSUER;
use crate::validation;

/// Why every right is granted, for `kubectl auth can-i -v 6`.
const REASON: &str = "there is no authorization here: every user may do everything";

/// The kinds of reviews.
pub(crate) const ANSWERED: Option<Computed> = Some(Computed {
    verbs: &["create"],
    answer: |call, method, name| match name {
        None => call.post(method)?.review(),
        Some(_) => Err(Status::no_resource()),
    },
});

impl Call<'_> {
    fn review(&self) -> Result<Answer, Status> {
        if self.resource.namespaced && self.namespace.is_none() {
            return Err(Status::method_not_allowed());
        }
        if Format::of(self.accept, Include::None)? != Format::Plain {
            return Err(Status::not_acceptable("a review has no other form"));
        }
        let mut review = self.content()?;
        if let Some(fields) = review.as_object_mut() {
            fields.entry("metadata").or_insert_with(|| json!({}));
        }
        body::fit(&self.resource, self.namespace.as_deref(), &mut review)?;
        let warnings = self.check(&self.resource, &mut review, &self.options(Verb::Create)?)?;
        if self.resource.kind == "TokenReview"
            && review["spec"]["token"].as_str().is_none_or(str::is_empty)
        {
            let why = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(why));
        }
        validation::check(&self.resource, None, &review)?;
        review["status"] = self.verdict(&review["spec"]);
        Ok(super::writing::with_warnings(created(&review), &warnings))
    }

    fn verdict(&self, spec: &Value) -> Value {
        match self.resource.kind.as_str() {
            "SelfSubjectReview" => json!({"userInfo": self.user.info()}),
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
        let user = self.api.account(token, &audiences);
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
