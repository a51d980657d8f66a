//! The collections of the server.

use std::sync::LazyLock;

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

use super::{NameRule, Registry, Resource, Subresource};

/// The kinds that are served from the start, in the order of discovery.
pub static KINDS: LazyLock<Registry> = LazyLock::new(|| table().into_iter().collect());

fn table() -> Vec<Resource> {
    vec![
        Resource {
            short_names: words("ns"),
            status: Subresource::Served,
            blank: r#""spec":{},"status":{}"#,
            fields: words("status.phase"),
            name: NameRule::Label,
            ..cluster::<Namespace>()
        },
        Resource {
            short_names: words("no"),
            status: Subresource::Served,
            blank: r#""spec":{},"status":{}"#,
            fields: words("spec.unschedulable"),
            ..cluster::<Node>()
        },
        Resource {
            short_names: words("po"),
            categories: words("all"),
            status: Subresource::Served,
            blank: r#""spec":{},"status":{}"#,
            fields: words(
                "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP",
            ),
            ..namespaced::<Pod>()
        },
        Resource {
            short_names: words("svc"),
            categories: words("all"),
            status: Subresource::Served,
            fields: words("spec.clusterIP spec.type"),
            blank: r#""spec":{},"status":{"loadBalancer":{}}"#,
            name: NameRule::Label1035,
            ..namespaced::<Service>()
        },
        Resource {
            short_names: words("ep"),
            ..namespaced::<Endpoints>()
        },
        Resource {
            short_names: words("ev"),
            blank: r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null"#,
            fields: words(
                "type reason reportingComponent involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath",
            ),
            ..namespaced::<Event>()
        },
        Resource {
            short_names: words("cm"),
            ..namespaced::<ConfigMap>()
        },
        Resource {
            fields: words("type"),
            ..namespaced::<Secret>()
        },
        Resource {
            short_names: words("sa"),
            ..namespaced::<ServiceAccount>()
        },
        Resource {
            short_names: words("deploy"),
            ..workload::<Deployment>()
        },
        Resource {
            short_names: words("rs"),
            fields: words("status.replicas"),
            ..workload::<ReplicaSet>()
        },
        Resource {
            short_names: words("sts"),
            ..workload::<StatefulSet>()
        },
        Resource {
            short_names: words("ds"),
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
            short_names: words("ip"),
            name: NameRule::Address,
            fields: words("spec.parentRef.name"),
            ..cluster::<IPAddress>()
        },
        Resource {
            short_names: words("ev"),
            blank: r#""eventTime":null,"regarding":{}"#,
            fields: words(
                "type reason reportingController regarding.kind regarding.namespace regarding.name regarding.uid",
            ),
            ..namespaced::<events::Event>()
        },
    ]
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn namespaced<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        group: T::GROUP.to_owned(),
        version: T::VERSION.to_owned(),
        plural: T::URL_PATH_SEGMENT.to_owned(),
        kind: T::KIND.to_owned(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        status: Subresource::Absent,
        scale: Subresource::Absent,
        fields: Vec::new(),
        blank: "",
        name: NameRule::Subdomain,
        known: |it| Ok(T::read(it)?.write()),
    }
}

fn cluster<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        namespaced: false,
        ..namespaced::<T>()
    }
}

fn workload<T: Typed + k8s_openapi::Resource>() -> Resource {
    Resource {
        categories: words("all"),
        status: Subresource::Served,
        scale: Subresource::Served,
        ..namespaced::<T>()
    }
}
