//! Compares the tables with the API's own types, and tests the messages about misspelt fields.

use std::cell::RefCell;

use k8s_openapi::api::core::v1::{self as core, Endpoints};
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::de::{self, Deserialize, Visitor};
use sluice_yaml::parse_yaml;

use super::*;
use crate::kind::Kind;
use crate::kinds;

/// Records the fields that a type of k8s-openapi asks for.
struct Asked<'a>(&'a RefCell<Vec<&'static str>>);

impl<'de> de::Deserializer<'de> for Asked<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structs"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.borrow_mut().extend(fields);
        Err(de::Error::custom("the fields are known"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields<K: Kind>() -> &'static Fields {
    K::fields().unwrap()
}

#[track_caller]
fn check_api<'de, T: Deserialize<'de>>(table: &Fields, path: &str) {
    let asked = RefCell::default();
    assert!(T::deserialize(Asked(&asked)).is_err());
    let mut asked = asked.into_inner();
    asked.sort_unstable();
    assert_eq!(table.lines[path], asked, "{path}");
}

#[test]
fn tables_are_the_apis() {
    let service = fields::<kinds::Service>();
    check_api::<core::Service>(service, "");
    check_api::<meta::ObjectMeta>(service, "metadata");
    check_api::<meta::ManagedFieldsEntry>(service, "metadata.managedFields[]");
    check_api::<meta::OwnerReference>(service, "metadata.ownerReferences[]");
    check_api::<core::ServiceSpec>(service, "spec");
    check_api::<core::ServicePort>(service, "spec.ports[]");
    check_api::<core::SessionAffinityConfig>(service, "spec.sessionAffinityConfig");
    check_api::<core::ClientIPConfig>(service, "spec.sessionAffinityConfig.clientIP");
    check_api::<core::ServiceStatus>(service, "status");
    check_api::<meta::Condition>(service, "status.conditions[]");
    check_api::<core::LoadBalancerStatus>(service, "status.loadBalancer");
    check_api::<core::LoadBalancerIngress>(service, "status.loadBalancer.ingress[]");
    check_api::<core::PortStatus>(service, "status.loadBalancer.ingress[].ports[]");
    let slice = fields::<kinds::EndpointSlice>();
    check_api::<discovery::EndpointSlice>(slice, "");
    check_api::<discovery::Endpoint>(slice, "endpoints[]");
    check_api::<discovery::EndpointConditions>(slice, "endpoints[].conditions");
    check_api::<discovery::EndpointHints>(slice, "endpoints[].hints");
    check_api::<discovery::ForNode>(slice, "endpoints[].hints.forNodes[]");
    check_api::<discovery::ForZone>(slice, "endpoints[].hints.forZones[]");
    check_api::<core::ObjectReference>(slice, "endpoints[].targetRef");
    check_api::<discovery::EndpointPort>(slice, "ports[]");
    let endpoints = &ENDPOINTS;
    check_api::<Endpoints>(endpoints, "");
    check_api::<core::EndpointSubset>(endpoints, "subsets[]");
    for list in ["addresses", "notReadyAddresses"] {
        check_api::<core::EndpointAddress>(endpoints, &format!("subsets[].{list}[]"));
        let target = format!("subsets[].{list}[].targetRef");
        check_api::<core::ObjectReference>(endpoints, &target);
    }
    check_api::<core::EndpointPort>(endpoints, "subsets[].ports[]");
    check_api::<core::Node>(fields::<kinds::Node>(), "");
    check_api::<core::NodeSpec>(fields::<kinds::Node>(), "spec");
    check_api::<core::Taint>(fields::<kinds::Node>(), "spec.taints[]");
    check_api::<networking::ServiceCIDR>(fields::<kinds::ServiceCidr>(), "");
    check_api::<networking::ServiceCIDRSpec>(fields::<kinds::ServiceCidr>(), "spec");
    check_api::<networking::ServiceCIDRStatus>(fields::<kinds::ServiceCidr>(), "status");
    check_api::<meta::Condition>(fields::<kinds::ServiceCidr>(), "status.conditions[]");
}

#[track_caller]
fn check(table: &Fields, yaml: &str, expected: &[&str]) {
    let parsed = parse_yaml(yaml, 0);
    let found = table.unknown(&parsed.documents[0]);
    let found = found
        .iter()
        .map(|it| format!("{}: {}: {}", it.line, it.field, it.message));
    let ignored = "is no field of the API and is ignored";
    let expected = expected.iter().map(|it| it.replace('!', ignored));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn nearest_field_is_named() {
    let yaml = "
kind: Service
spec:
  clusterIp: 10.96.0.1
  externalIps: [192.0.2.1]
  nodePort: 30080
  ports:
  - {port: 80, nodeport: 30080}
  - {prot: 81, weight: 3, x: {y: 1}}
clusterIP: 10.96.0.1
name: web
";
    check(
        fields::<kinds::Service>(),
        yaml,
        &[
            "4: spec.clusterIp: !: write clusterIP",
            "5: spec.externalIps: !: write externalIPs",
            "6: spec.nodePort: !: nodePort belongs in spec.ports[]",
            "8: spec.ports[0].nodeport: !: write nodePort",
            "9: spec.ports[1].prot: !: write port",
            "9: spec.ports[1].weight: !",
            "9: spec.ports[1].x: !",
            "10: clusterIP: !: clusterIP belongs in spec",
            "11: name: !: name belongs in metadata",
        ],
    );
    let slice = "{addresstype: IPv4, subsets: [], spec: {}, endpoint: [{ip: 10.0.0.1}]}";
    check(
        fields::<kinds::EndpointSlice>(),
        slice,
        &[
            "1: addresstype: !: write addressType",
            "1: subsets: !",
            "1: spec: !",
            "1: endpoint: !: write endpoints",
        ],
    );
}

#[test]
fn known_fields_with_any_value_pass() {
    let yaml = "
metadata: {name: web, labels: {clusterIp: x}, annotations: {a/b: c}, managedFields: [{fieldsV1: {'f:x': {}}}]}
spec: {selector: {clusterIp: x}, ports: [{targetPort: http}, null, 3], sessionAffinityConfig: x}
status: null
";
    check(fields::<kinds::Service>(), yaml, &[]);
    check(
        fields::<kinds::Node>(),
        "{status: {capacity: {cpu: 1}, anything: 1}}",
        &[],
    );
}

#[test]
fn first_fields_are_reported() {
    let many: Vec<String> = (0..100).map(|it| format!("x{it}: 1")).collect();
    let parsed = format!("{{{}}}", many.join(", "));
    let parsed = parse_yaml(&parsed, 0);
    assert_eq!(
        fields::<kinds::Service>()
            .unknown(&parsed.documents[0])
            .len(),
        MAX_UNKNOWN
    );
}
