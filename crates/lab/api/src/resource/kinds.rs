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
use serde_json::{Value, json};

use super::{NameRule, Registry, Resource, Scale, Subresource};
use crate::http::pods::PARTS;
use crate::schema::of_kind;
use crate::store::namespaces;
use crate::table::{self, Table};

/// The kinds that are served from the start, in the order of discovery.
pub static KINDS: LazyLock<Registry> = LazyLock::new(|| table().into_iter().collect());

/// The first column of Events is their time, not their name.
const EVENT: &str =
    "Last Seen, Type, Reason, Object, Subobject+, Source+, Message, First Seen+, Count+, Name+";

fn table() -> Vec<Resource> {
    vec![
        Resource {
            short_names: words("ns"),
            status: Subresource::Served,
            fields: words("status.phase"),
            name: NameRule::Label,
            table: Table::of("Name, Status=.status.phase, Age"),
            begin: namespaces::complete,
            ..cluster::<Namespace>()
        },
        Resource {
            short_names: words("no"),
            status: Subresource::Served,
            fields: words("spec.unschedulable"),
            table: Table::rows(
                "Name, Status, Roles, Age, Version, Internal-IP+, External-IP+, OS-Image+, Kernel-Version+, Container-Runtime+",
                table::node::cells,
            ),
            // kubelets create Nodes with their status.
            begin: |_| {},
            ..cluster::<Node>()
        },
        Resource {
            short_names: words("po"),
            categories: words("all"),
            status: Subresource::Served,
            parts: PARTS,
            fields: words(
                "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP",
            ),
            table: Table::rows(
                "Name, Ready, Status, Restarts, Age, IP+, Node+, Nominated Node+, Readiness Gates+",
                table::pod::cells,
            ),
            begin: |it| it["status"] = json!({"phase": "Pending"}),
            ..namespaced::<Pod>()
        },
        Resource {
            short_names: words("svc"),
            categories: words("all"),
            status: Subresource::Served,
            fields: words("spec.clusterIP spec.type"),
            name: NameRule::Label1035,
            table: Table::rows(
                "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector+",
                table::network::service,
            ),
            ..namespaced::<Service>()
        },
        Resource {
            short_names: words("ep"),
            table: Table::rows("Name, Endpoints, Age", table::network::endpoints),
            ..namespaced::<Endpoints>()
        },
        Resource {
            short_names: words("ev"),
            fields: words(
                "type reason reportingComponent involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath",
            ),
            table: Table::rows(EVENT, table::objects::event),
            ..namespaced::<Event>()
        },
        Resource {
            short_names: words("cm"),
            table: Table::rows("Name, Data#, Age", table::objects::config_map),
            ..namespaced::<ConfigMap>()
        },
        Resource {
            fields: words("type"),
            table: Table::rows("Name, Type, Data#, Age", table::objects::secret),
            ..namespaced::<Secret>()
        },
        Resource {
            short_names: words("sa"),
            table: Table::of("Name, Secrets#=*.secrets, Age"),
            ..namespaced::<ServiceAccount>()
        },
        Resource {
            short_names: words("deploy"),
            table: Table::rows(
                "Name, Ready, Up-to-date, Available, Age, Containers+, Images+, Selector+",
                table::workload::deployment,
            ),
            ..workload::<Deployment>()
        },
        Resource {
            short_names: words("rs"),
            fields: words("status.replicas"),
            table: Table::rows(
                "Name, Desired#, Current#, Ready#, Age, Containers+, Images+, Selector+",
                table::workload::replica_set,
            ),
            ..workload::<ReplicaSet>()
        },
        Resource {
            short_names: words("sts"),
            table: Table::rows(
                "Name, Ready, Age, Containers+, Images+",
                table::workload::stateful_set,
            ),
            ..workload::<StatefulSet>()
        },
        Resource {
            short_names: words("ds"),
            scale: None,
            table: Table::rows(
                "Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, Containers+, Images+, Selector+",
                table::workload::daemon_set,
            ),
            ..workload::<DaemonSet>()
        },
        Resource {
            table: Table::rows(
                "Name, Controller, Revision#, Age",
                table::workload::revision,
            ),
            ..namespaced::<ControllerRevision>()
        },
        Resource {
            table: Table::rows(
                "Name, AddressType, Ports, Endpoints, Age",
                table::network::slice,
            ),
            ..namespaced::<EndpointSlice>()
        },
        Resource {
            status: Subresource::Served,
            table: Table::rows("Name, CIDRs, Age", table::network::cidr),
            ..cluster::<ServiceCIDR>()
        },
        Resource {
            short_names: words("ip"),
            name: NameRule::Address,
            fields: words("spec.parentRef.name"),
            table: Table::rows("Name, ParentRef, Age", table::network::address),
            ..cluster::<IPAddress>()
        },
        Resource {
            short_names: words("ev"),
            fields: words(
                "type reason reportingController regarding.kind regarding.namespace regarding.name regarding.uid",
            ),
            table: Table::rows(EVENT, table::objects::event),
            ..namespaced::<events::Event>()
        },
    ]
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn namespaced<T: k8s_openapi::Resource>() -> Resource {
    Resource {
        group: T::GROUP.to_owned(),
        version: T::VERSION.to_owned(),
        plural: T::URL_PATH_SEGMENT.to_owned(),
        kind: T::KIND.to_owned(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        status: Subresource::Absent,
        scale: None,
        parts: &[],
        conversion: None,
        begin: |_| {},
        inert: false,
        table: Table::of("Name, Age"),
        fields: Vec::new(),
        name: NameRule::Subdomain,
        schema: of_kind(T::API_VERSION, T::KIND)
            .cloned()
            .expect("the facts have every kind"),
    }
}

fn cluster<T: k8s_openapi::Resource>() -> Resource {
    Resource {
        namespaced: false,
        ..namespaced::<T>()
    }
}

fn workload<T: k8s_openapi::Resource>() -> Resource {
    Resource {
        categories: words("all"),
        status: Subresource::Served,
        scale: Some(Scale {
            replicas: "/spec/replicas".to_owned(),
            current: "/status/replicas".to_owned(),
            selector: "/spec/selector".to_owned(),
        }),
        begin: empty_status,
        ..namespaced::<T>()
    }
}

fn empty_status(object: &mut Value) {
    object["status"] = json!({});
}
