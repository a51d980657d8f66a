//! What a Corefile means on this machine, computed before any socket is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hickory_proto::rr::Name;
use sluice_corefile::{Corefile, Plugins, ServerBlock};

use super::StartError;
use super::pages::PageAt;
use crate::engine::{Block, Common, Engine};
use crate::http::Page;
use crate::listen;
use crate::metrics::{CacheOf, Metrics};

/// Everything that is to be served.
pub(super) struct Plan {
    pub(super) engines: BTreeMap<SocketAddr, Arc<Engine>>,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) pages: BTreeSet<PageAt>,
    pub(super) needs_objects: bool,
    pub(super) lameduck: Duration,
    caches: Vec<CacheOf>,
    /// Server, zone and name of each plugin.
    enabled: Vec<(String, String, &'static str)>,
}

impl Plan {
    pub(super) fn of(corefile: &Corefile, common: &Arc<Common>) -> Result<Self, StartError> {
        let mut sites: BTreeMap<SocketAddr, Vec<(Name, Arc<Block>)>> = BTreeMap::new();
        let mut plan = Self {
            engines: BTreeMap::new(),
            blocks: Vec::new(),
            pages: BTreeSet::new(),
            needs_objects: false,
            lameduck: Duration::ZERO,
            caches: Vec::new(),
            enabled: Vec::new(),
        };
        for block in &corefile.blocks {
            let mut keys = Vec::new();
            for key in &block.keys {
                let addresses = listen::addresses(&block.plugins.bind, key.port)?;
                keys.extend(addresses.into_iter().map(|it| (it, key.zone.clone())));
            }
            let listens: Vec<_> = keys.iter().map(|it| it.0).collect();
            let server = listens.first().map(|it| label(*it)).unwrap_or_default();
            let known_by = listen::known_by(&listens)?;
            let made = Block::new(block, &server, known_by, common).map_err(|error| {
                StartError::Block {
                    place: block.place.to_string(),
                    message: error.to_string(),
                }
            })?;
            plan.take_in(block, &made, &server, &keys);
            for (address, zone) in keys {
                sites.entry(address).or_default().push((zone, made.clone()));
            }
        }
        let engine =
            |(address, sites)| (address, Engine::new(&label(address), sites, common.clone()));
        plan.engines = sites.into_iter().map(engine).collect();
        Ok(plan)
    }

    fn take_in(
        &mut self,
        block: &ServerBlock,
        made: &Arc<Block>,
        server: &str,
        keys: &[(SocketAddr, Name)],
    ) {
        let plugins = &block.plugins;
        self.blocks.push(made.clone());
        let pages = [
            plugins.health.as_ref().map(|it| (it.address, Page::Health)),
            plugins.ready.as_ref().map(|it| (it.address, Page::Ready)),
            plugins.prometheus.map(|it| (it, Page::Metrics)),
        ];
        let pages = pages.into_iter().flatten();
        self.pages
            .extend(pages.map(|(address, page)| (sluice_http::widened(address), page)));
        self.needs_objects |= plugins.kubernetes.is_some();
        let lameduck = plugins.health.as_ref().map(|it| it.lameduck);
        self.lameduck = self.lameduck.max(lameduck.unwrap_or_default());
        if let Some(cache) = &made.upstream.cache {
            let zones = plugins.cache.iter().flat_map(|it| &it.zones);
            let zones: Vec<_> = zones.map(Name::to_ascii).collect();
            self.caches.push(CacheOf {
                server: server.to_owned(),
                zones: zones.join(","),
                cache: cache.clone(),
            });
        }
        for (address, zone) in keys {
            let names = enabled(plugins).into_iter();
            self.enabled
                .extend(names.map(|it| (label(*address), zone.to_ascii(), it)));
        }
    }

    /// Shows in the metrics what is served from now on.
    pub(super) fn describe(&self, metrics: &Metrics) {
        *metrics.caches.lock() = self.caches.clone();
        metrics.enabled.reset();
        for (server, zone, name) in &self.enabled {
            metrics
                .enabled
                .with_label_values(&[server, zone, "", *name])
                .set(1);
        }
        count_hosts(&self.blocks, metrics);
    }
}

/// `coredns_hosts_entries` of all blocks, and the time of this call as that of their reading.
pub(super) fn count_hosts(blocks: &[Arc<Block>], metrics: &Metrics) {
    let entries: usize = blocks
        .iter()
        .filter_map(|it| it.hosts.as_ref())
        .map(|it| it.entries())
        .sum();
    metrics
        .hosts_entries
        .set(i64::try_from(entries).unwrap_or(i64::MAX));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    metrics
        .hosts_reloaded
        .set(now.unwrap_or_default().as_secs_f64());
}

/// Label `server` of metrics: `dns://:53` for all addresses, `dns://10.96.0.10:53` for one.
fn label(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("dns://:{}", address.port())
    } else {
        format!("dns://{address}")
    }
}

/// The plugins that answer or alter answers, as CoreDNS names them.
fn enabled(plugins: &Plugins) -> Vec<&'static str> {
    let all = [
        ("bufsize", plugins.bufsize.is_some()),
        ("nsid", plugins.nsid.is_some()),
        ("ready", plugins.ready.is_some()),
        ("health", plugins.health.is_some()),
        ("prometheus", plugins.prometheus.is_some()),
        ("errors", plugins.errors.is_some()),
        ("log", !plugins.log.is_empty()),
        ("acl", !plugins.acl.is_empty()),
        ("any", plugins.any),
        ("chaos", plugins.chaos.is_some()),
        ("loadbalance", plugins.loadbalance.is_some()),
        ("cache", plugins.cache.is_some()),
        ("rewrite", !plugins.rewrite.is_empty()),
        ("autopath", plugins.autopath.is_some()),
        ("minimal", plugins.minimal),
        ("template", !plugins.template.is_empty()),
        ("hosts", plugins.hosts.is_some()),
        ("kubernetes", plugins.kubernetes.is_some()),
        ("loop", plugins.loop_detection),
        ("forward", !plugins.forward.is_empty()),
        ("whoami", plugins.whoami),
    ];
    all.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}
