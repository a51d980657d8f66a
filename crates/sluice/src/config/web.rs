//! The flags of the web page.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use sluice_config::defaults::with_port;
use sluice_node::{Token, WebServer};
use sluice_yaml::quoted;

use super::reading::Problems;
use crate::cli::ProxyArgs;

/// Port of the web page where only an address is given. 10256 to 10260 belong to components of
/// Kubernetes (`pkg/cluster/ports`, `cloud-provider`).
const PORT: u16 = 10261;

/// The address of the web page, and the token of its clients.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WebConfig {
    pub(crate) address: SocketAddr,
    /// `None` on loopback addresses alone.
    token_file: Option<PathBuf>,
}

impl WebConfig {
    /// A page at an address, for those who know the token of the file.
    ///
    /// # Errors
    ///
    /// Everybody on the network would see the page.
    pub(crate) fn new(address: SocketAddr, token_file: Option<PathBuf>) -> Result<Self, String> {
        if !address.ip().is_loopback() && token_file.is_none() {
            return Err(format!(
                "--web-bind-address: {address} is no loopback address: give --web-token-file, so that \
                 only those who know the token see the page"
            ));
        }
        Ok(Self {
            address,
            token_file,
        })
    }

    /// The server; reads the token, which the sandbox may hide later.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no token.
    pub(crate) fn server(&self) -> anyhow::Result<WebServer> {
        let token = self.token_file.as_ref().map(|path| {
            let name = path.display();
            let read = || format!("--web-token-file: read {name}");
            let text = fs::read_to_string(path).with_context(read)?;
            Token::new(&text).map_err(|why| anyhow!("--web-token-file: {name}: the token {why}"))
        });
        Ok(WebServer {
            address: self.address,
            token: token.transpose()?,
        })
    }
}

impl ProxyArgs {
    /// `None` without the page, or after a problem.
    pub(super) fn web(&self, problems: &mut Problems) -> Option<WebConfig> {
        let text = self.web_bind_address.as_deref()?.trim();
        if text.is_empty() {
            return None;
        }
        let token_file = self.web_token_file.clone();
        let parsed = with_port(text, PORT).parse::<SocketAddr>().ok();
        let Some(address) = parsed.filter(|it| it.port() != 0) else {
            problems.usage(format!(
                "--web-bind-address: {} is no address such as 127.0.0.1:{PORT}",
                quoted(text)
            ));
            return None;
        };
        problems.keep(WebConfig::new(address, token_file))
    }
}

#[cfg(test)]
mod tests;
