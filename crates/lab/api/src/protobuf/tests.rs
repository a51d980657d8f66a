use proptest::prelude::*;
use serde_json::json;

use super::*;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, bytes.len() as u8];
    field.extend_from_slice(bytes);
    field
}

fn body(kind: &str, message: &[u8]) -> Vec<u8> {
    let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, message)].concat()
}

#[test]
fn schemas_of_definitions_are_read() {
    let wide = |number: u8, bytes: &[u8]| {
        let mut field = vec![
            (number & 15) << 3 | 2 | 0x80,
            number >> 4,
            bytes.len() as u8,
        ];
        field.extend_from_slice(bytes);
        field
    };
    let typed = |name: &str| field(5, name.as_bytes());
    let read = |bytes: &[u8]| json_schema(bytes, "spec").unwrap();
    for (message, expect) in [
        (
            [
                typed("array"),
                wide(24, &field(1, &[field(1, b""), typed("string")].concat())),
            ]
            .concat(),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            wide(30, &[vec![1 << 3, 1], field(2, &typed("integer"))].concat()),
            json!({"additionalProperties": {"type": "integer"}}),
        ),
        (
            wide(30, &[1 << 3, 1]),
            json!({"additionalProperties": true}),
        ),
        (
            [field(8, &field(1, b"[3]")), wide(20, &field(1, b"\"a\""))].concat(),
            json!({"default": [3], "enum": ["a"]}),
        ),
        (
            wide(29, &[field(1, b"x"), field(2, &typed("boolean"))].concat()),
            json!({"properties": {"x": {"type": "boolean"}}}),
        ),
    ] {
        assert_eq!(read(&message), expect);
    }
}

#[test]
fn messages_are_read() {
    let labels = field(11, &[field(1, b"a"), field(2, b"b")].concat());
    let metadata = [field(1, b"web"), field(8, b""), labels].concat();
    let port = [
        field(1, b""),
        vec![3 << 3, 0xd0, 0x0f],
        field(4, &[1 << 3, 1, 3 << 3 | 2, 1, b'x']),
    ];
    let spec = [field(1, &port.concat()), field(14, b"")].concat();
    let service = [field(1, &metadata), field(2, &spec), field(3, b"")].concat();
    assert_eq!(
        read(&body("Service", &service)).unwrap(),
        json!({
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "web", "labels": {"a": "b"}},
            "spec": {"ports": [{"port": 2000, "targetPort": "x"}], "sessionAffinityConfig": {}},
            "status": {"loadBalancer": {}},
        })
    );
    let options = [1 << 3, 0, 5 << 3 | 2, 3, b'A', b'l', b'l'];
    let expect = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"],
    });
    assert_eq!(read(&body("DeleteOptions", &options)).unwrap(), expect);
}

#[test]
fn what_is_not_known_is_refused() {
    for (body, expect) in [
        (b"{}".to_vec(), "no Kubernetes object in protobuf"),
        (body("Widget", b""), "\"Widget\" cannot be read in protobuf"),
        (body("ConfigMap", &field(12, b"x")), "field 12 of ConfigMap"),
        (
            body("ConfigMap", &[0xff]),
            "no Kubernetes object in protobuf",
        ),
    ] {
        let error = read(&body).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..60), kind in 0..8usize) {
        let kinds = ["Namespace", "ConfigMap", "Secret", "ServiceAccount", "Service", "Deployment",
            "DeleteOptions", "Eviction"];
        // Other tests check whether a body is refused; here it must not panic.
        let _ = read(&body(kinds[kind], &bytes));
        let _ = read(&[MAGIC, &bytes].concat());
    }
}
