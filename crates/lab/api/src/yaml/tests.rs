use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Texts that are something else without quotes.
const TEXTS: &[&str] = &[
    "yes", "0x1f", "1e3", "12:30", "~", "null", "- a", "a: b", "#", "", " x", "a\nb\n", "\u{7f}",
    "*a", "|",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    /// What is written is read again as the same.
    #[test]
    fn what_is_written_is_read(value in any_value()) {
        let value = json!({"a": value});
        let text = write(value.to_string().as_bytes());
        prop_assert!(serde_json::from_slice::<Value>(&text).is_err(), "it is JSON still");
        prop_assert_eq!(read(&text).unwrap(), value);
    }
}
