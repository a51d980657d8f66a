//! What both kinds of policies have.
//!
//! A part that cannot be understood closes: a peer or port that is unknown matches nothing. So each of them keeps the
//! names of the fields that it does not know.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sluice_model::{Expression, Protocol, Selector};
use sluice_policy_plan::{Action, Connections, Mode, Rule};
use sluice_source::kind::{At, Faults, nullable};

/// Fields that a part does not know.
pub(super) type Unknown = BTreeMap<String, IgnoredAny>;

/// Labels, which no policy is judged by.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Labels {}

/// The annotations of a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Annotations {
    /// `enforce`, or `audit` for a policy that drops nothing.
    #[serde(rename = "sluice.dev/policy-mode")]
    pub(super) mode: Option<String>,
    /// `keep` or `cut`: what becomes of open connections that the policy forbids.
    #[serde(rename = "sluice.dev/policy-connections")]
    pub(super) connections: Option<String>,
}

impl Annotations {
    /// What is not understood closes: only the word itself keeps a policy from being enforced.
    pub(super) fn mode(&self, faults: &mut Faults<'_>) -> Mode {
        match self.mode.as_deref() {
            Some("audit") => Mode::Audit,
            None | Some("enforce") => Mode::Enforce,
            Some(other) => {
                let why = format!("{other:?} is not one of enforce, audit: the policy is enforced");
                note("sluice.dev/policy-mode", why, faults);
                Mode::Enforce
            }
        }
    }

    /// `None` without a word that is understood.
    pub(super) fn connections(&self, faults: &mut Faults<'_>) -> Option<Connections> {
        match self.connections.as_deref()? {
            "keep" => Some(Connections::Keep),
            "cut" => Some(Connections::Cut),
            other => {
                let why = format!("{other:?} is not one of keep, cut: ignored");
                note("sluice.dev/policy-connections", why, faults);
                None
            }
        }
    }
}

fn note(annotation: &'static str, why: String, faults: &mut Faults<'_>) {
    faults.note(At::top("metadata.annotations").field(annotation), why);
}

/// A part of an object that can be read, or why it cannot: a value of another type costs this part and not the whole object,
/// which would not be there then. `null` means absent.
#[derive(Debug)]
pub(super) struct Part<T>(Result<T, String>);

impl<T> Part<T> {
    /// What the object has there; the default where it has nothing.
    ///
    /// # Errors
    ///
    /// It has another type.
    pub(super) fn read(&self) -> Result<&T, String> {
        self.0.as_ref().map_err(Clone::clone)
    }
}

impl<T: Default> Default for Part<T> {
    fn default() -> Self {
        Self(Ok(T::default()))
    }
}

impl<'de, T: Default + DeserializeOwned> Deserialize<'de> for Part<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let part: Result<Option<T>, _> = serde_json::from_value(value);
        Ok(Self(
            part.map(Option::unwrap_or_default)
                .map_err(|it| it.to_string()),
        ))
    }
}

/// A rule that nothing matches.
pub(super) const fn nothing() -> Rule {
    Rule {
        action: Action::Accept,
        peers: Some(Vec::new()),
        ports: None,
    }
}

/// An object with `matchLabels` and `matchExpressions`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a mapping")]
pub(super) struct LabelSelector {
    #[serde(deserialize_with = "nullable")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<MatchExpression>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// One of `matchExpressions`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MatchExpression {
    #[serde(deserialize_with = "nullable")]
    key: String,
    #[serde(deserialize_with = "nullable")]
    operator: String,
    #[serde(deserialize_with = "nullable")]
    values: Vec<String>,
    #[serde(flatten)]
    unknown: Unknown,
}

impl LabelSelector {
    /// What it selects.
    ///
    /// # Errors
    ///
    /// What of it cannot be read.
    pub(super) fn read(&self) -> Result<Selector, String> {
        known(&self.unknown)?;
        let mut expressions = self.match_expressions.iter();
        expressions.try_for_each(|it| known(&it.unknown))?;
        let labels = self.match_labels.iter();
        let expressions = self.match_expressions.iter().map(|it| Expression {
            key: &it.key,
            operator: &it.operator,
            values: it.values.iter().map(String::as_str).collect(),
        });
        Selector::of(labels.map(|(key, value)| (&**key, &**value)), expressions)
    }
}

/// Refuses a part with a field that it does not know.
pub(super) fn known(unknown: &Unknown) -> Result<(), String> {
    match unknown.keys().next() {
        Some(field) => Err(format!("unknown field {field:?}")),
        None => Ok(()),
    }
}

/// A prefix, as the API writes it.
pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    let net: Result<IpNet, _> = text.parse();
    net.map(|it| it.trunc())
        .map_err(|_| format!("{text:?} is not a prefix such as 10.0.0.0/8 or fd00::/8"))
}

/// A protocol, default TCP.
pub(super) fn protocol(text: Option<&str>) -> Result<Protocol, String> {
    let known = Protocol::ALL.into_iter();
    let wanted = text.unwrap_or("TCP");
    let mut found = known.filter(|it| it.as_str().to_uppercase() == wanted);
    found
        .next()
        .ok_or_else(|| format!("{wanted:?} is not one of TCP, UDP, SCTP"))
}

/// A port's number.
pub(super) fn number(number: i64) -> Result<u16, String> {
    let number = u16::try_from(number).ok().filter(|it| *it > 0);
    number.ok_or_else(|| "is not in 1..=65535".to_owned())
}
