//! What a changed configuration file does.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use sluice_config::{ConntrackLimits, Effective};
use sluice_node::Input;
use tracing::{info, warn};

use super::machine;
use crate::config::ProxyConfig;
use crate::config_watch::Reload;
use crate::logging;

/// Tells the agent of a new configuration, or makes the process end.
///
/// What cannot change while it runs ends the process, as in kube-proxy, for its supervisor to
/// start it again; the rules stay meanwhile.
pub(super) struct Reloading {
    inputs: Sender<Input>,
    current: Effective,
    /// Why the process has to be started again.
    restart: Arc<OnceLock<String>>,
}

impl Reloading {
    pub(super) fn new(inputs: Sender<Input>, current: Effective) -> Self {
        Self {
            inputs,
            current,
            restart: Arc::default(),
        }
    }

    /// Set before the agent is told to stop.
    pub(super) fn restart(&self) -> Arc<OnceLock<String>> {
        self.restart.clone()
    }

    pub(super) fn hear(&mut self, reload: Reload) {
        match reload {
            Reload::Invalid(error) => {
                let error = format!("{error:#}");
                warn!(error, "the changed configuration is not used");
            }
            Reload::Restart(fields) => self.end(&fields.join(", ")),
            Reload::Apply(config) => self.apply(*config),
        }
    }

    fn apply(&mut self, config: ProxyConfig) {
        config.node.warnings.iter().for_each(|it| warn!("{it}"));
        let effective = config.node.effective;
        if effective.conntrack != self.current.conntrack {
            limit_conntrack(&effective.conntrack);
        }
        logging::set_verbosity(effective.verbosity);
        let patience = config.periods.patience(effective.periods.sync);
        self.current = effective;
        info!("the configuration has changed: in force");
        // The agent has stopped; the process is about to end.
        let _ = self.inputs.send(Input::Configure {
            settings: config.node.settings,
            periods: config.periods,
            patience,
        });
    }

    fn end(&self, fields: &str) {
        let why = format!("the configuration has changed: {fields}");
        // The first reason is the one that is told, and the agent stops once.
        if self.restart.set(why).is_ok() {
            let _ = self.inputs.send(Input::Stop);
        }
    }
}

fn limit_conntrack(limits: &ConntrackLimits) {
    if let Err(error) = machine::limit_conntrack(limits) {
        // A new process would not be permitted either, and would not start at all.
        let error = format!("{error:#}");
        warn!(
            error,
            "the new limits of connection tracking wait for `--init-only` or a new pod"
        );
    }
}
