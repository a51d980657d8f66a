//! `kubernetes`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::rr::Name;

use super::Fallthrough;

/// `kubernetes [ZONES...]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kubernetes {
    /// The zones of the directive, else those of the block; at least one is no reverse zone.
    pub zones: Vec<Name>,
    /// URL of the API server; `None`: that of `kubeconfig`, else the cluster of this pod.
    pub endpoint: Option<String>,
    /// Certificate towards `endpoint`.
    pub tls: Option<ApiTls>,
    /// File that says which API server, and as whom.
    pub kubeconfig: Option<Kubeconfig>,
    /// Requests per second to the API server; `None`: not set.
    pub apiserver_qps: Option<f32>,
    /// Requests at once above `apiserver_qps`; `None`: not set.
    pub apiserver_burst: Option<u32>,
    /// Requests under way at the same time; `None`: not set.
    pub apiserver_max_inflight: Option<u32>,
    /// Only these namespaces have names; empty: all. Never together with `namespace_labels`.
    pub namespaces: BTreeSet<String>,
    /// Only namespaces with these labels have names; `None`: all.
    pub namespace_labels: Option<LabelSelector>,
    /// Only objects with these labels have names; `None`: all.
    pub labels: Option<LabelSelector>,
    /// What names of pods answer.
    pub pods: Pods,
    /// Endpoints without hostname are named after their pod, not after their address.
    pub endpoint_pod_names: bool,
    /// TTL of the answers in seconds: 0 to 3600, CoreDNS's default 5.
    pub ttl: u32,
    /// `noendpoints` is absent: endpoints and headless Services have names.
    pub endpoints: bool,
    /// For which names NXDOMAIN is passed on to the next plugin.
    pub fallthrough: Fallthrough,
    /// NXDOMAIN for a Service without ready endpoints.
    pub ignore_empty_service: bool,
    /// How long the start waits for the first listing; then it answers SERVFAIL until the listing is
    /// complete. CoreDNS's default: 5 s.
    pub startup_timeout: Duration,
}

/// `tls CERT KEY CACERT`: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTls {
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificate authority of the API server.
    pub authority: PathBuf,
}

/// `kubeconfig KUBECONFIG [CONTEXT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The file.
    pub path: PathBuf,
    /// A context of the file; `None`: its current context.
    pub context: Option<String>,
}

/// `pods POD-MODE`: what `10-0-0-1.namespace.pod.zone` answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// NXDOMAIN.
    #[default]
    Disabled,
    /// The address in the name, whether a pod has it or not.
    Insecure,
    /// The address in the name when a pod of the namespace has it.
    Verified,
}

/// A label selector as in `kubectl get -l`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    pub(crate) text: String,
    pub(crate) requirements: Vec<Requirement>,
}

/// One requirement of a [`LabelSelector`], about the label of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there and has one of the values.
    In(String, BTreeSet<String>),
    /// The label is absent or has none of the values.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is absent.
    Absent(String),
}

impl LabelSelector {
    /// As written in the Corefile, for the `labelSelector` of a list or watch.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// All must hold; none: everything is selected.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|it| match it {
            Requirement::In(key, values) => labels.get(key).is_some_and(|it| values.contains(it)),
            Requirement::NotIn(key, values) => {
                !labels.get(key).is_some_and(|it| values.contains(it))
            }
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
