//! `autopath`: follows the client's search path on the server.
//!
//! ```text
//! web.example.org.shop.svc.cluster.local. ─NXDOMAIN─▶ each suffix of the path, then none:
//!     the first that exists ─▶ CNAME from the asked name to it, and its records
//! ```
//!
//! The asked name itself is answered first, so that nothing is ever said of it that is not true: its
//! NXDOMAIN is what the client gets when no step finds a name, and when any step is uncertain.

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record};
use sluice_corefile::{Autopath as Config, SearchPath};

use crate::options::SearchPaths;

/// Longest search path: glibc since 2.26 has no limit, Kubernetes allows 32 domains
/// (`MaxDNSSearchPaths`).
const MOST_DOMAINS: usize = 32;

/// One `autopath` of a server block.
pub(crate) struct Autopath {
    config: Config,
    clients: Option<Arc<dyn SearchPaths>>,
}

impl Autopath {
    /// `clients` gives the search paths of pods.
    pub(crate) fn new(config: &Config, clients: Option<Arc<dyn SearchPaths>>) -> Self {
        Self {
            config: config.clone(),
            clients,
        }
    }

    /// The names to try, in order, after the asked one. Empty: nothing is completed.
    pub(crate) fn candidates(&self, asked: &Name, client: IpAddr) -> Vec<Name> {
        if !self.config.zones.iter().any(|it| it.zone_of(asked)) {
            return Vec::new();
        }
        let clients = self.clients.as_ref();
        match &self.config.search {
            SearchPath::Names(path) => completions(asked, path),
            SearchPath::Kubernetes => clients
                .and_then(|it| it.search_path(client.to_canonical()))
                .map_or_else(Vec::new, |it| completions(asked, &it)),
        }
    }
}

/// The asked name's base below each suffix of the path but the first, then alone.
fn completions(asked: &Name, path: &[Name]) -> Vec<Name> {
    let Some((first, others)) = path.split_first() else {
        return Vec::new();
    };
    let (labels, suffix) = (asked.iter().len(), first.iter().len());
    if !first.zone_of(asked) || first.is_root() || labels == suffix {
        return Vec::new();
    }
    let base: Vec<&[u8]> = asked.iter().take(labels - suffix).collect();
    let root = Name::root();
    let suffixes = others.iter().take(MOST_DOMAINS).filter(|it| !it.is_root());
    let name = |suffix: &Name| {
        let mut name = Name::from_labels(base.iter().copied().chain(suffix.iter())).ok()?;
        name.set_fqdn(true);
        Some(name)
    };
    suffixes.chain([&root]).filter_map(name).collect()
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The name exists.
    Found,
    /// The name does not exist: take the next step.
    Missing,
    /// It is not known whether the name exists: stop.
    Uncertain,
}

/// Reads the result of a step from its answer.
pub(crate) fn step(message: &Message) -> Step {
    match message.response_code {
        _ if message.truncation => Step::Uncertain,
        ResponseCode::NoError => Step::Found,
        ResponseCode::NXDomain => Step::Missing,
        _ => Step::Uncertain,
    }
}

/// Makes the answer about `found` one about `asked`.
pub(crate) fn alias(message: &mut Message, asked: &Name, found: Name) {
    let ttls = message.answers.iter().chain(&message.authorities);
    let ttl = ttls.map(|it| it.ttl).min().unwrap_or(0);
    let alias = Record::from_rdata(asked.clone(), ttl, RData::CNAME(CNAME(found)));
    message.answers.insert(0, alias);
}

#[cfg(test)]
mod tests;
