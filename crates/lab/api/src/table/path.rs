//! JSON paths, as far as columns of kinds may use them (`apiextensions/v1`, `additionalPrinterColumns.jsonPath`).

use serde_json::Value;

/// A path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// A negative index counts from the end.
    Index(i64),
    Each,
    /// Items whose value at the path is this text.
    Where(Path, String),
}

impl Path {
    /// Reads a path. One that cannot be read leads nowhere.
    pub(crate) fn of(text: &str) -> Self {
        let nowhere = || Self(vec![Step::Index(i64::MAX)]);
        Self::parse(text).unwrap_or_else(nowhere)
    }

    /// Reads `.a.b`, `['a.b']`, `[0]`, `[*]` and `[?(@.a=="b")]`; a backslash makes the next letter part of a name.
    /// `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        while !rest.is_empty() {
            let step;
            (step, rest) = match rest.strip_prefix('[') {
                None => name(rest.strip_prefix('.')?)?,
                Some(inside) => bracket(inside)?,
            };
            steps.push(step);
        }
        (!steps.is_empty()).then_some(Self(steps))
    }

    /// The values at the path. `null` is no value.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|it| step.find(it)).collect();
        }
        found.retain(|it| !it.is_null());
        found
    }
}

impl Step {
    fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let all = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => {
                let from_end = |it: i64| usize::try_from(it + all().len() as i64).ok();
                let at = if *at < 0 {
                    from_end(*at)
                } else {
                    Some(*at as usize)
                };
                at.and_then(|it| all().get(it)).into_iter().collect()
            }
            Self::Each => match value {
                Value::Object(fields) => fields.values().collect(),
                _ => all().iter().collect(),
            },
            Self::Where(path, wanted) => {
                let is = |it: &&Value| {
                    let found = path.find(it);
                    found.len() == 1 && shown(found[0]) == *wanted
                };
                all().iter().filter(is).collect()
            }
        }
    }
}

/// A value as text, without quotes.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A name after a dot, and the rest of the path.
fn name(text: &str) -> Option<(Step, &str)> {
    let (mut name, mut letters) = (String::new(), text.char_indices());
    let end = loop {
        match letters.next() {
            Some((_, '\\')) => name.push(letters.next()?.1),
            Some((at, '.' | '[')) => break at,
            Some((_, letter)) => name.push(letter),
            None => break text.len(),
        }
    };
    let step = if name == "*" {
        Step::Each
    } else {
        Step::Field(name)
    };
    (end > 0).then_some((step, &text[end..]))
}

/// What is in brackets, and the rest of the path.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(@") {
        let (condition, rest) = filter.split_once(")]")?;
        let (path, wanted) = condition.split_once("==")?;
        let wanted = wanted.trim().trim_matches(['"', '\'']).to_owned();
        return Some((Step::Where(Path::parse(path)?, wanted), rest));
    }
    let (inside, rest) = match text.strip_prefix('\'') {
        Some(quoted) => {
            let (name, rest) = quoted.split_once("']")?;
            return Some((Step::Field(name.replace('\\', "")), rest));
        }
        None => text.split_once(']')?,
    };
    let step = match inside {
        "*" => Step::Each,
        index => Step::Index(index.parse().ok()?),
    };
    Some((step, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let value = json!({
            "a": {"b.c": 1, "list": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": 2}]},
        });
        for (path, expect) in [
            (".a['b.c']", "1"),
            (r".a.b\.c", "1"),
            (".a.list[1].type", "\"Other\""),
            (".a.list[-1].status", "2"),
            (".a.list[*].status", "\"True\" 2"),
            (r#".a.list[?(@.type=="Ready")].status"#, "\"True\""),
            (".a.list[?(@.status == 2)].type", "\"Other\""),
            ("$.a.none", ""),
            (".a.list[7]", ""),
        ] {
            let found = Path::parse(path).unwrap().find(&value);
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expect, "{path}");
        }
        for wrong in ["", "a", ".", ".a[", ".a[b]", ".a[?(b)]", "{.a}", ".a..b"] {
            assert_eq!(Path::parse(wrong), None, "{wrong}");
        }
    }
}
