use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::of_kind;

fn schema(kind: &str) -> &'static Schema {
    let versions = ["v1", "apps/v1", "discovery.k8s.io/v1"];
    versions.iter().find_map(|it| of_kind(it, kind)).unwrap()
}

#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "tables read better without &"
)]
fn check(kind: &str, before: Value, patch: Value, after: Value) {
    let text = patch.to_string();
    let patched = patched(schema(kind), &before, PatchType::Strategic, text.as_bytes());
    assert_eq!(patched.unwrap(), after, "{patch}");
}

#[test]
fn maps_are_merged() {
    check(
        "Pod",
        json!({"a": {"b": 1, "c": 2}}),
        json!({"a": {"b": null, "d": 3}}),
        json!({"a": {"c": 2, "d": 3}}),
    );
    check(
        "Pod",
        json!({"a": {"b": 1}}),
        json!({"a": {"$patch": "replace", "d": 3}}),
        json!({"a": {"d": 3}}),
    );
    check(
        "Pod",
        json!({"a": {"b": 1}}),
        json!({"a": {"$patch": "delete"}}),
        json!({"a": {}}),
    );
    check(
        "Pod",
        json!({}),
        json!({"a": {"b": {"c": null, "d": 1}}}),
        json!({"a": {"b": {"d": 1}}}),
    );
    check(
        "Deployment",
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
}

#[test]
fn lists_are_merged_by_key() {
    let pod = |containers: Value| json!({"spec": {"containers": containers}});
    let before = pod(json!([{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]));
    check(
        "Pod",
        before.clone(),
        pod(json!([{"name": "b", "image": "z"}, {"name": "c"}])),
        // In the order of the patch, as in Kubernetes' tutorial: a container that is added comes first.
        pod(json!([{"name": "a", "image": "x"}, {"name": "b", "image": "z"}, {"name": "c"}])),
    );
    check(
        "Pod",
        before.clone(),
        pod(json!([{"name": "c"}, {"name": "b", "image": "z"}])),
        pod(json!([{"name": "c"}, {"name": "a", "image": "x"}, {"name": "b", "image": "z"}])),
    );
    check(
        "Pod",
        before.clone(),
        pod(json!([{"name": "a", "$patch": "delete"}])),
        pod(json!([{"name": "b", "image": "y"}])),
    );
    check(
        "Pod",
        before.clone(),
        pod(json!([{"$patch": "replace"}, {"name": "c"}])),
        pod(json!([{"name": "c"}])),
    );
    check(
        "Pod",
        before,
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "c"}, {"name": "b", "image": "z"}],
        }}),
        pod(json!([{"name": "c"}, {"name": "a", "image": "x"}, {"name": "b", "image": "z"}])),
    );
    check(
        "Service",
        json!({"spec": {"ports": [{"port": 80, "name": "web"}]}}),
        json!({"spec": {"ports": [{"port": 81, "name": "more"}, {"port": 80, "nodePort": 30000}]}}),
        json!({"spec": {"ports": [{"port": 81, "name": "more"}, {"port": 80, "name": "web", "nodePort": 30000}]}}),
    );
    check(
        "EndpointSlice",
        json!({"ports": [{"port": 80}]}),
        json!({"ports": [{"port": 81}]}),
        json!({"ports": [{"port": 81}]}),
    );
    check(
        "Pod",
        json!({"spec": {"tolerations": [{"key": "a"}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}]}}),
    );
    check(
        "Pod",
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["b", "c"]}}),
        json!({"metadata": {"finalizers": ["b", "c"]}}),
    );
    check(
        "Node",
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure"}]}}),
    );
}

#[test]
fn bad_patches_are_refused_in_kubernetes_words() {
    const REJECTED: &str = "the server rejected our request due to an error in our request";
    let test = |value: Value| json!([{"op": "test", "path": "/kind", "value": value}]);
    let add = json!({"op": "add", "path": "/a", "value": 1});
    for (patch_type, patch, code, expect) in [
        (
            PatchType::Strategic,
            json!([]),
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            PatchType::Merge,
            json!(1),
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            PatchType::Json,
            json!({}),
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            PatchType::Json,
            json!([1]),
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            PatchType::Json,
            json!([{"op": "add", "path": 5}]),
            400,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
        (PatchType::Json, test("Node".into()), 422, REJECTED),
        (
            PatchType::Json,
            json!([{"op": "burn", "path": "/kind"}]),
            422,
            REJECTED,
        ),
        (
            PatchType::Json,
            json!([{"op": "remove", "path": "/none"}]),
            422,
            REJECTED,
        ),
        (
            PatchType::Json,
            json!([{"op": "replace", "path": "/none", "value": 1}]),
            422,
            REJECTED,
        ),
        (
            PatchType::Json,
            Value::from(vec![add; 10_001]),
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        (
            PatchType::Strategic,
            json!({"spec": {"containers": [{"image": "x"}]}}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            PatchType::Strategic,
            json!({"$patch": "x"}),
            500,
            "unknown patch type: x in map: map[$patch:x]",
        ),
        (
            PatchType::Strategic,
            json!({"$retainKeys": 1}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            PatchType::Strategic,
            json!({"$other": 1}),
            400,
            "unknown patch directive $other",
        ),
    ] {
        let text = patch.to_string();
        let before = json!({"kind": "Pod", "spec": {"containers": []}});
        let error = patched(schema("Pod"), &before, patch_type, text.as_bytes());
        let error = error.unwrap_err();
        assert_eq!(
            (error.code.as_u16(), error.to_string().as_str()),
            (code, expect)
        );
    }
}

#[test]
fn a_test_for_null_holds_where_nothing_is() {
    let patch = json!([
        {"op": "test", "path": "/a/b", "value": null},
        {"op": "add", "path": "/a/b", "value": 1},
    ]);
    let patch = patch.to_string();
    let after = patched(
        schema("Pod"),
        &json!({"a": {}}),
        PatchType::Json,
        patch.as_bytes(),
    );
    assert_eq!(after.unwrap(), json!({"a": {"b": 1}}));
    let again = patched(
        schema("Pod"),
        &json!({"a": {"b": 1}}),
        PatchType::Json,
        patch.as_bytes(),
    );
    assert!(again.is_err());
}

#[test]
fn a_patch_cannot_grow_without_end() {
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let patch = Value::from(vec![double; 100]).to_string();
    let object = json!({"a": ["x".repeat(1000)]});
    let error = patched(schema("Pod"), &object, PatchType::Json, patch.as_bytes());
    assert_eq!(error.unwrap_err().code.as_u16(), 422);
}

/// Any JSON; its keys are often those of patch directives.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("name"),
        Just("ports"),
        Just("containers"),
        Just("finalizers"),
        Just("metadata"),
        Just("spec"),
        Just("labels"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("replace"),
        Just("delete"),
        Just("$setElementOrder/containers"),
        Just("port"),
        Just("protocol"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("ownerReferences"),
        Just("uid"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5)
                .prop_map(|it| it.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn a_merge_patch_of_plain_fields_says_the_same_in_both_types(
        before in any_json(), patch in prop::collection::btree_map("[a-c]", any::<Option<u8>>(), 0..4),
    ) {
        prop_assume!(before.is_object());
        let text = serde_json::to_vec(&patch).unwrap();
        let merged = patched(schema("Pod"), &before, PatchType::Merge, &text).unwrap();
        let strategic = patched(schema("Pod"), &before, PatchType::Strategic, &text).unwrap();
        prop_assert_eq!(merged, strategic);
    }

    #[test]
    fn any_patch_of_anything_ends(before in any_json(), patch in any_json()) {
        for patch_type in [PatchType::Json, PatchType::Merge, PatchType::Strategic] {
            // Other tests check whether a patch is refused; here it must not panic.
            let _ = patched(schema("Pod"), &before, patch_type, patch.to_string().as_bytes());
        }
    }
}

/// These would be five billion comparisons if each item met each other one.
#[test]
fn long_lists_of_texts_are_merged() {
    let names = |range: std::ops::Range<u32>| range.map(|it| format!("a/{it}")).collect::<Vec<_>>();
    let after = [names(60_000..120_000), names(0..1)].concat();
    check(
        "Pod",
        json!({"metadata": {"finalizers": names(0..60_000)}}),
        json!({"metadata": {
            "finalizers": names(60_000..120_000),
            "$deleteFromPrimitiveList/finalizers": names(1..60_000),
        }}),
        json!({"metadata": {"finalizers": after}}),
    );
}

#[test]
fn an_order_names_what_the_patch_has() {
    let refused = |order: Value, containers: Value| {
        let patch =
            json!({"spec": {"$setElementOrder/containers": order, "containers": containers}});
        let text = patch.to_string();
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let patched = patched(schema("Pod"), &pod, PatchType::Strategic, text.as_bytes());
        patched.err().map(|it| format!("{} {it}", it.code.as_u16()))
    };
    let named = |names: &[&str]| Value::from_iter(names.iter().map(|it| json!({"name": it})));
    assert_eq!(refused(named(&["a", "b"]), named(&["b"])), None);
    assert_eq!(refused(named(&[]), named(&["b"])), None);
    let gone = json!([{"name": "b", "$patch": "delete"}]);
    assert_eq!(refused(named(&["a"]), gone), None);
    for (order, containers) in [(&["a"][..], &["b"][..]), (&["a", "b"], &["b", "a"])] {
        let error = refused(named(order), named(containers)).unwrap();
        assert!(
            error.starts_with("500 ") && error.contains("doesn't match $setElementOrder list"),
            "{error}"
        );
    }
}
