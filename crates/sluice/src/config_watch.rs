//! The configuration file as it changes.
//!
//! ```text
//! watch_file: new content, once nobody writes ──▶ Reloader: what is to be done ──▶ sink
//! ```
//!
//! kube-proxy ends when its file is written, and does not see the swap of a ConfigMap. Here every
//! way a file can change is seen, and what the change means decides: see [`Reload`]. A file that
//! cannot be used changes nothing, so a typing error takes no node down; it is told once.

use std::io;

use sluice_config::{Change, change};
use sluice_node::chain;
use sluice_source::{Watch, watch_file};

use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;

/// The effect of a changed file.
#[derive(Debug)]
pub(crate) enum Reload {
    /// To go on with these values; nothing else is different.
    Apply(Box<ProxyConfig>),
    /// A new process: these fields are only read at start.
    Restart(Vec<&'static str>),
    /// Nothing: the file cannot be used, and the last good one stays in force.
    Invalid(anyhow::Error),
}

/// Watches the file of `--config`, if there is one.
///
/// `sink` is called on the watch's own thread for each change that means something, compared with
/// what it was told to apply last; for a file that is wrong in the same way again it is not.
///
/// # Errors
///
/// The kernel has no watch left, or no thread could be started.
pub(crate) fn watch(
    args: &ProxyArgs,
    host_name: &str,
    current: &ProxyConfig,
    mut sink: impl FnMut(Reload) + Send + 'static,
) -> io::Result<Option<Watch>> {
    let Some(path) = &args.node.config else {
        return Ok(None);
    };
    let mut reloader = Reloader {
        args: args.clone(),
        host_name: host_name.to_owned(),
        current: current.clone(),
        told: None,
    };
    let changed = move |read| reloader.reread(read).into_iter().for_each(&mut sink);
    watch_file(path, changed).map(Some)
}

/// Compares each state of the file with the one in force.
struct Reloader {
    args: ProxyArgs,
    host_name: String,
    /// The configuration that is in force.
    current: ProxyConfig,
    /// The last message about a file that is not in force.
    told: Option<String>,
}

impl Reloader {
    /// Checks the flags with a new content of the file; `None` when the result is the same as
    /// before.
    fn reread(&mut self, file: io::Result<Vec<u8>>) -> Option<Reload> {
        let error = match self.args.validate_with(&self.host_name, Some(file)) {
            Ok(config) => return self.compare(config),
            Err(error) => error,
        };
        let text = chain(error.as_ref());
        self.is_news(text).then(|| Reload::Invalid(error))
    }

    fn compare(&mut self, config: ProxyConfig) -> Option<Reload> {
        match change(&self.current.node.effective, &config.node.effective) {
            // The default of kube-proxy's period is not ours, which counts where none is given.
            Change::Nothing if config.periods == self.current.periods => {
                self.told = None;
                None
            }
            Change::Nothing | Change::Apply => {
                self.told = None;
                self.current = config.clone();
                Some(Reload::Apply(Box::new(config)))
            }
            Change::Restart(fields) => {
                let text = fields.join(", ");
                self.is_news(text).then(|| Reload::Restart(fields))
            }
        }
    }

    fn is_news(&mut self, text: String) -> bool {
        let is_news = self.told.as_ref() != Some(&text);
        self.told = Some(text);
        is_news
    }
}

#[cfg(test)]
mod tests;
