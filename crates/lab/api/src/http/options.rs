//! The parameters of write requests.

use crate::body::syntax;
use crate::query::{boolean, parameter};
use crate::status::{Cause, Status};
use crate::store::Effect;

/// What happens to fields that the kind does not have: parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    Ignored,
    Warned,
    Refused,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
    /// A patch by server-side apply.
    Apply,
}

/// `CreateOptions`, `UpdateOptions` and `PatchOptions` of `meta.k8s.io/v1`.
#[derive(Debug)]
pub(super) struct WriteOptions {
    pub(super) effect: Effect,
    pub(super) unknown: Unknown,
    /// The parameter `fieldManager`, which apply requires, or else the program of the `User-Agent`.
    pub(super) manager: String,
    pub(super) force: bool,
}

/// Longest name of a field manager in bytes (`FieldManagerMaxLength`).
const LONGEST_MANAGER: usize = 128;

impl WriteOptions {
    /// Reads and validates the parameters (`apimachinery/pkg/apis/meta/v1/validation`).
    ///
    /// # Errors
    ///
    /// 422.
    pub(super) fn parse(query: &str, user_agent: Option<&str>, verb: Verb) -> Result<Self, Status> {
        let given = |name: &str| parameter(query, name).filter(|it| !it.is_empty());
        let mut causes = Vec::new();
        let (named, force) = (given("fieldManager"), given("force"));
        match verb {
            Verb::Apply if named.is_none() => {
                let why = "Required value: is required for apply patch";
                causes.push(Cause::new("fieldManager", why));
            }
            Verb::Patch if force.is_some() => {
                let why = "Forbidden: may not be specified for non-apply patch";
                causes.push(Cause::new("force", why));
            }
            _ => {}
        }
        if named.as_ref().is_some_and(|it| it.len() > LONGEST_MANAGER) {
            let why = format!("Too long: may not be more than {LONGEST_MANAGER} bytes");
            causes.push(Cause::new("fieldManager", why));
        }
        causes.extend(named.as_deref().into_iter().flat_map(unprintable));
        let effect = effect(query).unwrap_or_else(|cause| {
            causes.push(cause);
            Effect::DryRun
        });
        let unknown = match given("fieldValidation").as_deref() {
            None | Some("Warn") => Unknown::Warned,
            Some("Ignore") => Unknown::Ignored,
            Some("Strict") => Unknown::Refused,
            Some(other) => {
                let all = r#""", "Ignore", "Strict", "Warn""#;
                let why = format!("Unsupported value: {other:?}: supported values: {all}");
                causes.push(Cause::new("fieldValidation", why));
                Unknown::Refused
            }
        };
        if !causes.is_empty() {
            let kind = match verb {
                Verb::Create => "CreateOptions",
                Verb::Update => "UpdateOptions",
                Verb::Patch | Verb::Apply => "PatchOptions",
            };
            return Err(Status::invalid_options(kind, &causes));
        }
        let program = || {
            let agent = user_agent.unwrap_or_default();
            let name = agent.split('/').next().filter(|it| !it.is_empty());
            let name = name.unwrap_or("unknown");
            name[..name.floor_char_boundary(LONGEST_MANAGER)].to_owned()
        };
        Ok(Self {
            effect,
            unknown,
            manager: named.unwrap_or_else(program),
            force: force.is_some_and(|it| boolean(&it)),
        })
    }
}

/// What is wrong with characters of a field manager (`ValidateFieldManager`).
fn unprintable(manager: &str) -> Vec<Cause> {
    let quoted: String = manager.chars().map(syntax::escaped).collect();
    let wrong = manager
        .char_indices()
        .filter(|(_, it)| !syntax::is_printable(*it));
    let causes = wrong.map(|(at, it)| {
        let code = u32::from(it);
        let why = format!(
            "Invalid value: \"{quoted}\": invalid character U+{code:04X} (at position {at})"
        );
        Cause::new("fieldManager", why)
    });
    causes.collect()
}

/// Reads the parameter `dryRun`.
pub(super) fn effect(query: &str) -> Result<Effect, Cause> {
    match parameter(query, "dryRun").as_deref() {
        None | Some("") => Ok(Effect::Stored),
        Some("All") => Ok(Effect::DryRun),
        Some(other) => {
            let why = format!("Unsupported value: [{other:?}]: supported values: \"All\"");
            Err(Cause::new("dryRun", why))
        }
    }
}
