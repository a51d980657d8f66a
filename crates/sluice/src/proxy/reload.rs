//! Applies a changed configuration file.

use std::sync::{Arc, OnceLock};

use sluice_agent::Services;
use sluice_config::{ConntrackLimits, Effective};
use sluice_node::sysctl::Memory;
use sluice_node::{Control, Handle, chain};
use sluice_plane::DataPlane;
use tracing::{info, warn};

use super::machine;
use crate::config::ProxyConfig;
use crate::config_watch::Reload;
use crate::logging;

/// Sends a changed configuration to the agent, or ends the process when a field changed that is
/// only read at start. As with kube-proxy, a supervisor starts it again; the rules stay.
pub(super) struct Reloading<P: DataPlane> {
    services: Handle<Services<P>>,
    control: Control,
    current: Effective,
    memory: Memory,
    /// Why the process ends.
    restart: Arc<OnceLock<String>>,
}

impl<P: DataPlane> Reloading<P> {
    pub(super) fn new(
        services: Handle<Services<P>>,
        control: Control,
        current: Effective,
        memory: Memory,
    ) -> Self {
        Self {
            services,
            control,
            current,
            memory,
            restart: Arc::default(),
        }
    }

    /// Set before the agent is told to stop.
    pub(super) fn restart(&self) -> Arc<OnceLock<String>> {
        self.restart.clone()
    }

    pub(super) fn apply(&mut self, reload: Reload) {
        match reload {
            Reload::Invalid(error) => {
                let error = chain(error.as_ref());
                warn!(error, "the changed configuration is not used");
            }
            Reload::Restart(fields) => self.end(&fields.join(", ")),
            Reload::Apply(config) => self.configure(*config),
        }
    }

    fn configure(&mut self, config: ProxyConfig) {
        config.node.warnings.iter().for_each(|it| warn!("{it}"));
        let effective = config.node.effective;
        if effective.conntrack != self.current.conntrack {
            limit_conntrack(&effective.conntrack, &self.memory);
        }
        logging::set_verbosity(effective.verbosity);
        let health_timeout = config.periods.health_timeout(effective.periods.sync);
        self.current = effective;
        info!("the configuration has changed: in force");
        let (settings, periods) = (config.node.settings, config.periods);
        self.services
            .tell(move |it| it.configure(settings, periods, health_timeout));
    }

    fn end(&self, fields: &str) {
        let why = format!("the configuration has changed: {fields}");
        // The first reason counts, and the agent stops once.
        if self.restart.set(why).is_ok() {
            self.control.stop();
        }
    }
}

fn limit_conntrack(limits: &ConntrackLimits, memory: &Memory) {
    if let Err(error) = machine::limit_conntrack(limits, memory) {
        // A new process would not be permitted to set them either, and would not start.
        let error = chain(error.as_ref());
        warn!(
            error,
            "the new limits of connection tracking wait for `--init-only` or a new pod"
        );
    }
}
