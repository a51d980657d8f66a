//! What the grammar of `relations.txt` means, and that its fields exist: a rule about another field would never hold.

use serde_json::json;

use super::super::{Schema, of_type};
use super::*;

/// The schema of a field; `None`: there is no such field.
fn below<'a>(schema: &'a Schema, path: &Path) -> Option<&'a Schema> {
    path.steps.iter().try_fold(schema, |it, (name, is_list)| {
        let field = it.field(name)?;
        if *is_list { field.items() } else { Some(field) }
    })
}

impl Condition {
    /// The fields that it names.
    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Words(operand, ..) => operand.paths(),
            Self::Field(operand, _, other) => [operand.paths(), vec![other]].concat(),
            Self::Among(path, others, _) => std::iter::once(path).chain(others).collect(),
            Self::Given(path, _) | Self::Shrunk(path) | Self::Was(path) => vec![path],
            Self::Twice(paths) | Self::Changed(paths) => paths.iter().collect(),
            Self::Replaced(key, paths) => std::iter::once(key).chain(paths).collect(),
            Self::Outside(field, other) => vec![field, other],
            Self::Created => Vec::new(),
        }
    }
}

impl Operand {
    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Value(path) | Self::Length(path) => vec![path],
            Self::Count(paths) => paths.iter().collect(),
        }
    }
}

#[test]
fn every_field_of_a_condition_exists() {
    let mut count = 0;
    for (name, relation) in read() {
        let root = of_type(name).unwrap_or_else(|| panic!("there is no {name}"));
        for scope in &relation.scopes {
            let here = below(root, scope);
            let here = here.unwrap_or_else(|| panic!("{name}: there is no {scope:?}"));
            for condition in &relation.conditions {
                for path in condition.paths() {
                    // The object before is one of the type; other fields of `in:` are found from there, too.
                    let is_other = matches!(condition, Condition::Among(..));
                    let found = match path.start {
                        Start::Root => below(root, path),
                        _ if is_other => below(here, path).or(below(root, path)),
                        _ => below(here, path),
                    };
                    assert!(found.is_some(), "{name}: there is no {path:?}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > 300, "{count}");
}

/// Each kind of condition and of problem, with an object for which it holds and one for which it does not.
#[test]
fn what_a_rule_says() {
    let check = |rule: &'static str, object: Value, old: Option<Value>| {
        let (causes, _) = Relation::read(rule).check("o", &object, old.as_ref());
        let shown = causes
            .into_iter()
            .map(|it| format!("{}: {}", it.field, it.message));
        shown.collect::<Vec<_>>().join("; ")
    };
    for (rule, wrong, right, expect) in [
        (
            "a !b -> b required",
            json!({"a": "x"}),
            json!({"a": ""}),
            "o.b: Required value",
        ),
        (
            "a=x|y -> a invalid: no",
            json!({"a": "y"}),
            json!({"a": "z"}),
            "o.a: Invalid value: \"y\": no",
        ),
        (
            "a!=x|y -> a invalid=\"{a}!\"",
            json!({"a": "z"}),
            json!({"a": "x"}),
            "o.a: Invalid value: \"z!\"",
        ),
        (
            "a~=x*|*_y -> . forbidden: {a}",
            json!({"a": "b y"}),
            json!({"a": "y"}),
            "o: Forbidden: b y",
        ),
        (
            "a!~=*b* -> a unsupported=b",
            json!({"a": 1}),
            json!({"a": "abc"}),
            "o.a: Unsupported value: 1: supported values: \"b\"",
        ),
        (
            "a<1Ki -> a invalid=null",
            json!({"a": "1000"}),
            json!({"a": "1024"}),
            "o.a: Invalid value: null",
        ),
        (
            "a>/b.c -> a invalid=b",
            json!({"a": 2, "b": {"c": 1}}),
            json!({"a": 2}),
            "o.a: Invalid value: {\"c\":1}",
        ),
        (
            "#a>1 -> a invalid",
            json!({"a": [1, 2]}),
            json!({"a": [1]}),
            "o.a: Invalid value: [1,2]",
        ),
        (
            "{a,b}>1 -> b forbidden",
            json!({"a": {}, "b": 0}),
            json!({"a": {}}),
            "o.b: Forbidden",
        ),
        (
            " -> {a,b} forbidden: one",
            json!({"b": 1, "a": 1}),
            json!({"b": 1}),
            "o.b: Forbidden: one",
        ),
        (
            "a[]: n:in:b[].n -> n not-found",
            json!({"a": [{"n": "x"}], "b": [{"n": "x"}]}),
            json!({"a": [{"n": "x"}]}),
            "o.a[0].n: Not found: \"x\"",
        ),
        (
            "a[],b[]: twice(n) -> ^n duplicate=n",
            json!({"a": [{"n": "x"}], "b": [{"n": "x"}]}),
            json!({"a": [{"n": "x"}], "b": [{"n": "y"}]}),
            "o.b.n: Duplicate value: \"x\"",
        ),
    ] {
        assert_eq!(check(rule, wrong, None), expect, "{rule}");
        assert_eq!(check(rule, right, None), "", "{rule}");
    }
    for (rule, old, new, is_wrong) in [
        (
            "changed(a,b) -> a invalid",
            Some(json!({"a": 1})),
            json!({"a": 2}),
            true,
        ),
        (
            "changed(a,b) -> a invalid",
            Some(json!({"a": 1})),
            json!({"a": 1}),
            false,
        ),
        ("changed(a,b) -> a invalid", None, json!({"a": 1}), false),
        (
            "a[]: changed(n:m,o) -> ^ invalid",
            Some(json!({"a": [{"n": 1, "m": 1}, {"n": 2, "m": 2}]})),
            json!({"a": [{"n": 2, "m": 1}]}),
            true,
        ),
        (
            "a[]: changed(n:m,o) -> ^ invalid",
            Some(json!({"a": [{"n": 1, "m": 1}, {"n": 2, "m": 2}]})),
            json!({"a": [{"n": 2, "m": 2, "p": 1}, {"n": 3, "m": 1}]}),
            false,
        ),
        (
            "was(a) -> a invalid",
            Some(json!({"a": 1})),
            json!({}),
            true,
        ),
        (
            "shrunk(a) -> a invalid",
            Some(json!({"a": "1Gi"})),
            json!({"a": "1Mi"}),
            true,
        ),
        (
            "shrunk(a) -> a invalid",
            Some(json!({"a": "1Mi"})),
            json!({"a": "1Gi"}),
            false,
        ),
        ("created -> a invalid", None, json!({}), true),
        ("created -> a invalid", Some(json!({})), json!({}), false),
    ] {
        assert_eq!(!check(rule, new, old).is_empty(), is_wrong, "{rule}");
    }
}
