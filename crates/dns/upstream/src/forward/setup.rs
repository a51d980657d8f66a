//! A forwarder from its configuration.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use hickory_proto::rr::RecordType;
use nix::net::if_::if_nametoindex;
use rustls::ClientConfig;
use sluice_corefile::{Forward, ForwardProtocol, Upstream as To, UpstreamTransport};
use tokio::runtime::Handle;

use super::attempt::{Limits, Upstreams};
use super::flights::Flights;
use super::observer::Observer;
use super::policy::Policy;
use super::stream::{self, Pool};
use super::tls::{self, Tls, TlsError};
use super::upstream::{Health, HealthCheck, Upstream};
use super::{Forwarder, MAX_QUERIES, Next, Scope, Transport};
use crate::question::Question;

/// Why a forwarder cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// TLS cannot be set up.
    #[error("forward: {0}")]
    Tls(#[from] TlsError),
    /// The interface of a link-local address is not there.
    #[error("forward to {address}%{interface}: {source}")]
    Interface {
        /// The upstream.
        address: SocketAddr,
        /// The interface's name.
        interface: String,
        /// What the kernel said.
        source: nix::Error,
    },
}

impl Forwarder {
    /// Reads the files that `tls` names and looks up interfaces. Nothing is sent. Queries and
    /// health checks run on `runtime`.
    pub fn new(
        config: &Forward,
        observer: Arc<dyn Observer>,
        runtime: Handle,
    ) -> Result<Self, SetupError> {
        let tls = config
            .to
            .iter()
            .any(|it| matches!(it.transport, UpstreamTransport::Tls { .. }))
            .then(|| tls::client_config(&config.tls))
            .transpose()?;
        let upstreams = config
            .to
            .iter()
            .map(|to| Ok(Arc::new(upstream(config, to, tls.as_ref(), &observer)?)))
            .collect::<Result<_, SetupError>>()?;
        Ok(Self {
            scope: Scope {
                from: config.from.clone(),
                except: config.except.clone(),
            },
            next: Next {
                codes: config.next.clone(),
                on_nodata: config.next_on_nodata,
            },
            protocol: config.protocol,
            max_queries: config.max_concurrent.map_or(MAX_QUERIES, NonZeroUsize::get),
            queries: Arc::default(),
            upstreams: Arc::new(Upstreams::new(
                config.from.to_string(),
                upstreams,
                policy(config),
                Limits {
                    max_attempts: config.max_connect_attempts,
                    fail_fast: config.failfast_all_unhealthy_upstreams,
                    failover: config.failover.clone(),
                },
                Arc::clone(&observer),
            )),
            flights: Arc::new(Flights::default()),
            observer,
            runtime,
        })
    }
}

fn policy(config: &Forward) -> Policy {
    match config.policy {
        sluice_corefile::Policy::Random => Policy::Random,
        sluice_corefile::Policy::RoundRobin => Policy::RoundRobin(AtomicUsize::new(0)),
        sluice_corefile::Policy::Sequential => Policy::Sequential,
    }
}

fn upstream(
    config: &Forward,
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
        label: to.address.to_string().into(),
        address: scoped(to)?,
        tls,
        pool: Arc::new(Pool::new(stream::Limits {
            expire: config.expire,
            max_age: config.max_age,
            max_idle: config.max_idle_conns,
        })),
        observer: Arc::clone(observer),
        health: Health::new(health_check(config)),
    })
}

fn health_check(config: &Forward) -> HealthCheck {
    let domain = config.health_check.domain.clone();
    HealthCheck {
        max_fails: config.max_fails,
        interval: config.health_check.interval,
        question: Question {
            recursion_desired: config.health_check.recursion_desired,
            ..Question::new(domain, RecordType::NS)
        },
        transport: match config.protocol {
            ForwardProtocol::Tcp => Transport::Tcp,
            ForwardProtocol::AsAsked | ForwardProtocol::PreferUdp => Transport::Udp,
        },
    }
}

/// The address with the index of its interface.
fn scoped(to: &To) -> Result<SocketAddr, SetupError> {
    let mut address = to.address;
    if let (SocketAddr::V6(v6), Some(interface)) = (&mut address, &to.interface) {
        // `fe80::1%3` names the interface by its index.
        let index = match interface.parse() {
            Ok(index) => index,
            Err(_) => {
                if_nametoindex(interface.as_str()).map_err(|source| SetupError::Interface {
                    address: to.address,
                    interface: interface.clone(),
                    source,
                })?
            }
        };
        v6.set_scope_id(index);
    }
    Ok(address)
}
