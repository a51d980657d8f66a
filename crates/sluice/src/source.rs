//! Starts the source of Services: a folder or an API server.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anyhow::{Context, bail};
use sluice_model::{Announcement, ApiRequest};
use sluice_node::metrics::Metrics;
use sluice_node::privileges::is_secure_execution;
use sluice_source::Hub;
use sluice_source::apiserver::{self, Access, Files, Observer, Plugins, Timeouts};

use crate::config::Source;
use sluice_config::Invalid;

/// A running source: it ends when this is dropped.
#[expect(dead_code, reason = "dropping them ends the source")]
pub(crate) enum Running {
    Folder(sluice_source::Watch),
    ApiServer(apiserver::Follow),
}

/// Checks that a source can be read, before anything on the machine changes. Sends no request.
///
/// # Errors
///
/// The folder or a file of the credentials cannot be read. [`Invalid`] when no flag names a source
/// and this process is in no pod: kube-proxy, too, takes the API server of its pod then.
pub(crate) fn check(source: &Source, config_file: Option<&Path>) -> anyhow::Result<()> {
    let access = match access(source) {
        Ok(access) => access,
        Err(folder) => {
            let read = fs::read_dir(folder);
            return read.map(drop).with_context(|| {
                let folder = folder.display();
                format!("--manifests: give a folder that this user may read: {folder}")
            });
        }
    };
    let names_none = access.kubeconfig.is_none() && access.master.is_none();
    if names_none && !apiserver::is_in_pod() {
        let (missing, exit_code) = match config_file {
            Some(file) => {
                let file = file.display();
                (
                    format!("{file}: clientConnection.kubeconfig: set it, or give"),
                    1,
                )
            }
            None => (
                "no source of Services: give --kubeconfig PATH,".to_owned(),
                2,
            ),
        };
        let problem = format!(
            "{missing} --manifests DIR or --master URL (in a pod none is needed: this process runs in \
             none)"
        );
        bail!(Invalid {
            problems: vec![problem],
            exit_code,
        });
    }
    Ok(apiserver::check(&access)?)
}

/// Feeds the consumers of `hub` from a source; `announcements` become Events at the API server. With a folder,
/// announcements are only in the log and the status.
pub(crate) fn start(
    source: &Source,
    node_name: &Arc<str>,
    hub: &Hub,
    announcements: Receiver<Announcement>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Running> {
    let access = match access(source) {
        Ok(access) => access,
        Err(folder) => return Ok(Running::Folder(hub.watch(folder)?)),
    };
    let client = apiserver::connect(&access)?;
    let metrics = metrics.clone();
    let observer: Observer = Arc::new(move |request: &ApiRequest<'_>| metrics.api_request(request));
    apiserver::record(&client, node_name.clone(), announcements, observer.clone())?;
    let follow = hub.follow(&client, Timeouts::default(), observer)?;
    Ok(Running::ApiServer(follow))
}

/// The files that a source reads while it runs.
pub(crate) fn files(source: &Source) -> Option<&Path> {
    match source {
        Source::Folder(folder) => Some(folder),
        Source::ApiServer { kubeconfig, .. } => kubeconfig.as_deref(),
    }
}

/// What a source reads from files, for the sandbox. A folder of manifests may be made again, and its
/// links may lead anywhere: the operator who fills it decides what is read.
pub(crate) fn needs(source: &Source) -> Files {
    match access(source) {
        Ok(access) => access.files(),
        Err(_) => Files {
            paths: vec!["/".into()],
            has_plugin: false,
        },
    }
}

/// The way to the API server, or the folder.
pub(crate) fn access(source: &Source) -> Result<Access, &Path> {
    match source {
        Source::Folder(folder) => Err(folder),
        Source::ApiServer {
            kubeconfig,
            master,
            qps,
            burst,
        } => Ok(Access {
            kubeconfig: kubeconfig.clone(),
            master: master.clone(),
            qps: *qps,
            burst: i32::try_from(*burst).unwrap_or(i32::MAX),
            plugins: if is_secure_execution() {
                Plugins::Refuse
            } else {
                Plugins::Run
            },
            ..Access::default()
        }),
    }
}
