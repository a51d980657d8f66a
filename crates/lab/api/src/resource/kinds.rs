//! The collections of the server.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use sluice_controller::Typed;

use super::{NameRule, Resource, Subresource};

/// Every collection, in the order of discovery.
pub static KINDS: [Resource; 18] = [
    Resource {
        short_names: &["ns"],
        status: Subresource::Served,
        blank: r#""spec":{},"status":{}"#,
        fields: &["status.phase"],
        name: NameRule::Label,
        ..cluster::<Namespace>()
    },
    Resource {
        short_names: &["no"],
        status: Subresource::Served,
        blank: r#""spec":{},"status":{}"#,
        fields: &["spec.unschedulable"],
        ..cluster::<Node>()
    },
    Resource {
        short_names: &["po"],
        categories: &["all"],
        status: Subresource::Served,
        blank: r#""spec":{},"status":{}"#,
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        ..namespaced::<Pod>()
    },
    Resource {
        short_names: &["svc"],
        categories: &["all"],
        status: Subresource::Served,
        fields: &["spec.clusterIP", "spec.type"],
        blank: r#""spec":{},"status":{"loadBalancer":{}}"#,
        name: NameRule::Label1035,
        ..namespaced::<Service>()
    },
    Resource {
        short_names: &["ep"],
        ..namespaced::<Endpoints>()
    },
    Resource {
        short_names: &["ev"],
        blank: r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null"#,
        fields: &[
            "type",
            "reason",
            "reportingComponent",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
        ],
        ..namespaced::<Event>()
    },
    Resource {
        short_names: &["cm"],
        ..namespaced::<ConfigMap>()
    },
    Resource {
        fields: &["type"],
        ..namespaced::<Secret>()
    },
    Resource {
        short_names: &["sa"],
        ..namespaced::<ServiceAccount>()
    },
    Resource {
        short_names: &["deploy"],
        ..workload::<Deployment>()
    },
    Resource {
        short_names: &["rs"],
        fields: &["status.replicas"],
        ..workload::<ReplicaSet>()
    },
    Resource {
        short_names: &["sts"],
        ..workload::<StatefulSet>()
    },
    Resource {
        short_names: &["ds"],
        scale: Subresource::Absent,
        ..workload::<DaemonSet>()
    },
    namespaced::<ControllerRevision>(),
    Resource {
        blank: r#""addressType":"","endpoints":null,"ports":null"#,
        ..namespaced::<EndpointSlice>()
    },
    Resource {
        status: Subresource::Served,
        blank: r#""spec":{},"status":{}"#,
        ..cluster::<ServiceCIDR>()
    },
    Resource {
        short_names: &["ip"],
        name: NameRule::Address,
        fields: &["spec.parentRef.name"],
        ..cluster::<IPAddress>()
    },
    Resource {
        short_names: &["ev"],
        blank: r#""eventTime":null,"regarding":{}"#,
        fields: &[
            "type",
            "reason",
            "reportingController",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
        ],
        ..namespaced::<events::Event>()
    },
];

const fn namespaced<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        group: T::GROUP,
        version: T::VERSION,
        plural: T::URL_PATH_SEGMENT,
        kind: T::KIND,
        namespaced: true,
        short_names: &[],
        categories: &[],
        status: Subresource::Absent,
        scale: Subresource::Absent,
        fields: &[],
        blank: "",
        name: NameRule::Subdomain,
        known: |it| Ok(T::read(it)?.write()),
    }
}

const fn cluster<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        namespaced: false,
        ..namespaced::<T>()
    }
}

const fn workload<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        categories: &["all"],
        status: Subresource::Served,
        scale: Subresource::Served,
        ..namespaced::<T>()
    }
}
