//! The parameters of write requests.

use crate::query::{boolean, parameter};
use crate::status::Status;
use crate::store::Effect;

/// What happens to fields that the kind does not have: parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    Ignored,
    Warned,
    Refused,
}

/// `CreateOptions`, `UpdateOptions` and `PatchOptions` of `meta.k8s.io/v1`.
#[derive(Debug)]
pub(super) struct WriteOptions {
    pub(super) effect: Effect,
    pub(super) unknown: Unknown,
    /// The parameter `fieldManager`, or else the program of the `User-Agent`.
    pub(super) manager: String,
    /// Whether the parameter `fieldManager` is given, as apply requires.
    pub(super) is_named: bool,
    pub(super) force: bool,
}

impl WriteOptions {
    pub(super) fn parse(query: &str, user_agent: Option<&str>) -> Result<Self, Status> {
        let given = |name: &str| parameter(query, name).filter(|it| !it.is_empty());
        let unknown = match given("fieldValidation").as_deref() {
            None | Some("Warn") => Unknown::Warned,
            Some("Ignore") => Unknown::Ignored,
            Some("Strict") => Unknown::Refused,
            Some(other) => {
                let message = format!("fieldValidation: Unsupported value: {other:?}");
                return Err(Status::unprocessable(message));
            }
        };
        let named = given("fieldManager");
        let is_named = named.is_some();
        let program = || {
            let agent = user_agent.unwrap_or_default();
            agent
                .split('/')
                .next()
                .filter(|it| !it.is_empty())
                .unwrap_or("unknown")
                .to_owned()
        };
        Ok(Self {
            effect: effect(query)?,
            unknown,
            manager: named.unwrap_or_else(program),
            is_named,
            force: given("force").is_some_and(|it| boolean(&it)),
        })
    }
}

/// Reads the parameter `dryRun`.
pub(super) fn effect(query: &str) -> Result<Effect, Status> {
    match parameter(query, "dryRun").as_deref() {
        None | Some("") => Ok(Effect::Stored),
        Some("All") => Ok(Effect::DryRun),
        Some(other) => Err(Status::unprocessable(format!(
            "dryRun: Unsupported value: {other:?}: supported values: \"All\""
        ))),
    }
}
