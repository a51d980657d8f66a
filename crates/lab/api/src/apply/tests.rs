use serde_json::{Value, json};

use super::*;
use crate::resource::KINDS;

fn manager(name: &str) -> Manager {
    Manager {
        name: name.to_owned(),
        subresource: String::new(),
    }
}

fn apply(
    live: Option<&Value>,
    name: &str,
    config: &Value,
    conflicts: Conflicts,
) -> Result<Value, Status> {
    let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
    applied(resource, live, config, &manager(name), conflicts, "now")
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "tables read better without &"
)]
fn service(labels: Value, ports: Value) -> Value {
    json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "s", "labels": labels},
        "spec": {"ports": ports},
    })
}

/// The object without `managedFields`.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object
}

#[test]
fn what_is_no_longer_set_goes() {
    let before = service(
        json!({"a": "1", "b": "2"}),
        json!([{"port": 80}, {"port": 81, "name": "x"}]),
    );
    let first = apply(None, "one", &before, Conflicts::Refused).unwrap();
    assert_eq!(plain(&first), before);
    let mut live = first;
    live["spec"]["ports"][0]["nodePort"] = 30000.into();
    live["spec"]["clusterIP"] = "10.0.0.1".into();
    let after = service(json!({"a": "1"}), json!([{"port": 80, "name": "web"}]));
    let second = apply(Some(&live), "one", &after, Conflicts::Refused).unwrap();
    let mut expect = service(
        json!({"a": "1"}),
        json!([{"port": 80, "name": "web", "nodePort": 30000}]),
    );
    expect["spec"]["clusterIP"] = "10.0.0.1".into();
    assert_eq!(plain(&second), expect);
    // Applying the same again changes nothing, not even the time.
    let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
    let again = applied(
        resource,
        Some(&second),
        &after,
        &manager("one"),
        Conflicts::Refused,
        "later",
    );
    assert_eq!(again.unwrap(), second);
}

#[test]
fn an_empty_list_empties_a_list_with_one_owner() {
    let of = |ips: Value| {
        let mut service = service(json!({}), json!([{"port": 80}]));
        service["spec"]["externalIPs"] = ips;
        service
    };
    let two = of(json!(["203.0.113.1", "203.0.113.2"]));
    let live = apply(None, "one", &two, Conflicts::Refused).unwrap();
    let none = of(json!([]));
    let error = apply(Some(&live), "two", &none, Conflicts::Refused).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.externalIPs"
    );
    let after = apply(Some(&live), "one", &none, Conflicts::Refused).unwrap();
    assert_eq!(plain(&after), none);
}

#[test]
fn other_managers_are_asked() {
    let one = service(json!({"a": "1"}), json!([{"port": 80, "name": "x"}]));
    let live = apply(None, "one", &one, Conflicts::Refused).unwrap();
    let two = service(
        json!({"a": "2", "b": "2"}),
        json!([{"port": 80, "name": "y"}]),
    );
    let error = apply(Some(&live), "two", &two, Conflicts::Refused).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .metadata.labels.a\n\
         - .spec.ports[port=80,protocol=\"TCP\"].name"
    );
    let forced = apply(Some(&live), "two", &two, Conflicts::Forced).unwrap();
    assert_eq!(plain(&forced), two);
    // Managers that apply the same value share the field; it stays until both have dropped it.
    let shared = service(json!({"b": "2"}), json!([{"port": 80}]));
    let live = apply(Some(&forced), "three", &shared, Conflicts::Refused).unwrap();
    let nothing = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}});
    let left = apply(Some(&live), "two", &nothing, Conflicts::Refused).unwrap();
    assert_eq!(
        plain(&left),
        service(json!({"b": "2"}), json!([{"port": 80}]))
    );
}

#[test]
fn other_writes_take_fields() {
    let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
    let one = service(json!({"a": "1"}), json!([{"port": 80}]));
    let live = apply(None, "one", &one, Conflicts::Refused).unwrap();
    let mut edited = live.clone();
    edited["metadata"]["labels"]["a"] = "2".into();
    written(resource, Some(&live), &mut edited, &manager("edit"), "now");
    let error = apply(Some(&edited), "one", &one, Conflicts::Refused).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"edit\" using v1: .metadata.labels.a"
    );
    let entry = &edited["metadata"]["managedFields"][1];
    assert_eq!(entry["operation"], "Update");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:metadata": {"f:labels": {"f:a": {}}}})
    );
    let entry = &edited["metadata"]["managedFields"][0];
    let port = json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}});
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:ports": port}}));
}

#[test]
fn a_write_of_many_ports_takes_time_in_proportion() {
    let started = std::time::Instant::now();
    let ports = |numbers: std::ops::Range<u32>| -> Value {
        numbers
            .map(|it| json!({"name": format!("p{it}"), "port": it}))
            .collect()
    };
    let many = service(json!({}), ports(1..5001));
    let first = apply(None, "one", &many, Conflicts::Refused).unwrap();
    let others = service(json!({}), ports(3001..8001));
    let second = apply(Some(&first), "one", &others, Conflicts::Refused).unwrap();
    assert_eq!(plain(&second), others);
    let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
    let mut third = second.clone();
    third["spec"]["ports"] = ports(1..5001);
    written(
        resource,
        Some(&second),
        &mut third,
        &manager("two"),
        "later",
    );
    let managers: Vec<_> = third["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(managers.len(), 2);
    // A minute says that it hangs: quadratic, it took many.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// The expected orders are those of structured-merge-diff v6.4.2, asked by a program.
#[test]
fn applied_items_come_in_their_order() {
    let numbers = |text: &str| -> Value {
        let numbers = text.split_whitespace();
        numbers
            .map(|it| json!({"port": it.parse::<u16>().unwrap()}))
            .collect()
    };
    for (live, config, expect) in [
        ("1 2 3", "3 1 2", "3 1 2"),
        ("1 2 3", "3 4 1", "2 3 4 1"),
        ("1 2 3", "1 4 3", "1 2 4 3"),
        ("1 2 3", "2", "1 2 3"),
        ("1 2 3", "4", "1 2 3 4"),
        ("1 2", "3 1", "3 1 2"),
        ("", "2 1", "2 1"),
        ("1 2 3 4 5", "5 9 2", "1 3 4 5 9 2"),
        ("1 2 3 4 5 6", "4 7 2 8 6", "1 3 4 5 7 2 8 6"),
        ("7 1 2", "2 1", "7 2 1"),
        ("1 2 3 4", "2 1", "2 3 4 1"),
    ] {
        let other = service(json!({}), numbers(live));
        let live = apply(None, "other", &other, Conflicts::Refused).unwrap();
        let config = service(json!({}), numbers(config));
        let after = apply(Some(&live), "me", &config, Conflicts::Refused).unwrap();
        assert_eq!(after["spec"]["ports"], numbers(expect), "{config}");
    }
}

/// As kube-apiserver 1.36 records it of a Deployment: what the old object lacked has an owner as such, but for structs and
/// required fields of Go's types, which are always there.
#[test]
fn maps_lists_and_items_have_owners() {
    let resource = KINDS.iter().find(|it| it.kind == "Deployment").unwrap();
    let container = json!({
        "name": "c", "image": "i", "env": [{"name": "E", "value": "1"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}], "readinessProbe": {"httpGet": {"port": 80}},
    });
    let mut first = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "nodeSelector": {"x": "y"}}},
        },
    });
    resource.schema.decode(&mut first).unwrap();
    let mut second = first.clone();
    written(resource, None, &mut first, &manager("one"), "1");
    let fields = |it: &Value, at: usize| it["metadata"]["managedFields"][at]["fieldsV1"].clone();
    let owned = json!({".": {}, "f:a": {}});
    let of_container = json!({
        ".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
        "f:env": {".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}},
        "f:ports": {
            ".": {},
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
        },
        "f:readinessProbe": {".": {}, "f:httpGet": {".": {}, "f:port": {}}},
    });
    assert_eq!(
        fields(&first, 0),
        json!({
            "f:metadata": {"f:labels": owned},
            "f:spec": {
                "f:selector": {}, "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}},
                "f:template": {
                    "f:metadata": {"f:labels": owned},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": of_container}, "f:nodeSelector": {}},
                },
            },
        })
    );
    // A map that goes has no owner, and one that comes has the one who wrote it.
    second["metadata"]["labels"] = Value::Null;
    second["metadata"]["annotations"] = json!({"k": "v"});
    resource.schema.decode(&mut second).unwrap();
    written(resource, Some(&first), &mut second, &manager("two"), "2");
    assert!(fields(&second, 0)["f:metadata"].is_null());
    assert_eq!(
        fields(&second, 1),
        json!({"f:metadata": {"f:annotations": {".": {}, "f:k": {}}}})
    );
    // Who writes what is there owns nothing.
    let mut third = second.clone();
    written(resource, Some(&second), &mut third, &manager("three"), "3");
    assert_eq!(third, second);
}

#[test]
fn ten_managers_that_update_are_enough() {
    let resource = KINDS.iter().find(|it| it.kind == "Service").unwrap();
    let config = service(json!({"applied": "1"}), json!([{"port": 80}]));
    let mut live = apply(None, "applier", &config, Conflicts::Refused).unwrap();
    for at in 0..14 {
        let mut new = live.clone();
        new["metadata"]["labels"][format!("l{at:02}")] = "1".into();
        let by = manager(&format!("m{at:02}"));
        written(resource, Some(&live), &mut new, &by, &format!("{at:02}"));
        live = new;
    }
    let all = live["metadata"]["managedFields"].as_array().unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|it| it["manager"].as_str().unwrap())
        .collect();
    let late: Vec<_> = (5..14).map(|it| format!("m{it:02}")).collect();
    assert_eq!(names[..2], ["applier", "ancient-changes"]);
    assert_eq!(names[2..], late);
    let ancient = all[1]["fieldsV1"]["f:metadata"]["f:labels"]
        .as_object()
        .unwrap();
    assert_eq!(ancient.len(), 5, "{ancient:?}");
}
