//! Defaults of workloads that depend on other fields (`pkg/apis/{core,apps,batch}/v1/defaults.go`), and what kube-apiserver
//! adds to Pods and Jobs beside them. All other defaults are the API's: they are facts of types.

use k8s_openapi::api::apps::v1::{
    DaemonSet, Deployment, ReplicaSet, RollingUpdateDaemonSet, RollingUpdateDeployment,
    RollingUpdateStatefulSetStrategy, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, Pod, PodSpec, PodTemplateSpec, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::scheduler::quality;

/// Seconds that a pod stays on a node that does not answer.
const TOLERATION_SECONDS: i64 = 300;

/// Sets the defaults of a Pod.
pub fn default_pod(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    default_spec(spec);
    spec.enable_service_links.get_or_insert(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        // What is limited and not requested is requested up to the limit.
        let Some(resources) = &mut container.resources else {
            continue;
        };
        for (name, limit) in resources.limits.iter().flatten() {
            let requests = resources.requests.get_or_insert_default();
            requests
                .entry(name.clone())
                .or_insert_with(|| limit.clone());
        }
    }
    if spec.host_network == Some(true) {
        let containers = spec.containers.iter_mut();
        let ports = containers.flat_map(|it| it.ports.iter_mut().flatten());
        for port in ports.filter(|it| it.host_port.unwrap_or(0) == 0) {
            port.host_port = Some(port.container_port);
        }
    }
}

/// Sets the defaults of a Pod, its tolerations of nodes that do not answer
/// (`plugin/pkg/admission/defaulttolerationseconds`), and its class (`pkg/registry/core/pod/strategy.go`).
pub fn complete_pod(pod: &mut Pod) {
    default_pod(pod);
    let spec = pod.spec.get_or_insert_default();
    for key in ["not-ready", "unreachable"] {
        tolerate(spec, &format!("node.kubernetes.io/{key}"));
    }
    let class = quality(spec);
    let status = pod.status.get_or_insert_default();
    status.phase.get_or_insert_with(|| "Pending".to_owned());
    status.qos_class.get_or_insert_with(|| class.to_owned());
}

/// Sets the defaults of a template.
pub fn default_template(template: &mut PodTemplateSpec) {
    default_spec(template.spec.get_or_insert_default());
}

/// Sets the defaults of a Deployment.
pub fn default_deployment(deployment: &mut Deployment) {
    let spec = deployment.spec.get_or_insert_default();
    default_template(&mut spec.template);
    let strategy = spec.strategy.get_or_insert_default();
    let kind = strategy.type_.get_or_insert_with(rolling_update);
    if kind == "RollingUpdate" {
        let rolling = strategy
            .rolling_update
            .get_or_insert_with(RollingUpdateDeployment::default);
        let quarter = || IntOrString::String("25%".to_owned());
        rolling.max_surge.get_or_insert_with(quarter);
        rolling.max_unavailable.get_or_insert_with(quarter);
    }
}

/// Sets the defaults of a ReplicaSet.
pub fn default_replica_set(set: &mut ReplicaSet) {
    let spec = set.spec.get_or_insert_default();
    default_template(spec.template.get_or_insert_default());
}

/// Sets the defaults of a StatefulSet.
pub fn default_stateful_set(set: &mut StatefulSet) {
    let spec = set.spec.get_or_insert_default();
    default_template(&mut spec.template);
    let strategy = spec.update_strategy.get_or_insert_default();
    let kind = strategy.type_.get_or_insert_with(rolling_update);
    if kind == "RollingUpdate" {
        let rolling = strategy
            .rolling_update
            .get_or_insert_with(RollingUpdateStatefulSetStrategy::default);
        rolling.partition.get_or_insert(0);
    }
}

/// Sets the defaults of a DaemonSet.
pub fn default_daemon_set(set: &mut DaemonSet) {
    let spec = set.spec.get_or_insert_default();
    default_template(&mut spec.template);
    let strategy = spec.update_strategy.get_or_insert_default();
    let kind = strategy.type_.get_or_insert_with(rolling_update);
    if kind == "RollingUpdate" {
        let rolling = strategy
            .rolling_update
            .get_or_insert_with(RollingUpdateDaemonSet::default);
        let most = &mut rolling.max_unavailable;
        most.get_or_insert(IntOrString::Int(1));
        rolling.max_surge.get_or_insert(IntOrString::Int(0));
    }
}

/// Sets the defaults of a Job. One without labels has those of its pods.
pub fn default_job(job: &mut Job) {
    let spec = job.spec.get_or_insert_default();
    default_job_spec(spec);
    let of_pods = spec.template.metadata.as_ref();
    let of_pods = of_pods.and_then(|it| it.labels.clone());
    if job.metadata.labels.is_none() {
        job.metadata.labels = of_pods;
    }
}

/// Sets the defaults of a Job. One with a uid gets its selector and the labels of its pods, which are its own, too, when it has
/// none (`pkg/registry/batch/job/strategy.go`).
pub fn complete_job(job: &mut Job) {
    select_pods(job);
    default_job(job);
}

fn select_pods(job: &mut Job) {
    let name = job.metadata.name.clone().unwrap_or_default();
    let uid = job.metadata.uid.clone();
    let spec = job.spec.get_or_insert_default();
    if spec.manual_selector == Some(true) {
        return;
    }
    let Some(uid) = uid else { return };
    let prefix = "batch.kubernetes.io";
    let selector = (format!("{prefix}/controller-uid"), uid.clone());
    spec.selector.get_or_insert_with(|| LabelSelector {
        match_labels: Some([selector].into()),
        ..LabelSelector::default()
    });
    let metadata = spec.template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    for (label, value) in [
        ("controller-uid".to_owned(), &uid),
        ("job-name".to_owned(), &name),
        (format!("{prefix}/controller-uid"), &uid),
        (format!("{prefix}/job-name"), &name),
    ] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
}

/// Sets the defaults of a CronJob.
pub fn default_cron_job(cron_job: &mut CronJob) {
    let job = cron_job.spec.job_template.spec.get_or_insert_default();
    default_template(&mut job.template);
}

fn default_job_spec(spec: &mut JobSpec) {
    default_template(&mut spec.template);
    // Without both, one pod is to succeed.
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    spec.parallelism.get_or_insert(1);
    // Each index has a limit of its own.
    let limit = spec.backoff_limit_per_index.map_or(6, |_| i32::MAX);
    spec.backoff_limit.get_or_insert(limit);
    let policy = match spec.pod_failure_policy {
        Some(_) => "Failed",
        None => "TerminatingOrFailed",
    };
    let replacement = &mut spec.pod_replacement_policy;
    replacement.get_or_insert_with(|| policy.to_owned());
    let mode = &mut spec.completion_mode;
    mode.get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    spec.manual_selector.get_or_insert(false);
}

fn rolling_update() -> String {
    "RollingUpdate".to_owned()
}

/// Sets the defaults of a Pod's or template's spec.
fn default_spec(spec: &mut PodSpec) {
    spec.volumes.iter_mut().flatten().for_each(default_volume);
    let init = spec.init_containers.iter_mut().flatten();
    init.chain(&mut spec.containers).for_each(default_container);
}

fn default_volume(volume: &mut Volume) {
    let bare = Volume {
        name: volume.name.clone(),
        ..Volume::default()
    };
    if *volume == bare {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
}

fn default_container(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    let policy = &mut container.image_pull_policy;
    policy.get_or_insert_with(|| pull_policy(image).to_owned());
}

/// `Always` for an image without tag or with the tag `latest`, which may change.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    let is_fixed = last.contains('@') || !last.ends_with(":latest") && last.contains(':');
    if is_fixed { "IfNotPresent" } else { "Always" }
}

/// Adds a toleration, unless the pod has one for the same taint.
fn tolerate(spec: &mut PodSpec, key: &str) {
    let tolerations = spec.tolerations.get_or_insert_default();
    let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    let is_covered = tolerations.iter().any(|it| {
        given(&it.key).is_none_or(|it| it == key)
            && given(&it.effect).is_none_or(|it| it == "NoExecute")
    });
    if !is_covered {
        tolerations.push(Toleration {
            effect: Some("NoExecute".to_owned()),
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: Some(TOLERATION_SECONDS),
            value: None,
        });
    }
}
