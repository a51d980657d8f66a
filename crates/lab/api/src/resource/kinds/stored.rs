//! Kinds that are stored and served, and that no controller of the lab acts upon.

use serde_json::Value;

use super::{CREATED, TEMPLATE, balanced, kind, pending, words};
use crate::http::writing;
use crate::resource::{Conversion, NameRule, Resource, autoscaling, defaults};
use crate::table::{Table, network, policy, storage, workload};

pub(super) fn kinds() -> Vec<Resource> {
    let all = [core(), access(), storage(), devices(), network(), server()];
    let all = all.into_iter().flatten();
    all.map(|it| Resource {
        warnings: Some(idle),
        ..it
    })
    .chain([network_policy()])
    .collect()
}

/// The warning for a client that writes such an object.
fn idle(resource: &Resource, _: &Value) -> Vec<String> {
    vec![format!(
        "{}: stored, not acted upon by the lab",
        resource.full_name()
    )]
}

fn core() -> Vec<Resource> {
    let autoscaler = Table::rows(
        "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
        policy::autoscaler,
    );
    vec![
        Resource {
            defaults: Some(defaults::limit_range),
            ..kind("v1 LimitRange limitranges limits put", Table::of(CREATED))
        },
        Resource {
            defaults: Some(|it| defaults::template(&mut it["template"])),
            ..kind(
                "v1 PodTemplate podtemplates - shown-deleted",
                Table::of(
                    "Name, Containers=&.template.spec.containers[*].name, \
                     Images=&.template.spec.containers[*].image, Pod Labels=.template.metadata.labels|<none>",
                ),
            )
        },
        Resource {
            fields: words("status.replicas"),
            defaults: Some(defaults::replication_controller),
            ..kind(
                "v1 ReplicationController replicationcontrollers rc status scale all",
                Table::rows(
                    &format!("Name, Desired#, Current#, Ready#, {TEMPLATE}"),
                    workload::replication_controller,
                ),
            )
        },
        kind(
            "v1 ResourceQuota resourcequotas quota status shown-deleted",
            Table::rows("Name, Request, Limit, Age", policy::quota),
        ),
        Resource {
            defaults: Some(autoscaling::default_behavior),
            ..kind(
                "autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers hpa status all",
                autoscaler.clone(),
            )
        },
        Resource {
            conversion: Some(Conversion {
                store: autoscaling::store,
                show: autoscaling::show,
            }),
            ..kind(
                "autoscaling/v1 HorizontalPodAutoscaler horizontalpodautoscalers hpa status all",
                autoscaler,
            )
        },
        Resource {
            name: NameRule::Path,
            ..kind(
                "policy/v1 PodDisruptionBudget poddisruptionbudgets pdb status versioned",
                Table::of(
                    "Name, Min Available=.spec.minAvailable|N/A, Max Unavailable=.spec.maxUnavailable|N/A, \
                 Allowed Disruptions#=.status.disruptionsAllowed|0, Age",
                ),
            )
        },
        kind(
            "scheduling.k8s.io/v1 PriorityClass priorityclasses pc cluster",
            Table::of(
                "Name, Value#=.value|0, Global-Default!=.globalDefault|false, Age, PreemptionPolicy=.preemptionPolicy",
            ),
        ),
        kind(
            "apiregistration.k8s.io/v1 APIService apiservices - cluster status versioned api-extensions",
            Table::of(
                "Name, Service=.spec.service.name|Local, Available=.status.conditions[0].status|Unknown, Age",
            ),
        ),
        kind(
            "node.k8s.io/v1 RuntimeClass runtimeclasses - cluster put versioned",
            Table::of("Name, Handler=.handler, Age"),
        ),
    ]
}

/// Roles: whoever reaches the API of the lab may do everything.
fn access() -> Vec<Resource> {
    let binding = Table::rows(
        "Name, Role, Age, Users+, Groups+, ServiceAccounts+",
        policy::role_binding,
    );
    let role = |head: &str, table| Resource {
        name: NameRule::Path,
        defaults: Some(defaults::role_binding),
        ..kind(&format!("rbac.authorization.k8s.io/v1 {head}"), table)
    };
    vec![
        role("ClusterRole clusterroles - cluster put", Table::of(CREATED)),
        role(
            "ClusterRoleBinding clusterrolebindings - cluster put",
            binding.clone(),
        ),
        role("Role roles - put", Table::of(CREATED)),
        role("RoleBinding rolebindings - put", binding),
        Resource {
            fields: words("spec.signerName"),
            parts: writing::OF_REQUESTS,
            admit: Some(defaults::certificate_request),
            ..kind(
                "certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests csr cluster status",
                Table::rows(
                    "Name, Age, SignerName, Requestor, RequestedDuration, Condition",
                    policy::certificate_request,
                ),
            )
        },
    ]
}

fn storage() -> Vec<Resource> {
    vec![
        Resource {
            begin: pending,
            ..kind(
                "v1 PersistentVolume persistentvolumes pv cluster status shown-deleted",
                Table::rows(
                    "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, \
                     Reason, Age, VolumeMode+",
                    storage::volume,
                ),
            )
        },
        Resource {
            begin: pending,
            ..kind(
                "v1 PersistentVolumeClaim persistentvolumeclaims pvc status shown-deleted",
                Table::rows(
                    "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode+",
                    storage::claim,
                ),
            )
        },
        kind(
            "storage.k8s.io/v1 StorageClass storageclasses sc cluster shown-deleted",
            Table::rows(
                "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
                storage::storage_class,
            ),
        ),
        kind(
            "storage.k8s.io/v1 CSIDriver csidrivers - cluster versioned shown-deleted",
            Table::of(
                "Name, AttachRequired!=.spec.attachRequired|true, PodInfoOnMount!=.spec.podInfoOnMount|false, \
                 StorageCapacity!=.spec.storageCapacity|false, \
                 TokenRequests=&.spec.tokenRequests[*].audience|<unset>, \
                 RequiresRepublish!=.spec.requiresRepublish|false, \
                 Modes=&.spec.volumeLifecycleModes[*]|<none>, Age",
            ),
        ),
        kind(
            "storage.k8s.io/v1 CSINode csinodes - cluster versioned shown-deleted",
            Table::of("Name, Drivers#=*.spec.drivers, Age"),
        ),
        kind(
            "storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities - versioned",
            Table::of(CREATED),
        ),
        kind(
            "storage.k8s.io/v1 VolumeAttachment volumeattachments - cluster status versioned shown-deleted",
            Table::of(
                "Name, Attacher=.spec.attacher, PV=.spec.source.persistentVolumeName, Node=.spec.nodeName, \
                 Attached!=.status.attached|false, Age",
            ),
        ),
        kind(
            "storage.k8s.io/v1 VolumeAttributesClass volumeattributesclasses vac cluster shown-deleted",
            Table::of("Name, DriverName=.driverName, Age"),
        ),
    ]
}

fn devices() -> Vec<Resource> {
    let claims = |head: &str, table| Resource {
        defaults: Some(defaults::device_requests),
        ..kind(&format!("resource.k8s.io/v1 {head}"), table)
    };
    vec![
        kind(
            "resource.k8s.io/v1 DeviceClass deviceclasses - cluster shown-deleted",
            Table::of("Name, Age"),
        ),
        claims(
            "ResourceClaim resourceclaims - status shown-deleted",
            Table::rows("Name, State, Age", storage::device_claim),
        ),
        claims(
            "ResourceClaimTemplate resourceclaimtemplates - shown-deleted",
            Table::of("Name, Age"),
        ),
        Resource {
            fields: words("spec.nodeName spec.driver"),
            ..kind(
                "resource.k8s.io/v1 ResourceSlice resourceslices - cluster shown-deleted",
                Table::of(
                    "Name, Node=.spec.nodeName, Driver=.spec.driver, Pool=.spec.pool.name, Age",
                ),
            )
        },
    ]
}

fn network() -> Vec<Resource> {
    vec![
        Resource {
            begin: balanced,
            ..kind(
                "networking.k8s.io/v1 Ingress ingresses ing status",
                Table::rows("Name, Class, Hosts, Address, Ports, Age", network::ingress),
            )
        },
        kind(
            "networking.k8s.io/v1 IngressClass ingressclasses - cluster",
            Table::rows("Name, Controller, Parameters, Age", network::ingress_class),
        ),
    ]
}

/// NetworkPolicies, which the nodes' agents act upon.
fn network_policy() -> Resource {
    Resource {
        defaults: Some(defaults::network_policy),
        ..kind(
            "networking.k8s.io/v1 NetworkPolicy networkpolicies netpol",
            Table::rows("Name, Pod-Selector, Age", network::network_policy),
        )
    }
}

/// Settings of the API server itself.
fn server() -> Vec<Resource> {
    vec![
        kind(
            "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy mutatingadmissionpolicies - cluster versioned \
             api-extensions",
            Table::rows("Name, Mutations#, ParamKind, Age", policy::admission_policy),
        ),
        kind(
            "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings - cluster \
             versioned api-extensions",
            Table::rows("Name, PolicyName, ParamRef, Age", policy::admission_binding),
        ),
        kind(
            "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations - cluster \
             versioned api-extensions",
            Table::of("Name, Webhooks#=*.webhooks, Age"),
        ),
        kind(
            "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations - cluster \
             versioned api-extensions",
            Table::of("Name, Webhooks#=*.webhooks, Age"),
        ),
        kind(
            "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies - cluster status \
             versioned api-extensions",
            Table::rows(
                "Name, Validations#, ParamKind, Age",
                policy::admission_policy,
            ),
        ),
        kind(
            "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings - \
             cluster versioned api-extensions",
            Table::rows("Name, PolicyName, ParamRef, Age", policy::admission_binding),
        ),
        kind(
            "flowcontrol.apiserver.k8s.io/v1 FlowSchema flowschemas - cluster status",
            Table::of(
                "Name, PriorityLevel=.spec.priorityLevelConfiguration.name, \
                 MatchingPrecedence=.spec.matchingPrecedence, \
                 DistinguisherMethod=.spec.distinguisherMethod.type|<none>, Age, \
                 MissingPL=.status.conditions[?(@.type==\"Dangling\")].status|?",
            ),
        ),
        kind(
            "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration prioritylevelconfigurations - cluster status",
            Table::of(
                "Name, Type=.spec.type, NominalConcurrencyShares=.spec.limited.nominalConcurrencyShares|<none>, \
                 Queues=.spec.limited.limitResponse.queuing.queues|<none>, \
                 HandSize=.spec.limited.limitResponse.queuing.handSize|<none>, \
                 QueueLengthLimit=.spec.limited.limitResponse.queuing.queueLengthLimit|<none>, Age",
            ),
        ),
    ]
}
