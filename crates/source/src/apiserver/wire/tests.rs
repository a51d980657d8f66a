//! Framing: any cut into pieces gives the same.

use super::*;

/// Lines of a text that arrives in pieces of `size` bytes.
fn lines(text: &str, size: usize) -> Result<(Vec<String>, bool), Garbage> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        lines.push(piece, |line| {
            found.push(String::from_utf8_lossy(line).into_owned());
            Ok::<(), Garbage>(())
        })?;
    }
    Ok((found, lines.is_whole()))
}

#[test]
fn lines_are_the_same_in_any_pieces() {
    let text = "{\"a\":1}\n\n  \n{\"b\":2}\r\n{\"c";
    for size in 1..text.len() + 1 {
        let (found, is_whole) = lines(text, size).unwrap();
        assert_eq!(found, ["{\"a\":1}", "{\"b\":2}\r"], "pieces of {size}");
        assert!(!is_whole);
    }
    assert!(lines("a\n \n", 2).unwrap().1);
}

#[test]
fn endless_line_is_garbage() {
    let (mut lines, piece) = (Lines::default(), vec![b'x'; 1 << 20]);
    let mut push = || lines.push(&piece, |_| Ok::<(), Garbage>(()));
    let failed = (0..32).position(|_| push().is_err());
    assert_eq!(failed, Some(16));
}

/// Items and envelope of a list that arrives in pieces of `size` bytes.
fn items(text: &str, size: usize) -> Result<(Vec<String>, Envelope), Garbage> {
    let (mut items, mut found) = (Items::default(), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        items.push(piece, |item| {
            found.push(String::from_utf8_lossy(item).into_owned());
            Ok::<(), Garbage>(())
        })?;
    }
    Ok((found, items.finish()?))
}

#[test]
fn items_are_the_same_in_any_pieces() {
    let first = r#"{"metadata":{"name":"a}]\"items\":[","items":[{"x":"\\"}]}}"#;
    let text = format!(
        r#" {{ "kind":"items", "metadata":{{"resourceVersion":"7","continue":"t","items":[1]}},
            "items" : [ {first} ,{{}}, {{"b":[[{{}}]]}} ], "other": {{"items":[2]}} }} "#
    );
    for size in 1..text.len() + 1 {
        let (found, envelope) = items(&text, size).unwrap();
        assert_eq!(found, [first, "{}", r#"{"b":[[{}]]}"#], "pieces of {size}");
        assert_eq!(envelope.kind, "items");
        assert_eq!(envelope.metadata.resource_version, "7");
        assert_eq!(envelope.metadata.token.as_deref(), Some("t"));
    }
}

#[test]
fn list_without_items_is_empty() {
    for items_text in ["", r#","items":null"#, r#","items":[]"#, r#","items":[ ]"#] {
        let text = format!(r#"{{"kind":"L","metadata":{{"resourceVersion":"1"}}{items_text}}}"#);
        assert_eq!(items(&text, 3).unwrap().0, [""; 0], "{text}");
    }
}

#[test]
fn broken_lists_are_garbage() {
    let head = r#"{"kind":"L","metadata":{"resourceVersion":"1"},"items":"#;
    let broken = [
        "[{}",
        "[{},]}",
        "[{} {}]}",
        "[1]}",
        "[null]}",
        "[\"a\"]}",
        "[[]]}",
        "[{}]",
        "[{}]}}",
        "{}}",
        "\"\"}",
        "[{}}",
        "[,{}]}",
        "[{}],\"items\":[{}]}",
        "[{\"a\":\"]}",
    ];
    for tail in broken {
        for size in [1, 4, 1_000] {
            assert!(items(&format!("{head}{tail}"), size).is_err(), "{tail}");
        }
    }
    for text in [
        "",
        "<html></html>",
        "{}",
        "[]",
        "null",
        "]}]}",
        r#"{"kind":"Status"}"#,
    ] {
        assert!(items(text, 2).is_err(), "{text}");
    }
}

#[test]
fn giants_are_garbage() {
    let head = r#"{"kind":"L","metadata":{"resourceVersion":"1"},"items":[{"a":""#;
    let giant = format!("{head}{}", "x".repeat(MAX_OBJECT + 1));
    assert!(items(&giant, 1 << 16).is_err());
    assert!(items(&"<".repeat(MAX_ENVELOPE + 1), 1 << 16).is_err());
}
