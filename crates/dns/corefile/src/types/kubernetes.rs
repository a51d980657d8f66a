//! `kubernetes`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::rr::Name;
use sluice_model::Selector;

use super::Fallthrough;

/// `kubernetes [ZONES...]`. The reader sets CoreDNS's defaults, `Default` does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubernetes {
    /// The zones of the directive, else those of the block; at least one is no reverse zone.
    pub zones: Vec<Name>,
    /// URL of the API server; `None`: that of `kubeconfig`, else the cluster of this pod.
    pub endpoint: Option<String>,
    /// Certificate towards `endpoint`.
    pub tls: Option<ApiTls>,
    /// The kubeconfig with the API server and the credentials.
    pub kubeconfig: Option<Kubeconfig>,
    /// Requests per second to the API server; `None`: not set.
    pub apiserver_qps: Option<f32>,
    /// Requests at once above `apiserver_qps`; `None`: not set.
    pub apiserver_burst: Option<u32>,
    /// Only these namespaces have names; empty: all. Never together with `namespace_labels`.
    pub namespaces: BTreeSet<String>,
    /// Only namespaces with these labels have names; `None`: all.
    pub namespace_labels: Option<Selector>,
    /// Only objects with these labels have names; `None`: all.
    pub labels: Option<Selector>,
    /// How names of pods are answered.
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
