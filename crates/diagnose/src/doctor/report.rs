//! The results of all checks.

use std::fmt;

use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The check, in a word: `endpoints`.
    pub check: &'static str,
    /// The result of the check.
    pub state: State,
    /// The evidence in one line.
    pub evidence: String,
    /// The command or the change that mends it.
    pub mend: Option<String>,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is wrong there.
    Ok,
    /// The check could not be made.
    Skip,
    /// It may be the cause, or may become one.
    Warn,
    /// It keeps packets from an endpoint.
    Fail,
}

impl State {
    /// As [`Report`] displays it.
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

impl Finding {
    /// A finding without a command.
    pub fn new(check: &'static str, state: State, evidence: impl Into<String>) -> Self {
        Self {
            check,
            state,
            evidence: evidence.into(),
            mend: None,
        }
    }

    /// Nothing is wrong there.
    pub fn ok(check: &'static str, evidence: impl Into<String>) -> Self {
        Self::new(check, State::Ok, evidence)
    }

    /// The check could not be made.
    pub fn skip(check: &'static str, evidence: impl Into<String>) -> Self {
        Self::new(check, State::Skip, evidence)
    }

    /// It may be the cause, or may become one.
    pub fn warn(check: &'static str, evidence: impl Into<String>) -> Self {
        Self::new(check, State::Warn, evidence)
    }

    /// It keeps packets from an endpoint.
    pub fn fail(check: &'static str, evidence: impl Into<String>) -> Self {
        Self::new(check, State::Fail, evidence)
    }

    /// Adds the command or change that repairs it.
    #[must_use]
    pub fn mend(self, mend: impl Into<String>) -> Self {
        Self {
            mend: Some(mend.into()),
            ..self
        }
    }
}

/// All findings. Displays as a line for each, with the way to mend it below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The Service, if one was asked for.
    pub service: Option<String>,
    pub node: String,
    /// In the order of a packet.
    pub findings: Vec<Finding>,
}

impl Report {
    #[must_use]
    pub fn worst(&self) -> State {
        let states = self.findings.iter().map(|it| it.state);
        states.max().unwrap_or(State::Ok)
    }

    fn count(&self, state: State) -> usize {
        self.findings.iter().filter(|it| it.state == state).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => writeln!(f, "Service {service} on {}", self.node)?,
            None => writeln!(f, "node {}", self.node)?,
        }
        let widest = self.findings.iter().map(|it| it.check.len()).max();
        let width = widest.unwrap_or_default();
        for it in &self.findings {
            let (state, check) = (it.state.word(), it.check);
            writeln!(f, "  {state:4}  {check:width$}  {}", it.evidence)?;
            if let Some(mend) = &it.mend {
                writeln!(f, "        {:width$}  → {mend}", "")?;
            }
        }
        let (failed, warned) = (self.count(State::Fail), self.count(State::Warn));
        match (failed, warned) {
            (0, 0) => writeln!(f, "nothing is wrong here"),
            (0, warned) => writeln!(f, "no cause found; {warned} to look at"),
            (failed, 0) => writeln!(f, "{failed} wrong"),
            (failed, warned) => writeln!(f, "{failed} wrong, {warned} to look at"),
        }
    }
}
