//! The address of the API server and our credentials.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::json;
use sluice_yaml::{escaped, quoted};

use super::causes::chain;
use super::connection;
use super::files;
use super::limit::Bucket;
use crate::SourceError;

/// How long the plugin of a kubeconfig may take at the start. An agent that waits for it does not end when it is asked to.
const PLUGIN: Duration = Duration::from_secs(60);

/// The address of the API server and our credentials: `clientConnection` and `--master`.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// A kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig that counts; `None`: its current one.
    pub context: Option<String>,
    /// The address of the API server, in place of the kubeconfig's. Without a kubeconfig there are
    /// no credentials. Without both, the pod's service account is used.
    pub master: Option<String>,
    /// Certificates towards `master`, without a kubeconfig.
    pub certificates: Option<Certificates>,
    /// Requests per second that are not watches; 0 means 5, less than 0 means no limit
    /// (client-go, `rest/config.go`).
    pub qps: f32,
    /// Largest number of such requests sent at once; 0 or less means 10.
    pub burst: i32,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Whether the programs may be run that a kubeconfig names.
    pub plugins: Plugins,
}

/// Certificates of a client, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate authority of the API server.
    pub authority: PathBuf,
}

/// Whether the programs may be run that a kubeconfig names to get credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plugins {
    /// Plugins are run.
    #[default]
    Run,
    /// A kubeconfig whose current user needs a plugin is refused: the user that starts us may choose the kubeconfig,
    /// and has fewer privileges than we have.
    Refuse,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            master: None,
            certificates: None,
            qps: 0.0,
            burst: 0,
            user_agent: concat!("sluice/", env!("CARGO_PKG_VERSION")).to_owned(),
            plugins: Plugins::Run,
        }
    }
}

/// Address and credentials that were checked as far as possible without a connection: files are
/// there, certificates fit their keys, plugins answer.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) access: Arc<Access>,
    /// Host and port, for metrics.
    pub(super) host: Arc<str>,
    /// Shared: all users of the client together keep to the limit.
    pub(super) bucket: Arc<Mutex<Option<Bucket>>>,
}

/// Whether this process runs in a pod, to which the kubelet tells the address of the API server
/// (client-go, `rest.InClusterConfig`).
#[must_use]
pub fn is_in_pod() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|it| !it.is_empty());
    ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]
        .into_iter()
        .all(is_set)
}

/// Reads address and credentials from their files, as [`connect`] does, and drops them. Sends no
/// request, runs no plugin and starts no thread.
///
/// # Errors
/// [`SourceError::Access`] names the file and the reason.
pub fn check(access: &Access) -> Result<(), SourceError> {
    if let Some(path) = &access.kubeconfig {
        std::fs::File::open(path).map_err(|error| failed(&file(path), &error))?;
    }
    let runtime = super::runtime().map_err(|error| failed("API server", &error))?;
    runtime.block_on(access.config()).map(drop)
}

/// Finds the API server and our credentials. Sends no request, but runs the plugin of the
/// kubeconfig and waits up to a minute for it: not for asynchronous code.
///
/// # Errors
/// [`SourceError::Access`] names the file and what is wrong with it; [`SourceError::Follow`] when
/// the machine has no thread left.
pub fn connect(access: &Access) -> Result<Client, SourceError> {
    connect_within(PLUGIN, access)
}

fn connect_within(most: Duration, access: &Access) -> Result<Client, SourceError> {
    let (sender, connected) = channel();
    let own = access.clone();
    let connect = move || {
        let _ = sender.send(try_connect(&own));
    };
    super::spawn("api-access", connect).map_err(SourceError::Follow)?;
    connected.recv_timeout(most).unwrap_or_else(|error| {
        let why = match error {
            RecvTimeoutError::Timeout => {
                format!("its plugin has not answered for {} s", most.as_secs())
            }
            RecvTimeoutError::Disconnected => "its thread has panicked".to_owned(),
        };
        Err(failed(&access.origin(), &io::Error::other(why)))
    })
}

fn try_connect(access: &Access) -> Result<Client, SourceError> {
    let runtime = super::runtime().map_err(|error| failed("API server", &error))?;
    let config = runtime.block_on(access.config())?;
    let host = config.cluster_url.authority().map(ToString::to_string);
    let client = Client {
        access: Arc::new(access.clone()),
        host: host.unwrap_or_default().into(),
        bucket: Arc::new(Mutex::new(Bucket::new(access.qps, access.burst))),
    };
    let opened = runtime.block_on(connection::open(access));
    runtime.shutdown_background();
    opened.map_err(|error| failed(&access.origin(), &*error))?;
    Ok(client)
}

impl Access {
    /// Reads everything anew: certificates and tokens are replaced while we run.
    pub(super) async fn config(&self) -> Result<Config, SourceError> {
        let master = self.master.as_deref().map(server_url);
        match (&self.kubeconfig, master) {
            (Some(path), master) => self.of_kubeconfig(path, master).await,
            (None, Some(master)) => {
                if let Some(certificates) = &self.certificates {
                    let config = certificates.config(&master).await;
                    return config.map_err(|error| failed(&self.origin(), &error));
                }
                let url = master.parse().map_err(|error| {
                    failed(&format!("API server address {}", quoted(&master)), &error)
                })?;
                Ok(Config::new(url))
            }
            (None, None) => Config::incluster().map_err(|error| failed(&self.origin(), &error)),
        }
    }

    async fn of_kubeconfig(
        &self,
        path: &Path,
        master: Option<String>,
    ) -> Result<Config, SourceError> {
        let mut kubeconfig =
            Kubeconfig::read_from(path).map_err(|error| failed(&file(path), &error))?;
        if self.context.is_some() {
            kubeconfig.current_context.clone_from(&self.context);
        }
        if let (Plugins::Refuse, Some(user)) = (self.plugins, files::user_with_plugin(&kubeconfig))
        {
            let user = quoted(user);
            return Err(SourceError::Access {
                what: file(path),
                error: format!(
                    "user {user} names a program for its credentials, and none is run with the \
                 capabilities of sluice's file: let the service manager give them \
                 (AmbientCapabilities of systemd)"
                ),
            });
        }
        if let Some(master) = master {
            for cluster in kubeconfig
                .clusters
                .iter_mut()
                .filter_map(|it| it.cluster.as_mut())
            {
                cluster.server = Some(master.clone());
            }
        }
        let proxy = proxy_url(&kubeconfig).is_some_and(|it| !it.is_empty());
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| failed(&file(path), &error))?;
        if !proxy {
            // kube took the proxy of the environment and ignored NO_PROXY: `proxy` reads both.
            config.proxy_url = None;
        }
        read_token(&mut config.auth_info).map_err(|error| SourceError::Access {
            what: file(path),
            error,
        })?;
        Ok(config)
    }

    /// Where the configuration comes from, for errors.
    pub(super) fn origin(&self) -> String {
        match (&self.kubeconfig, &self.master) {
            (Some(path), _) => file(path),
            (None, Some(master)) => format!("API server {}", escaped(master)),
            (None, None) => "the pod's service account (there is no kubeconfig)".to_owned(),
        }
    }
}

impl Certificates {
    /// The configuration for this server, as a kubeconfig with these files gives it.
    async fn config(&self, server: &str) -> Result<Config, KubeconfigError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let kubeconfig = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{
                "name": "c",
                "cluster": {"server": server, "certificate-authority": text(&self.authority)},
            }],
            "users": [{
                "name": "c",
                "user": {"client-certificate": text(&self.certificate), "client-key": text(&self.key)},
            }],
        });
        let kubeconfig = serde_json::from_value(kubeconfig).expect("it is a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        // As with a kubeconfig: `proxy` reads the environment.
        config.proxy_url = None;
        Ok(config)
    }
}

/// `proxy-url` of the current context's cluster.
fn proxy_url(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|it| it.name == *current)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|it| it.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_deref()
}

/// A token file has precedence over a token, and space around the token does not belong to it
/// (client-go, `transport/token_source.go`). kube does neither. A file without such space is left to
/// kube, which reads it again every minute.
fn read_token(auth: &mut AuthInfo) -> Result<(), String> {
    let Some(path) = &auth.token_file else {
        return Ok(());
    };
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim() == text => auth.token = None,
        Ok(text) => auth.token = Some(text.trim().to_owned().into()),
        Err(_) if auth.token.is_some() => {}
        Err(error) => return Err(format!("tokenFile {}: {error}", escaped(path))),
    }
    Ok(())
}

fn file(path: &Path) -> String {
    format!("kubeconfig {}", escaped(&path.to_string_lossy()))
}

/// An address without a scheme means plain HTTP (client-go, `rest/url_utils.go`).
fn server_url(master: &str) -> String {
    if master.contains("://") {
        master.to_owned()
    } else {
        format!("http://{master}")
    }
}

fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> SourceError {
    SourceError::Access {
        what: what.to_owned(),
        error: chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_hangs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = "{kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
                    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {exec: \
                    {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ['2'], interactiveMode: Never}}}]}";
        std::fs::write(&path, text).unwrap();
        let access = Access {
            kubeconfig: Some(path),
            context: None,
            master: None,
            certificates: None,
            qps: 0.0,
            burst: 0,
            user_agent: String::new(),
            plugins: Plugins::Run,
        };
        let error = connect_within(Duration::from_millis(1), &access).err();
        let text = chain(&error.expect("it has no answer"));
        assert!(text.contains("its plugin has not answered"), "{text}");
        assert!(text.contains("kubeconfig"), "{text}");
    }
}
