//! The kinds that are served from the start.

mod stored;

use std::sync::LazyLock;

use serde_json::{Value, json};
use sluice_controller::set_defaults;
use sluice_controller::workloads::{
    default_cron_job, default_daemon_set, default_deployment, default_job, default_pod,
    default_replica_set, default_stateful_set,
};

use super::{Conversion, NameRule, Registry, Resource, Scale, Subresource, defaults, events};
use crate::custom;
use crate::http::pods::{OF_BINDINGS, PARTS};
use crate::http::proxy::OF_SERVICES;
use crate::http::{components, metrics, reviews, tokens, writing};
use crate::schema;
use crate::store::namespaces;
use crate::table::{Table, network, node, objects, pod, workload};
use crate::validation::data;

/// The kinds that are served from the start, in the order of discovery.
pub static KINDS: LazyLock<Registry> = LazyLock::new(|| {
    let all = [core(), apps(), stored::kinds(), others(), reviews()];
    all.into_iter().flatten().collect()
});

/// The object of the subresource `scale`.
pub(crate) static SCALE: LazyLock<Resource> =
    LazyLock::new(|| kind("autoscaling/v1 Scale scales -", Table::of("Name")));

/// An object that assigns a Pod to a node, and is not stored.
pub(crate) static BINDING: LazyLock<Resource> =
    LazyLock::new(|| kind("v1 Binding bindings -", Table::of("Name")));

/// The columns of workloads after their own.
const TEMPLATE: &str = "Age, Containers+, Images+, Selector+";

/// The columns of a kind without its own.
const CREATED: &str = "Name, Created At%=.metadata.creationTimestamp";

/// The first column of Events is their time, not their name.
const EVENT: &str =
    "Last Seen, Type, Reason, Object, Subobject+, Source+, Message, First Seen+, Count+, Name+";

fn core() -> Vec<Resource> {
    vec![
        Resource {
            fields: words("status.phase"),
            name: NameRule::Label,
            begin: namespaces::complete,
            defaults: Some(namespaces::name_in_label),
            parts: writing::OF_NAMESPACES,
            ..kind(
                "v1 Namespace namespaces ns cluster status one-by-one shown-deleted",
                Table::of("Name, Status=.status.phase, Age"),
            )
        },
        Resource {
            fields: words("spec.unschedulable"),
            // kubelets create Nodes with their status.
            begin: |_| {},
            ..kind(
                "v1 Node nodes no cluster status",
                Table::rows(
                    "Name, Status, Roles, Age, Version, Internal-IP+, External-IP+, OS-Image+, Kernel-Version+, \
                     Container-Runtime+",
                    node::cells,
                ),
            )
        },
        Resource {
            parts: PARTS,
            fields: words(
                "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase \
                 status.podIP status.podIPs status.nominatedNodeName",
            ),
            begin: pending,
            defaults: Some(|it| defaults::typed(it, default_pod)),
            ..kind(
                "v1 Pod pods po status all shown-deleted",
                Table::rows(
                    "Name, Ready, Status, Restarts, Age, IP+, Node+, Nominated Node+, Readiness Gates+",
                    pod::cells,
                ),
            )
        },
        Resource {
            computed: OF_BINDINGS,
            ..BINDING.clone()
        },
        Resource {
            fields: words("spec.clusterIP spec.type"),
            name: NameRule::Label,
            parts: OF_SERVICES,
            begin: balanced,
            defaults: Some(|it| defaults::typed(it, set_defaults)),
            ..kind(
                "v1 Service services svc status put all shown-deleted",
                Table::rows(
                    "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector+",
                    network::service,
                ),
            )
        },
        Resource {
            deprecated: Some(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned(),
            ),
            ..kind(
                "v1 Endpoints endpoints ep put",
                Table::rows("Name, Endpoints, Age", network::endpoints),
            )
        },
        Resource {
            fields: words(
                "type reason reportingComponent involvedObject.kind involvedObject.namespace involvedObject.name \
                 involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath source",
            ),
            name: NameRule::Path,
            ..kind("v1 Event events ev put", Table::rows(EVENT, objects::event))
        },
        Resource {
            admit: Some(data::config_map),
            ..kind(
                "v1 ConfigMap configmaps cm",
                Table::rows("Name, Data, Age", objects::config_map),
            )
        },
        Resource {
            fields: words("type"),
            defaults: Some(data::merge_texts),
            admit: Some(data::secret),
            ..kind(
                "v1 Secret secrets -",
                Table::rows("Name, Type, Data, Age", objects::secret),
            )
        },
        Resource {
            computed: components::HEALTHY,
            deprecated: Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
            ..kind(
                "v1 ComponentStatus componentstatuses cs cluster",
                Table::rows("Name, Status, Message, Error", components::cells),
            )
        },
        Resource {
            parts: tokens::PARTS,
            ..kind(
                "v1 ServiceAccount serviceaccounts sa shown-deleted",
                Table::of("Name, Age"),
            )
        },
    ]
}

fn apps() -> Vec<Resource> {
    let columns = |own: &str| format!("Name, {own}, {TEMPLATE}");
    vec![
        Resource {
            defaults: Some(|it| defaults::typed(it, default_deployment)),
            ..kind(
                "apps/v1 Deployment deployments deploy status scale all",
                Table::rows(
                    &columns("Ready, Up-to-date, Available"),
                    workload::deployment,
                ),
            )
        },
        Resource {
            defaults: Some(|it| defaults::typed(it, default_replica_set)),
            ..kind(
                "apps/v1 ReplicaSet replicasets rs status scale all",
                Table::rows(
                    &columns("Desired#, Current#, Ready#"),
                    workload::replica_set,
                ),
            )
        },
        Resource {
            name: NameRule::Label,
            defaults: Some(|it| defaults::typed(it, default_stateful_set)),
            ..kind(
                "apps/v1 StatefulSet statefulsets sts status scale all",
                Table::rows(
                    "Name, Ready, Age, Containers+, Images+",
                    workload::stateful_set,
                ),
            )
        },
        Resource {
            defaults: Some(|it| defaults::typed(it, default_daemon_set)),
            ..kind(
                "apps/v1 DaemonSet daemonsets ds status all",
                Table::rows(
                    &columns("Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector"),
                    workload::daemon_set,
                ),
            )
        },
        kind(
            "apps/v1 ControllerRevision controllerrevisions -",
            Table::rows("Name, Controller, Revision, Age", workload::revision),
        ),
        Resource {
            fields: words("status.successful"),
            defaults: Some(|it| defaults::typed(it, default_job)),
            ..kind(
                "batch/v1 Job jobs - status all",
                Table::rows(&columns("Status, Completions, Duration"), workload::job),
            )
        },
        Resource {
            defaults: Some(|it| defaults::typed(it, default_cron_job)),
            ..kind(
                "batch/v1 CronJob cronjobs cj status all",
                Table::rows(
                    &columns("Schedule, Timezone, Suspend!, Active#, Last Schedule"),
                    workload::cron_job,
                ),
            )
        },
    ]
}

fn others() -> Vec<Resource> {
    vec![
        Resource {
            defaults: Some(custom::complete),
            admit: Some(custom::admit),
            warnings: Some(custom::warnings),
            ..kind(
                "apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions crd,crds cluster status \
                 versioned api-extensions",
                Table::of(CREATED),
            )
        },
        kind(
            "discovery.k8s.io/v1 EndpointSlice endpointslices -",
            Table::rows("Name, AddressType, Ports, Endpoints, Age", network::slice),
        ),
        kind(
            "networking.k8s.io/v1 ServiceCIDR servicecidrs - cluster status",
            Table::of("Name, CIDRs=&.spec.cidrs[*]|<none>, Age"),
        ),
        Resource {
            name: NameRule::Address,
            ..kind(
                "networking.k8s.io/v1 IPAddress ipaddresses ip cluster",
                Table::rows("Name, ParentRef", network::address),
            )
        },
        Resource {
            home: Some(""),
            conversion: Some(Conversion {
                store: events::store,
                show: events::show,
            }),
            // In the order of the core group's, whose values they have.
            fields: words(
                "type reason reportingController regarding.kind regarding.namespace regarding.name regarding.uid \
                 regarding.apiVersion regarding.resourceVersion regarding.fieldPath",
            ),
            ..kind(
                "events.k8s.io/v1 Event events ev put",
                Table::rows(EVENT, objects::event),
            )
        },
        Resource {
            computed: metrics::MEASURED,
            ..kind(
                "metrics.k8s.io/v1beta1 NodeMetrics nodes - cluster",
                Table::of("Name"),
            )
        },
        Resource {
            computed: metrics::MEASURED,
            ..kind(
                "metrics.k8s.io/v1beta1 PodMetrics pods -",
                Table::of("Name"),
            )
        },
        kind(
            "coordination.k8s.io/v1 Lease leases - put versioned",
            Table::of("Name, Holder=.spec.holderIdentity, Age"),
        ),
    ]
}

/// Questions about users and their rights.
fn reviews() -> Vec<Resource> {
    [
        "authentication.k8s.io/v1 SelfSubjectReview selfsubjectreviews - cluster",
        "authentication.k8s.io/v1 TokenReview tokenreviews - cluster",
        "authorization.k8s.io/v1 LocalSubjectAccessReview localsubjectaccessreviews -",
        "authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews - cluster",
        "authorization.k8s.io/v1 SelfSubjectRulesReview selfsubjectrulesreviews - cluster",
        "authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews - cluster",
    ]
    .map(|head| Resource {
        computed: reviews::ANSWERED,
        ..kind(head, Table::of("Name"))
    })
    .into()
}

/// A kind. `head` is `GROUP/VERSION KIND PLURAL SHORT-NAMES` and more words: `cluster` for objects without namespace,
/// `status` and `scale` for these subresources, `put`, `versioned` and `one-by-one` for the flags of these meanings, categories.
pub(super) fn kind(head: &str, table: Table) -> Resource {
    let mut words = head.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (api_version, kind, plural, short) = (word(), word(), word(), word());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = schema::of_kind(api_version, kind).cloned();
    let short = short.split(',').filter(|it| *it != "-");
    let mut resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        namespaced: true,
        short_names: short.map(str::to_owned).collect(),
        categories: Vec::new(),
        status: Subresource::Absent,
        scale: None,
        parts: &[],
        fields: Vec::new(),
        name: NameRule::Subdomain,
        home: None,
        conversion: None,
        begin: |_| {},
        defaults: None,
        admit: None,
        warnings: None,
        deprecated: None,
        list_kind: format!("{kind}List"),
        creates_by_put: false,
        versioned: false,
        deletes_collections: true,
        shows_deleted: false,
        served: true,
        custom: false,
        computed: None,
        published: None,
        table,
        schema: schema.unwrap_or_default(),
    };
    for word in words {
        match word {
            "cluster" => resource.namespaced = false,
            "put" => resource.creates_by_put = true,
            "versioned" => resource.versioned = true,
            "one-by-one" => resource.deletes_collections = false,
            "shown-deleted" => resource.shows_deleted = true,
            "status" => {
                resource.status = Subresource::Served;
                resource.begin = |it| it["status"] = json!({});
            }
            "scale" => {
                resource.scale = Some(Scale {
                    replicas: "/spec/replicas".to_owned(),
                    current: "/status/replicas".to_owned(),
                    selector: "/spec/selector".to_owned(),
                });
            }
            category => resource.categories.push(category.to_owned()),
        }
    }
    resource
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn pending(object: &mut Value) {
    object["status"] = json!({"phase": "Pending"});
}

fn balanced(object: &mut Value) {
    object["status"] = json!({"loadBalancer": {}});
}
