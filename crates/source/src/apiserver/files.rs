//! The files on this machine that a kubeconfig names.

use std::path::PathBuf;

use kube::config::{AuthInfo, Kubeconfig};

use super::Access;

/// Where the kubelet puts the token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The files of the credentials, which are read at start and again while we run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Kubeconfig, certificates, keys and tokens.
    pub paths: Vec<PathBuf>,
    /// Whether a program is run for the credentials, which may read and write anything.
    pub has_plugin: bool,
}

impl Access {
    /// The files of the credentials. Those of a kubeconfig that cannot be read are missing:
    /// [`connect`](super::connect) says why.
    pub fn files(&self) -> Files {
        let Some(path) = &self.kubeconfig else {
            let pod = self.master.is_none().then(|| SERVICE_ACCOUNT.into());
            let named = self.certificates.iter();
            let named = named.flat_map(|it| [&it.certificate, &it.key, &it.authority]);
            return Files {
                paths: pod.into_iter().chain(named.cloned()).collect(),
                has_plugin: false,
            };
        };
        let kubeconfig = Kubeconfig::read_from(path).unwrap_or_default();
        let clusters = kubeconfig.clusters.iter().filter_map(|it| {
            let cluster = it.cluster.as_ref()?;
            cluster.certificate_authority.as_ref()
        });
        let users = kubeconfig.auth_infos.iter();
        let users = users.filter_map(|it| it.auth_info.as_ref()).flat_map(|it| {
            let files = [&it.client_certificate, &it.client_key, &it.token_file];
            files.into_iter().flatten()
        });
        let named = clusters.chain(users).map(PathBuf::from);
        Files {
            paths: [path.clone()].into_iter().chain(named).collect(),
            has_plugin: user_with_plugin(&kubeconfig).is_some(),
        }
    }
}

/// The current context's user, if a program gets its credentials.
pub(super) fn user_with_plugin(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|it| it.name == *current)?.context.as_ref()?;
    let user = context.user.as_ref()?;
    let mut users = kubeconfig.auth_infos.iter();
    let found = users.find(|it| it.name == *user)?.auth_info.as_ref()?;
    has_plugin(found).then_some(user)
}

/// `exec`, or `cmd-path` of the provider `gcp`, which client-go no longer has and kube still runs.
fn has_plugin(user: &AuthInfo) -> bool {
    let provider = user.auth_provider.as_ref();
    user.exec.is_some() || provider.is_some_and(|it| it.config.contains_key("cmd-path"))
}
