use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_controller::Typed;

use super::*;

fn decoded(kind: &str, mut value: Value) -> Value {
    let (version, name) = kind.rsplit_once('/').unwrap();
    let schema = of_kind(version, name).unwrap();
    schema.decode(&mut value).unwrap();
    let once = value.clone();
    schema.decode(&mut value).unwrap();
    assert_eq!(value, once, "decoding twice changes nothing more");
    value
}

#[test]
fn every_line_of_the_facts_is_read() {
    let facts = include_str!("kubernetes.txt");
    let types = facts.lines().filter_map(|it| it.strip_prefix("type "));
    let names = types.map(|it| it.split(' ').next().unwrap());
    let types: Vec<_> = names
        .map(|it| of_type(it).unwrap().object().unwrap())
        .collect();
    let fields: usize = types.iter().map(|it| it.fields.len()).sum();
    assert_eq!(
        fields,
        facts.lines().filter(|it| it.starts_with(' ')).count()
    );
    // A kind is found by its name and its version, and decodes from nothing.
    for kind in types.iter().flat_map(|it| &it.kinds) {
        assert!(decoded(kind, json!({})).is_object(), "{kind}");
    }
}

#[test]
fn every_default_has_a_field() {
    let lines = include_str!("rules.txt").lines();
    for line in lines.filter(|it| !it.starts_with('#')) {
        let Some((name, rest)) = line.split_once(' ') else {
            continue;
        };
        let (own, name) = name.rsplit_once('.').unwrap();
        let own = of_type(own).unwrap().object().unwrap();
        let field = own.field(name).unwrap_or_else(|| panic!("{line}"));
        if let Some(value) = rest.split(' ').find_map(|it| it.strip_prefix('=')) {
            let value: Value = serde_json::from_str(value).unwrap();
            assert_eq!(field.schema.default, Some(value), "{line}");
        }
    }
}

#[test]
fn a_pod_has_one_form() {
    let container = |given: Value| {
        let pod = json!({"spec": {"containers": [given]}});
        decoded("v1/Pod", pod)["spec"]["containers"][0].clone()
    };
    let requests = |given: Value| json!({"name": "c", "resources": {"requests": given}});
    for (given, expect) in [
        (
            json!({"name": "c", "env": []}),
            json!({"name": "c", "resources": {}}),
        ),
        (
            json!({"name": "c", "tty": false}),
            json!({"name": "c", "resources": {}}),
        ),
        (
            json!({"name": "c", "image": ""}),
            json!({"name": "c", "resources": {}}),
        ),
        (
            json!({"name": "c", "resources": null}),
            json!({"name": "c", "resources": {}}),
        ),
        (
            json!({"name": "c", "securityContext": {}}),
            json!({"name": "c", "resources": {}, "securityContext": {}}),
        ),
        (
            json!({"name": "c", "securityContext": {"privileged": false}}),
            json!({"name": "c", "resources": {}, "securityContext": {"privileged": false}}),
        ),
        (
            requests(json!({"cpu": "1000m"})),
            requests(json!({"cpu": "1"})),
        ),
        (requests(json!({"cpu": 2})), requests(json!({"cpu": "2"}))),
        (
            requests(json!({"memory": "1024Mi"})),
            requests(json!({"memory": "1Gi"})),
        ),
    ] {
        assert_eq!(container(given.clone()), expect, "{given}");
    }
    assert_eq!(
        decoded(
            "v1/Pod",
            json!({"spec": {"hostNetwork": false, "nodeSelector": {}}})
        ),
        json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
    );
}

#[test]
fn other_kinds_have_one_form() {
    for (kind, given, expect) in [
        (
            "discovery.k8s.io/v1/EndpointSlice",
            json!({"endpoints": []}),
            json!({"metadata": {}, "addressType": "", "endpoints": null, "ports": null}),
        ),
        (
            "v1/Service",
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({
                "metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]},
                "status": {"loadBalancer": {}},
            }),
        ),
        (
            "v1/Event",
            json!({"eventTime": "2026-01-02T03:04:05.500000+01:00", "count": 0}),
            json!({
                "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "eventTime": "2026-01-02T02:04:05.500000Z",
                "reportingComponent": "", "reportingInstance": "",
            }),
        ),
        (
            "networking.k8s.io/v1/NetworkPolicy",
            json!({"spec": {"podSelector": {}, "ingress": [{}]}}),
            json!({"metadata": {}, "spec": {"podSelector": {}, "ingress": [{}]}}),
        ),
    ] {
        assert_eq!(decoded(kind, given), expect, "{kind}");
    }
}

#[test]
fn wrong_types_are_refused_in_the_words_of_go() {
    for (given, expect) in [
        (
            json!({"spec": {"replicas": "3"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{}, {"env": [{"value": 5}]}]}}}}),
            "json: cannot unmarshal number into Go struct field \
             EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            "json: cannot unmarshal object into Go struct field \
             PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            json!({"spec": "x"}),
            "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "2cores"}}}]}}}}),
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        let schema = of_kind("apps/v1", "Deployment").unwrap();
        let wrong = schema.decode(&mut given.clone()).unwrap_err();
        assert_eq!(wrong.to_string(), expect, "{given}");
    }
}

#[test]
fn unknown_fields_are_named_and_dropped() {
    let mut pod = json!({"a": 1, "spec": {"containers": [{"name": "c", "ports": [{"b": 2}]}]}});
    let unknown = of_kind("v1", "Pod").unwrap().decode(&mut pod).unwrap();
    assert_eq!(unknown, ["a", "spec.containers[0].ports[0].b"]);
    assert_eq!(
        pod["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 0}])
    );
}

fn widgets() -> Schema {
    let schema = json!({
        "type": "object", "required": ["spec"],
        "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "port": {"x-kubernetes-int-or-string": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "maxItems": 2,
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        }}},
    });
    Schema::of_openapi(&schema).unwrap()
}

#[test]
fn a_custom_object_is_pruned_and_completed() {
    let schema = widgets();
    let mut given = json!({
        "kind": "Widget", "metadata": {"name": "a", "labels": {}},
        "spec": {"size": 3, "color": null, "extra": 1, "free": {"x": [1]}, "labels": {"a": ""}},
    });
    assert_eq!(schema.decode(&mut given).unwrap(), ["spec.extra"]);
    schema.complete(&mut given);
    assert_eq!(
        given,
        json!({
            "kind": "Widget", "metadata": {"name": "a"},
            "spec": {"size": 3, "color": "red", "free": {"x": [1]}, "labels": {"a": ""}},
        }),
    );
    assert_eq!(schema.check("", &given, None), []);
}

#[test]
fn a_custom_object_is_checked() {
    let schema = widgets();
    for (spec, expect) in [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 1, "color": "green"}),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (
            json!({"size": 1, "code": "A"}),
            "spec.code: Invalid value: \"A\": spec.code in body should match '^[a-z]+$'",
        ),
        (
            json!({"size": 1, "code": "abcd"}),
            "spec.code: Too long: may not be more than 3 bytes",
        ),
        (json!({"size": 1, "port": "http"}), ""),
        (
            json!({"size": 1, "port": true}),
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}),
            "spec.parts[1]: Duplicate value: {\"name\":\"a\"}",
        ),
        (
            json!({"size": 1, "parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            "spec.parts: Too many: 3: must have at most 2 items",
        ),
        (json!({"size": 1, "one": {"a": ""}}), ""),
        (
            json!({"size": 1, "one": {}}),
            "spec.one: Invalid value: {}: \"spec.one\" must validate one and only one schema (oneOf)",
        ),
    ] {
        let causes = schema.check("", &json!({"spec": spec}), None);
        let found: Vec<_> = causes
            .iter()
            .map(|it| format!("{}: {}", it.field, it.message))
            .collect();
        assert_eq!(found.join(", "), expect, "{spec}");
    }
}

#[test]
fn documents_name_lists_and_kinds() {
    let found = document::components(of_kind("apps/v1", "Deployment"));
    let container = &found["io.k8s.api.core.v1.Container"]["properties"];
    assert_eq!(
        container["env"],
        json!({
            "type": "array",
            "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.EnvVar"}]},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        }),
    );
    let deployment = &found["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]),
    );
}

#[test]
fn objects_that_kubernetes_stored_have_the_one_form() {
    let recorded = include_str!("../../../controller/tests/recorded/services.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    for mut it in recorded.as_array().unwrap().clone() {
        let given = it.clone();
        let unknown = of_kind("v1", "Service").unwrap().decode(&mut it).unwrap();
        assert!(unknown.is_empty());
        assert_eq!(it, given);
    }
}

/// Any value of a type, as `seed` chooses.
fn any_of(schema: &Schema, seed: &mut u64, depth: u32) -> Value {
    let mut next = |most: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) % most
    };
    let pick = next(4);
    match &schema.shape {
        Shape::Text => ["", "a", "Always", "x-y"][pick as usize].into(),
        Shape::Bool => (pick < 2).into(),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => pick.into(),
        Shape::Double => 1.5.into(),
        Shape::Bytes => ["", "eA==", "eHk=", "eHh4"][pick as usize].into(),
        Shape::Quantity => ["0", "1000m", "1024Mi", "1.5"][pick as usize].into(),
        Shape::Time | Shape::MicroTime if pick == 0 => Value::Null,
        Shape::Time => "2026-01-02T03:04:05+01:00".into(),
        Shape::MicroTime => "2026-01-02T03:04:05.000006+01:00".into(),
        Shape::Any => json!({"a": [pick]}),
        Shape::List(items) if depth > 0 => {
            (0..pick).map(|_| any_of(items, seed, depth - 1)).collect()
        }
        Shape::Map(values) if depth > 0 => {
            let entries = (0..pick).map(|it| (it.to_string(), any_of(values, seed, depth - 1)));
            Value::Object(entries.collect())
        }
        Shape::List(_) | Shape::Map(_) => Value::Null,
        Shape::Named(_) | Shape::Object(_) => {
            let mut object = serde_json::Map::new();
            for field in schema.object().into_iter().flat_map(|it| &it.fields) {
                // A scaleIO volume requires a pointer that our types cannot tell from an empty object.
                if depth > 0 && next_is(seed) && *field.name != *"scaleIO" {
                    object.insert(
                        field.name.to_string(),
                        any_of(&field.schema, seed, depth - 1),
                    );
                }
            }
            object.into()
        }
    }
}

/// The first place where two values differ.
fn difference(a: &Value, b: &Value, path: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names = one.keys().chain(other.keys());
            names.find_map(|it| difference(&a[it], &b[it], &format!("{path}.{it}")))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut items = one.iter().zip(other).enumerate();
            items.find_map(|(at, (a, b))| difference(a, b, &format!("{path}[{at}]")))
        }
        _ if a == b => None,
        _ => Some(format!("{path}: {a} is not {b}")),
    }
}

fn next_is(seed: &mut u64) -> bool {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33).is_multiple_of(3)
}

proptest! {
    /// What this process reads into a type of its own and writes again stays as it was.
    #[test]
    fn our_own_types_keep_the_one_form(mut seed: u64) {
        fn kept<T: Typed>(schema: &Schema, decoded: &Value) {
            // A condition without time, which no client may write, is unreadable for our types.
            let Ok(read) = T::read(decoded) else { return };
            let mut written = read.write();
            schema.decode(&mut written).unwrap();
            let difference = difference(&written, decoded, "");
            assert_eq!(difference, None);
        }
        for (version, kind, kept) in [
            ("v1", "Pod", kept::<Pod> as fn(&Schema, &Value)),
            ("v1", "Service", kept::<Service>),
            ("v1", "Node", kept::<Node>),
            ("apps/v1", "Deployment", kept::<Deployment>),
            ("apps/v1", "StatefulSet", kept::<StatefulSet>),
            ("discovery.k8s.io/v1", "EndpointSlice", kept::<EndpointSlice>),
        ] {
            let schema = of_kind(version, kind).unwrap();
            let mut object = any_of(schema, &mut seed, 8);
            object["kind"] = kind.into();
            object["apiVersion"] = version.into();
            prop_assert!(schema.decode(&mut object).unwrap().is_empty());
            if object.pointer("/spec/selector").is_some_and(Value::is_null) && version == "apps/v1" {
                // Our types cannot tell this pointer from an empty object.
                object["spec"]["selector"] = json!({});
            }
            // Our types add kind and version to these, as the defaults of a StatefulSet do.
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                spec.remove("volumeClaimTemplates");
            }
            let once = object.clone();
            schema.decode(&mut object).unwrap();
            prop_assert_eq!(&object, &once);
            kept(schema, &object);
        }
    }
}
