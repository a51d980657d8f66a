//! What each namespace has from the start: the ServiceAccount `default`, and the certificate of the API
//! (`pkg/controller/serviceaccount`, `pkg/controller/certificates/rootcacertpublisher`); and what a Pod gets from its
//! ServiceAccount (`plugin/pkg/admission/serviceaccount`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapProjection, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
    Namespace, ObjectFieldSelector, Pod, ProjectedVolumeSource, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Cluster;
use super::plan::Plan;
use crate::meta;

/// The ServiceAccount of Pods that name none.
pub(crate) const DEFAULT: &str = "default";

/// The ConfigMap with the certificate of the API's authority, in every namespace.
pub const AUTHORITY: &str = "kube-root-ca.crt";

/// The folder of the token in each container.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The permissions of files in volumes, 0644.
pub(super) const MODE: i32 = 420;

const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal \
     service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

pub(super) fn reconcile(cluster: &Cluster, plan: &mut Plan) {
    let live = |it: &&Namespace| it.metadata.deletion_timestamp.is_none();
    for namespace in cluster.namespaces.iter().map(|it| &**it).filter(live) {
        let name = meta::name(&namespace.metadata);
        let here = |it: &ObjectMeta| it.namespace.as_deref() == Some(name);
        let mut accounts = cluster.accounts.iter().map(|it| &it.metadata);
        if !accounts.any(|it| here(it) && meta::name(it) == DEFAULT) {
            plan.create(ServiceAccount {
                metadata: named(name, DEFAULT),
                ..ServiceAccount::default()
            });
        }
        let data = BTreeMap::from([("ca.crt".to_owned(), cluster.authority.clone())]);
        let mut authorities = cluster.authorities.iter();
        match authorities.find(|it| here(&it.metadata)) {
            None => plan.create(authority(name, data)),
            Some(it) => {
                let mut after = ConfigMap::clone(it);
                after.data = Some(data);
                plan.update(&**it, after);
            }
        }
    }
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn authority(namespace: &str, data: BTreeMap<String, String>) -> ConfigMap {
    let (name, text) = DESCRIPTION;
    ConfigMap {
        metadata: ObjectMeta {
            annotations: Some([(name.to_owned(), text.to_owned())].into()),
            ..named(namespace, AUTHORITY)
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// The ServiceAccount of a Pod.
#[must_use]
pub fn account_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let named = spec.and_then(|it| {
        let deprecated = it.service_account.as_deref();
        let name = it.service_account_name.as_deref();
        name.filter(|it| !it.is_empty()).or(deprecated)
    });
    named.filter(|it| !it.is_empty()).unwrap_or(DEFAULT)
}

/// Gives a new Pod its ServiceAccount, with a volume for token, certificate and namespace that each container mounts, unless Pod
/// or ServiceAccount refuse that.
pub fn mount_token(pod: &mut Pod, account: Option<&ServiceAccount>) {
    let name = account_of(pod).to_owned();
    let seed = [
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        meta::name(&pod.metadata),
    ];
    let suffix = meta::characters(meta::hash(&seed), 5);
    let spec = pod.spec.get_or_insert_default();
    spec.service_account_name = Some(name.clone());
    spec.service_account = Some(name);
    if spec.image_pull_secrets.iter().flatten().next().is_none() {
        spec.image_pull_secrets = account.and_then(|it| it.image_pull_secrets.clone());
    }
    let wanted = spec.automount_service_account_token;
    let wanted = wanted.or(account.and_then(|it| it.automount_service_account_token));
    if wanted == Some(false) {
        return;
    }
    let volumes = spec.volumes.get_or_insert_default();
    let is_taken = |it: &str| volumes.iter().any(|volume| volume.name == it);
    let mut volume = format!("kube-api-access-{suffix}");
    while is_taken(&volume) {
        volume.push('x');
    }
    let init = spec.init_containers.iter_mut().flatten();
    let mut is_used = false;
    for container in init.chain(&mut spec.containers) {
        let mounts = container.volume_mounts.get_or_insert_default();
        if mounts.iter().all(|it| it.mount_path != FOLDER) {
            is_used = true;
            mounts.push(VolumeMount {
                name: volume.clone(),
                mount_path: FOLDER.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
        }
    }
    if is_used {
        volumes.push(Volume {
            name: volume,
            projected: Some(token_volume()),
            ..Volume::default()
        });
    }
}

fn token_volume() -> ProjectedVolumeSource {
    let token = ServiceAccountTokenProjection {
        // The API takes it as a request for a token of a year: see `--service-account-extend-token-expiration`.
        expiration_seconds: Some(3607),
        path: "token".to_owned(),
        ..ServiceAccountTokenProjection::default()
    };
    let authority = ConfigMapProjection {
        name: AUTHORITY.to_owned(),
        items: Some(vec![KeyToPath {
            key: "ca.crt".to_owned(),
            path: "ca.crt".to_owned(),
            mode: None,
        }]),
        optional: None,
    };
    let namespace = DownwardAPIProjection {
        items: Some(vec![DownwardAPIVolumeFile {
            path: "namespace".to_owned(),
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: "metadata.namespace".to_owned(),
            }),
            ..DownwardAPIVolumeFile::default()
        }]),
    };
    ProjectedVolumeSource {
        default_mode: Some(MODE),
        sources: Some(vec![
            VolumeProjection {
                service_account_token: Some(token),
                ..VolumeProjection::default()
            },
            VolumeProjection {
                config_map: Some(authority),
                ..VolumeProjection::default()
            },
            VolumeProjection {
                downward_api: Some(namespace),
                ..VolumeProjection::default()
            },
        ]),
    }
}
