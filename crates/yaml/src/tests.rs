//! What texts mean.

use super::*;

#[track_caller]
fn check(text: &str, expected: Meaning) {
    let scalar = |plain| Scalar {
        text: text.into(),
        plain,
    };
    assert_eq!(scalar(true).meaning(), expected, "{text}");
    assert_eq!(scalar(false).meaning(), Meaning::Text, "{text:?}");
}

#[test]
fn scalars() {
    use Meaning::{Bool, Float, Huge, Int, Null, Text};
    for text in ["", "~", "null", "NULL"] {
        check(text, Null);
    }
    for text in ["true", "yes", "on", "Y"] {
        check(text, Bool(true));
    }
    for text in ["False", "no", "OFF", "n"] {
        check(text, Bool(false));
    }
    for (text, number) in [
        ("0", 0),
        ("80", 80),
        ("-1", -1),
        ("+7", 7),
        ("1_000", 1000),
        ("0x50", 80),
        ("-0x1F", -31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("9223372036854775807", i64::MAX),
    ] {
        check(text, Int(number));
    }
    for (text, number) in [
        ("1.5", 1.5),
        ("8e1", 80.0),
        ("08", 8.0),
        (".5", 0.5),
        ("-1.", -1.0),
    ] {
        check(text, Float(number));
    }
    for text in [
        "9223372036854775808",
        "99999999999999999999999999999999999999999999",
    ] {
        check(text, Huge);
    }
    for text in [
        "web",
        "10.0.0.1",
        "2026-01-01",
        "0x",
        "1e",
        "-",
        "+",
        ".",
        "1:30",
        "nul",
        "é1",
        "0é",
    ] {
        check(text, Text);
    }
}

/// Positions of every `x` in a text, as `line:column`.
#[track_caller]
fn check_places(text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    for chunk in documents(text.as_bytes()) {
        let text = std::str::from_utf8(chunk.bytes).unwrap();
        let parsed = parse_yaml(text, chunk.lines_before);
        assert_eq!(parsed.error, None);
        parsed
            .documents
            .iter()
            .for_each(|it| collect(it, &mut found));
    }
    assert_eq!(found, expected);
}

fn collect(node: &Node<'_>, found: &mut Vec<String>) {
    match node.value() {
        Value::Scalar(it) if it.text == "x" => {
            found.push(format!("{}:{}", node.place.line, node.place.column));
        }
        Value::List(items) => items.iter().for_each(|it| collect(it, found)),
        Value::Map(entries) => entries.iter().for_each(|(_, it)| collect(it, found)),
        _ => {}
    }
}

#[test]
fn places() {
    check_places("a: x\nb:\n  - x\n", &["1:4", "3:5"]);
    check_places(
        "# one\n---\na: x\n---\n# four\nb: [y, x]\n",
        &["3:4", "6:8"],
    );
    check_places("\u{feff}a: x\r\nb: x\r\n", &["1:4", "2:4"]);
    check_places("%YAML 1.1\n# c\n---\na: x\n...\n---\nx\n", &["4:4", "7:1"]);
}

#[track_caller]
fn check_json(text: &str, expected: Result<&str, &str>) {
    let parsed = parse_json(text);
    let got = match &parsed.error {
        Some(error) => Err(format!("{}:{}", error.place.line, error.message)),
        None => Ok(parsed
            .documents
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" ")),
    };
    assert_eq!(
        got,
        expected.map(str::to_owned).map_err(str::to_owned),
        "{text}"
    );
}

fn show(node: &Node<'_>) -> String {
    match node.value() {
        Value::Scalar(it) if it.plain => it.text.to_string(),
        Value::Scalar(it) => format!("{:?}", it.text),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .map(|(key, it)| format!("{}={}", key.text, show(it)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Shared(_) => "shared".to_owned(),
    }
}

#[test]
fn json() {
    check_json("", Ok(""));
    check_json("\t{ }\r\n[ ]", Ok("{} []"));
    check_json(
        r#"{"a":[1,-2.5e+3,true,null,"x"]}"#,
        Ok(r#"{a=[1,-2.5e+3,true,null,"x"]}"#),
    );
    check_json(
        r#""a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00""#,
        Ok(r#""a\"\\/\u{8}\u{c}\n\r\tA😀""#),
    );
    check_json(r#""\ud83d\u0041\ude00""#, Ok(r#""�A�""#));
    check_json("[1,\n2", Err("2:expected ',' or ']'"));
    check_json("[1,]", Err("1:expected a value"));
    check_json("{\"a\"\n1}", Err("2:expected ':' after a key"));
    check_json("[01]", Err("1:expected a value"));
    check_json("{a:1}", Err("1:expected a key in double quotes"));
    check_json("\"a\nb\"", Err("1:a text does not end in its line"));
    check_json(r#""\x""#, Err("1:an escape that JSON does not know"));
    check_json(
        r#""\u00e""#,
        Err("1:expected four hexadecimal digits after \\u"),
    );
    check_json("[", Err("1:the file ends inside a value"));
}

/// What sigs.k8s.io/yaml makes of each text: `YAMLToJSON` over go-yaml v2.4.0 was run on all of them.
#[test]
fn merges_are_those_of_kubectl() {
    let refused = Err("'<<' needs a mapping or a list of mappings");
    for (text, expected) in [
        ("{<<: {p: 1, q: 2}, p: 3}", Ok("{p=3,q=2}")),
        ("{p: 3, <<: {p: 1, q: 2}}", Ok("{p=1,q=2}")),
        ("{p: 3, <<: {q: 1, p: 1}, r: 2}", Ok("{p=1,q=1,r=2}")),
        ("{<<: [{p: 1}, {p: 2, q: 2}]}", Ok("{p=1,q=2}")),
        ("{p: 0, <<: [{p: 1}, {p: 2, q: 2}]}", Ok("{p=1,q=2}")),
        ("{<<: {p: 1}, <<: {p: 2}}", Ok("{p=2}")),
        ("{<<: {p: 1}, <<: {q: 2}}", Ok("{p=1,q=2}")),
        ("{<<: {p: 1}, p: 3, <<: {p: 2}}", Ok("{p=2}")),
        ("{<<: {p: 1, <<: {p: 2, q: 2}}}", Ok("{p=2,q=2}")),
        ("{<<: {<<: {p: 2, q: 2}, p: 1}}", Ok("{p=1,q=2}")),
        ("{p: {a: 1}, <<: {p: {b: 2}}}", Ok("{p={b=2}}")),
        ("{<<: {p: {b: 2}}, p: {a: 1}}", Ok("{p={a=1}}")),
        ("{p: 3, <<: {p: null}}", Ok("{p=null}")),
        ("{p: null, <<: {p: 1}}", Ok("{p=1}")),
        (
            "{a: &a {p: 1, q: [2]}, b: *a}",
            Ok("{a={p=1,q=[2]},b={p=1,q=[2]}}"),
        ),
        (
            "{a: &a {p: 1, q: 2}, b: {p: 3, <<: *a}}",
            Ok("{a={p=1,q=2},b={p=1,q=2}}"),
        ),
        (
            "{a: &a {p: 1, q: 2}, b: {<<: *a, p: 3}}",
            Ok("{a={p=1,q=2},b={p=3,q=2}}"),
        ),
        (
            "{a: &a {p: 1}, c: &c {p: 2, q: 2}, b: {<<: [*a, *c]}}",
            Ok("{a={p=1},c={p=2,q=2},b={p=1,q=2}}"),
        ),
        ("{<<: &a [{p: 1}]}", Ok("{p=1}")),
        ("{<<: [], p: 1}", Ok("{p=1}")),
        ("{!!merge <<: {p: 1}}", Ok("{p=1}")),
        ("{\"<<\": {p: 1}, p: 2}", Ok("{<<={p=1},p=2}")),
        ("{!!str <<: {p: 1}}", Ok("{<<={p=1}}")),
        ("{a: &a [{p: 1}], b: {<<: *a}}", refused),
        ("{a: &a 1, b: {<<: *a}}", refused),
        ("{<<: null, p: 1}", refused),
        ("{<<: [null]}", refused),
        ("{<<: [[{p: 1}]]}", refused),
        ("{<<: text}", refused),
    ] {
        let parsed = parse_yaml(text, 0);
        let shown = parsed.documents.first().map(show).unwrap_or_default();
        let got = match &parsed.error {
            Some(error) => Err(&*error.message),
            None => Ok(&*shown),
        };
        assert_eq!(got, expected, "{text}");
        assert!(!parsed.repeated_keys, "{text}");
    }
}

/// A merge is no second entry of its key, but two entries are, whatever is between them.
#[test]
fn repeated_keys_beside_merges() {
    for (text, expected) in [
        ("{p: 1, <<: {p: 2}, p: 3}", 1),
        ("{<<: {p: 1, p: 2}}", 1),
        ("{<<: {p: 1}, <<: {p: 2}, p: 3}", 0),
    ] {
        let parsed = parse_yaml(text, 0);
        assert_eq!(parsed.error, None, "{text}");
        assert_eq!(parsed.repeated_keys, expected > 0, "{text}");
        assert_eq!(
            parsed.documents[0].repeated_keys().len(),
            expected,
            "{text}"
        );
    }
}

/// A million nodes that are shared, merged into six mappings, would be six million.
#[test]
fn merges_count_as_what_they_stand_for() {
    let thousand = |item: &str| vec![item; 1_000].join(",");
    let text = format!(
        "x: &x [{}]\ny: &y [{}]\nz: &z {{k: *y}}\nall: [{}]\n",
        thousand("1"),
        thousand("*x"),
        ["{<<: *z}"; 6].join(", "),
    );
    let error = parse_yaml(&text, 0).error.expect("too many nodes");
    assert_eq!(error.message, "more than 5000000 values in one document");
}

#[test]
fn characters_that_cannot_be_seen_are_escaped() {
    for plain in ["web.yaml", "\"it's\" C:\\x", "größe 服务 сервис ✓"] {
        assert_eq!(escaped(plain), plain);
    }
    let hidden = "\0\t\n\r\u{1b}\u{7f}\u{85}\u{a0}\u{ad}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\
                  \u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\
                  \u{2066}\u{2067}\u{2068}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0001}\u{e007f}\u{e000}";
    for it in hidden.chars() {
        let (shown, quoted) = (escaped(&format!("a{it}b")), quoted(&format!("a{it}b")));
        assert!(shown.is_ascii(), "{shown}");
        assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        assert_eq!(quoted, format!("\"{shown}\""));
    }
    assert_eq!(escaped("a\u{202e}b"), r"a\u{202e}b");
}

#[test]
fn messages_are_cut_between_characters() {
    assert_eq!(message("short\n"), r"short\n");
    assert_eq!(message(&"x".repeat(1_024)), "x".repeat(1_024));
    let long = format!("x{}", "é".repeat(100_000));
    assert_eq!(message(&long), format!("x{}...", "é".repeat(511)));
}

#[test]
fn what_cannot_be_seen_is_escaped_where_text_leaves() {
    let cases = [
        ("plain\n\ttext \"it's\" \\ \u{e9}\n", None),
        ("a\u{1b}[31mb\u{202e}c\n", Some("a\\u{1b}[31mb\\u{202e}c\n")),
        ("\u{9b}31m\r\n\n\u{7f}", Some("\\u{9b}31m\\r\n\n\\u{7f}")),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text), expected.unwrap_or(text));
        assert_eq!(
            shown(&shown(text)),
            shown(text),
            "escaping twice changes nothing"
        );
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let escaped = shown_json(&json);
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&escaped).unwrap(),
            [text]
        );
        assert_eq!(shown(&escaped), escaped);
    }
    // A character of two UTF-16 units: a tag, which has no width.
    assert_eq!(shown_json("\"\u{e0041}\""), "\"\\udb40\\udc41\"");
}
