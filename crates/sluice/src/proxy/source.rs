//! Starts what Services come from.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use sluice_model::Announcement;
use sluice_model::Event;
use sluice_node::Input;
use sluice_node::metrics::{ApiRequest, Metrics};
use sluice_source::apiserver::{self, Access, Observe, Observed, Patience, Recorder};

use crate::config::Source;

/// A running source: it ends when this is dropped.
#[expect(dead_code, reason = "they only live")]
pub(super) enum Running {
    Folder(sluice_source::Watch),
    ApiServer {
        follow: apiserver::Follow,
        recorder: Recorder,
    },
}

/// Follows a source: what it says goes to `inputs`, what users of Services should know comes from
/// `announcements`. A folder has nobody to tell; the log and the status say it too.
pub(super) fn start(
    source: &Source,
    node_name: &Arc<str>,
    inputs: Sender<Input>,
    announcements: Receiver<Announcement>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Running> {
    let sink = move |events: Vec<Event>| {
        // The agent has stopped; the process is about to end.
        let _ = inputs.send(Input::Events(events));
    };
    let (kubeconfig, master, qps, burst) = match source {
        Source::Folder(folder) => {
            return Ok(Running::Folder(sluice_source::watch(folder, sink)?));
        }
        Source::ApiServer {
            kubeconfig,
            master,
            qps,
            burst,
        } => (kubeconfig, master, qps, burst),
    };
    let access = Access {
        kubeconfig: kubeconfig.clone(),
        master: master.clone(),
        qps: *qps,
        burst: i32::try_from(*burst).unwrap_or(i32::MAX),
        ..Access::default()
    };
    let client = apiserver::connect(&access)?;
    let counted = || Counted(metrics.clone());
    let recorder = Recorder::start(&client, node_name.clone(), announcements, counted())?;
    let patience = Patience::default();
    let follow = apiserver::follow(&client, node_name.clone(), patience, sink, counted())?;
    Ok(Running::ApiServer { follow, recorder })
}

/// The files that a source reads while it runs.
pub(super) fn files(source: &Source) -> Option<&Path> {
    match source {
        Source::Folder(folder) => Some(folder),
        Source::ApiServer { kubeconfig, .. } => kubeconfig.as_deref(),
    }
}

/// Requests as client-go counts them.
struct Counted(Arc<Metrics>);

impl Observe for Counted {
    fn request(&self, observed: Observed<'_>) {
        self.0.api_request(&ApiRequest {
            method: observed.method,
            host: observed.host,
            code: observed.code,
            elapsed: observed.took,
        });
    }
}
