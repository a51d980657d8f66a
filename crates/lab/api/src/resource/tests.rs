//! Every kind of the table does what every kind does.

use bytes::Bytes;
use futures::StreamExt;
use hyper::Request;
use serde_json::{Map, Value, json};

use super::kinds::kind;
use super::{KINDS, NameRule, Resource, Subresource};
use crate::answer::Content;
use crate::http::Api;
use crate::schema::{Field, Form, Schema, Shape};
use crate::store::{Settings, Store};
use crate::table::Table;

struct Client(Api);

impl Client {
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Content) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers.iter().chain([&("authorization", "Bearer t")]) {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Bytes::copy_from_slice(body.as_bytes()))
            .unwrap();
        let (head, content) = self.0.answer(&request, false).into_parts();
        (head.status.as_u16(), content)
    }

    #[track_caller]
    fn ok(
        &self,
        code: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (is, content) = self.send(method, path, headers, &body);
        let text = text(content);
        assert_eq!(is, code, "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.ok(200, "GET", path, &[], &Value::Null)
    }
}

fn text(content: Content) -> String {
    let bytes = match content {
        Content::Whole(bytes) => bytes.unwrap_or_default().to_vec(),
        Content::Pieces(pieces) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime
                .unwrap()
                .block_on(pieces.collect::<Vec<_>>())
                .concat()
        }
    };
    String::from_utf8(bytes).unwrap()
}

/// A value with what its schema requires, and nothing else.
fn least(schema: &Schema) -> Value {
    if let Some(first) = schema.rules.as_ref().and_then(|it| it.allowed.first()) {
        return first.clone();
    }
    match &schema.shape {
        Shape::Bool => true.into(),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 1.into(),
        Shape::Quantity => "1".into(),
        Shape::Time => "2026-01-02T03:04:05Z".into(),
        Shape::MicroTime => "2026-01-02T03:04:05.000006Z".into(),
        Shape::Bytes => "YQ==".into(),
        Shape::Any | Shape::Map(_) => json!({}),
        Shape::List(items) => json!([least(items)]),
        Shape::Text => "v1".into(),
        Shape::Named(_) | Shape::Object(_) => {
            let fields = schema.object().into_iter().flat_map(|it| &it.fields);
            // A struct of Go's is always there, and so is what it requires.
            let is_there = |it: &&Field| {
                let is_struct = matches!(it.schema.shape, Shape::Named(_));
                it.required || (it.form == Form::Always && is_struct)
            };
            let required = fields.filter(is_there);
            let required = required.map(|it| (it.name.to_string(), least(&it.schema)));
            let mut object = Value::Object(required.collect::<Map<_, _>>());
            let name = schema.object().map_or("", |it| &*it.name);
            // What rules of several fields want.
            for (_, more) in related().iter().filter(|(it, _)| *it == name) {
                for (field, value) in more.as_object().unwrap() {
                    object[field] = value.clone();
                }
            }
            object
        }
    }
}

/// A request for a certificate in PEM, as the API has bytes.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

/// Types with fields that only rules of several fields demand.
fn related() -> [(&'static str, Value); 16] {
    let usage = json!({"requests": {"storage": "1Gi"}});
    let role = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}});
    [
        ("core.v1.Container", json!({"image": "i"})),
        (
            "autoscaling.v1.CrossVersionObjectReference",
            json!({"apiVersion": "apps/v1"}),
        ),
        (
            "autoscaling.v2.CrossVersionObjectReference",
            json!({"apiVersion": "apps/v1"}),
        ),
        (
            "core.v1.PersistentVolumeClaimSpec",
            json!({"accessModes": ["ReadWriteOnce"], "resources": usage}),
        ),
        (
            "core.v1.PersistentVolumeSpec",
            json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}),
        ),
        ("core.v1.LimitRangeItem", json!({"type": "Pod"})),
        (
            "networking.v1.IngressClassSpec",
            json!({"controller": "example.com/c"}),
        ),
        (
            "certificates.v1.CertificateSigningRequestSpec",
            json!({"signerName": "example.com/a", "usages": ["client auth"], "request": REQUEST}),
        ),
        (
            "networking.v1.IngressSpec",
            json!({"rules": [{"host": "a.example"}]}),
        ),
        ("rbac.v1.RoleBinding", role.clone()),
        ("rbac.v1.ClusterRoleBinding", role),
        ("core.v1.ConfigMapEnvSource", json!({"name": "a"})),
        (
            "events.v1.Event",
            json!({
                "type": "Normal", "reason": "a", "action": "a", "reportingController": "example.com/a",
                "reportingInstance": "a",
            }),
        ),
        ("networking.v1.IPBlock", json!({"cidr": "10.0.0.0/8"})),
        (
            "core.v1.ReplicationControllerSpec",
            json!({
                "selector": {"a": "b"},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }),
        ),
        (
            "core.v1.NodeSelectorRequirement",
            json!({"key": "a", "operator": "Exists"}),
        ),
    ]
}

fn object(resource: &Resource) -> Value {
    let mut object = least(&resource.schema);
    let name = match (resource.name, &*resource.kind) {
        (NameRule::Address, _) => "192.0.2.1",
        (_, "CustomResourceDefinition") => "gears.example.com",
        _ => "a",
    };
    object["metadata"] = json!({"name": name});
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    // The only kind whose fields say what its name is.
    if resource.kind == "CustomResourceDefinition" {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        object["spec"] = json!({
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        });
    }
    object
}

#[test]
fn every_kind_of_the_table_is_whole() {
    let client = Client(Api {
        store: Store::new(Settings::default()),
        logs: None,
        token: "t".to_owned(),
        metrics: None,
        programs: None,
        sessions: crate::Sessions::default(),
        requests: crate::Requests::default(),
        user: "admin".to_owned(),
        tokens: None,
        dial: None,
    });
    // A new kind is one entry.
    let history = client.0.store.history();
    let widget = kind(
        "example.com/v2alpha1 Widget widgets wd status",
        Table::of("Name, Size#=.spec.size|0, Age"),
    );
    history.serve(history.registry().with(vec![widget]));
    let registry = history.registry();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    for resource in registry.iter().filter(|it| it.computed.is_none()) {
        let version = resource.api_version();
        let root = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let scope = if resource.namespaced {
            "/namespaces/default"
        } else {
            ""
        };
        let all = format!("/{root}/{version}{scope}/{}", resource.plural);
        let object = object(resource);
        let name = object["metadata"]["name"].as_str().unwrap();
        let one = format!("{all}/{name}");

        let kinds = client.get(&format!("/{root}/{version}"));
        let entry = kinds["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == *resource.plural);
        let entry = entry.unwrap();
        assert_eq!(
            (&entry["kind"], entry["verbs"].as_array().unwrap().len()),
            (&json!(resource.kind), resource.verbs().len())
        );
        let document = client.get(&format!("/openapi/v3/{root}/{version}"));
        let collection = all.replace("/default/", "/{namespace}/");
        assert!(document["paths"][&collection].is_object(), "{collection}");
        let of_it =
            json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let mut schemas = document["components"]["schemas"]
            .as_object()
            .unwrap()
            .values();
        let published = |it: &Value| it["x-kubernetes-group-version-kind"][0] == of_it;
        assert!(
            resource.group == "example.com" || schemas.any(published),
            "{all}"
        );

        let made = client.ok(201, "POST", &all, &[], &object);
        assert_eq!(
            (&made["apiVersion"], &made["kind"]),
            (&json!(version), &json!(resource.kind))
        );
        let read = client.get(&one);
        assert_eq!(read, made);
        let list = client.get(&format!("{all}?fieldSelector=metadata.name={name}"));
        assert_eq!(list["kind"], format!("{}List", resource.kind));
        assert_eq!(list["items"][0]["metadata"]["uid"], made["metadata"]["uid"]);
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let table = client.ok(200, "GET", &all, &table, &Value::Null);
        let columns = table["columnDefinitions"].as_array().unwrap();
        assert!(columns.iter().any(|it| it["name"] == "Name"), "{all}");
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap().len(),
            columns.len(),
            "{all}"
        );

        let watch = runtime.block_on(async {
            let path = format!("{all}?watch=1&fieldSelector=metadata.name={name}");
            let (_, content) = client.send("GET", &path, &[], "");
            let Content::Pieces(mut pieces) = content else {
                panic!("a watch is a stream")
            };
            pieces.next().await.unwrap()
        });
        let event: Value = serde_json::from_slice(&watch).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]),
            (&json!("ADDED"), &made),
            "{all}"
        );

        for (patch, key) in [("merge-patch", "m"), ("strategic-merge-patch", "s")] {
            let sort = format!("application/{patch}+json");
            let labels = json!({"metadata": {"labels": {key: "x"}}});
            let custom = resource.custom && key == "s";
            if !custom {
                client.ok(200, "PATCH", &one, &[("content-type", &sort)], &labels);
            }
        }
        let add = json!([{"op": "add", "path": "/metadata/labels/j", "value": "x"}]);
        let sort = [("content-type", "application/json-patch+json")];
        client.ok(200, "PATCH", &one, &sort, &add);
        let apply = json!({
            "apiVersion": version, "kind": resource.kind, "metadata": {"name": name, "annotations": {"a": "b"}},
        });
        let sort = [("content-type", "application/apply-patch+yaml")];
        let applied = client.ok(
            200,
            "PATCH",
            &format!("{one}?fieldManager=me"),
            &sort,
            &apply,
        );
        let managers = applied["metadata"]["managedFields"].as_array().unwrap();
        assert!(
            managers
                .iter()
                .any(|it| it["manager"] == "me" && it["apiVersion"] == *version),
            "{all}"
        );
        let again = client.ok(200, "PUT", &one, &[], &applied);
        assert_eq!(
            again["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"],
            "{all}"
        );
        if resource.status == Subresource::Served {
            client.get(&format!("{one}/status"));
        }
        client.ok(200, "DELETE", &one, &[], &Value::Null);
        let gone = client.ok(404, "GET", &one, &[], &Value::Null);
        assert_eq!(gone["reason"], "NotFound");
    }
    assert!(KINDS.iter().count() > 50);
}
