//! A forwarder from its configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use nix::net::if_::if_nametoindex;
use rustls::ClientConfig;
use sluice_corefile::{Forward, Upstream as To, UpstreamTransport};
use tokio::runtime::Handle;

use super::Forwarder;
use super::attempt::Upstreams;
use super::failure::SetupError;
use super::observer::Observer;
use super::stream::Pool;
use super::tls::{self, Tls};
use super::upstream::Upstream;

impl Forwarder {
    /// Reads the files that `tls` names and looks up interfaces. Nothing is sent. Queries and
    /// health checks run on `runtime`.
    pub fn new(
        config: &Forward,
        observer: Arc<dyn Observer>,
        runtime: Handle,
    ) -> Result<Self, SetupError> {
        let config = Arc::new(config.clone());
        let is_tls = |it: &To| matches!(it.transport, UpstreamTransport::Tls { .. });
        let tls = config.to.iter().any(is_tls);
        let tls = tls.then(|| tls::client_config(&config.tls)).transpose()?;
        let upstream = |to| Ok(Arc::new(upstream(&config, to, tls.as_ref(), &observer)?));
        let upstreams: Result<_, SetupError> = config.to.iter().map(upstream).collect();
        let upstreams = Upstreams::new(Arc::clone(&config), upstreams?, Arc::clone(&observer));
        Ok(Self {
            config,
            queries: Arc::default(),
            upstreams: Arc::new(upstreams),
            flights: Arc::default(),
            observer,
            runtime,
        })
    }
}

fn upstream(
    config: &Arc<Forward>,
    to: &To,
    tls: Option<&Arc<ClientConfig>>,
    observer: &Arc<dyn Observer>,
) -> Result<Upstream, SetupError> {
    let tls = match (&to.transport, tls) {
        (UpstreamTransport::Tls { server_name }, Some(tls)) => {
            Some(Tls::new(tls, server_name.as_deref(), to.address.ip())?)
        }
        _ => None,
    };
    Ok(Upstream {
        config: Arc::clone(config),
        label: to.address.to_string().into(),
        address: scoped(to)?,
        tls,
        pool: Arc::new(Pool::new(Arc::clone(config))),
        observer: Arc::clone(observer),
        fails: Default::default(),
        checking: Default::default(),
    })
}

/// The address with the index of its interface.
fn scoped(to: &To) -> Result<SocketAddr, SetupError> {
    let mut address = to.address;
    if let (SocketAddr::V6(v6), Some(interface)) = (&mut address, &to.interface) {
        // `fe80::1%3` names the interface by its index.
        let index = match interface.parse() {
            Ok(index) => index,
            Err(_) => if_nametoindex(interface.as_str())
                .map_err(SetupError::at(format!(" to {}%{interface}", to.address)))?,
        };
        v6.set_scope_id(index);
    }
    Ok(address)
}
