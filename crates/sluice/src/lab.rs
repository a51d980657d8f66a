//! What the commands of the lab need of this program.

use anyhow::anyhow;
use sluice_config::LogFormat;
use sluice_lab_commands::Host;

use crate::cli;
use crate::config::WebConfig;
use crate::error::say;
use crate::{logging, planes};

pub(crate) const HOST: Host = Host {
    say,
    start_log: || logging::start(0, LogFormat::Text),
    check_mode,
    settings: |flags, node| Ok(cli::agent(flags)?.node.validate(node)?.settings),
    web_server: |address, token_file| {
        let config = WebConfig::new(address, token_file);
        config.map_err(|it| anyhow!(it))?.server()
    },
};

/// Checks the machine as the agent does at its start.
fn check_mode(mode: &str) -> anyhow::Result<()> {
    let agent = cli::agent(&[format!("--proxy-mode={mode}")])?;
    let config = agent.node.validate("node")?;
    let prepare = planes::named(mode)?.prepare;
    Ok(prepare(&config.options(false)).map(drop)?)
}
