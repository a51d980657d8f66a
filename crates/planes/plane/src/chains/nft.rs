//! Chains in the tables of iptables-nft.
//!
//! They are removed without the programs of iptables, which a container may not have: a rule need
//! not be understood to be deleted, only where it leads.

use std::collections::BTreeSet;
use std::process;

use sluice_model::IpFamily;
use sluice_netlink::nftables::{
    Batch, CommitError, Connection, Failure, Family, Jump, Policy, Scope,
};
use sluice_netlink::{Errno, RequestError};

use sluice_xtables::programs::Variant;

use super::teardown::{self, Cleared, Link, Teardown};
use super::{goes, is_services};
use crate::kube_proxy::{SERVICES, is_ours};
use crate::{Keep, LeftoverError, Removal, Request};

/// Tables of iptables in which kube-proxy has chains.
const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// Where one family's tables are.
#[derive(Clone, Copy)]
struct Place {
    /// Whose.
    of: IpFamily,
    /// As the kernel knows it.
    family: Family,
    /// As in `ip nat`.
    word: &'static str,
}

const PLACES: [Place; 2] = [
    Place {
        of: IpFamily::V4,
        family: Family::Ipv4,
        word: IpFamily::V4.nft_name(),
    },
    Place {
        of: IpFamily::V6,
        family: Family::Ipv6,
        word: IpFamily::V6.nft_name(),
    },
];

fn places(families: &[IpFamily]) -> impl Iterator<Item = Place> {
    PLACES.into_iter().filter(|it| families.contains(&it.of))
}

/// How often a table is read again because somebody changed it meanwhile.
const ATTEMPTS: usize = 5;

/// What shows that a kube-proxy is at work in the nft variant.
pub(super) fn sign_of_kube_proxy(keep: &Keep) -> Option<String> {
    let mut connection = Connection::open().ok()?;
    let is_foreign = is_services(keep, Variant::Nft);
    let mut places = PLACES.into_iter();
    let found = places.find(|it| {
        let found = has_chain(&mut connection, it.family, "nat", &is_foreign);
        found.unwrap_or_default()
    });
    found.map(|it| format!("chain {SERVICES} of table {} nat", it.word))
}

/// Whether Sluice left chains in the nft variant.
pub(super) fn are_ours() -> bool {
    Connection::open().is_ok_and(|mut connection| {
        let mut has = |family, table: &str| {
            let found = has_chain(&mut connection, family, table, &is_ours);
            found.unwrap_or_default()
        };
        let mut places = PLACES.into_iter();
        places.any(|it| TABLES.iter().any(|table| has(it.family, table)))
    })
}

/// Whether a table of iptables-nft has a chain whose name is one of these.
fn has_chain(
    connection: &mut Connection,
    family: Family,
    table: &str,
    is_meant: &dyn Fn(&str) -> bool,
) -> Result<bool, LeftoverError> {
    let chains = or_none(connection.chains(Scope { family, table }))?;
    Ok(chains.iter().any(|it| is_meant(&it.name)))
}

/// By which this process removes chains: no process has such a number (`PID_MAX_LIMIT`). A watch for
/// foreign changes leaves it out.
#[must_use]
pub fn port_id() -> u32 {
    process::id() + (1 << 22)
}

/// Removes chains from the tables of iptables-nft, each table in one transaction.
pub(super) fn remove(request: &Request<'_>, removal: &mut Removal) {
    // Another thread may be at it.
    let connection = Connection::open_at(port_id()).or_else(|_| Connection::open());
    let mut connection = match connection {
        Ok(it) => it,
        Err(error) => return removal.errors.push(LeftoverError::Connect(error)),
    };
    for Place { family, word, .. } in places(request.families) {
        for table in TABLES {
            let result = clear(&mut connection, Scope { family, table }, request);
            if let Some(cleared) = removal.take(result) {
                cleared.report(&format!("{word} {table}"), removal);
            }
        }
    }
}

/// Removes kube-proxy's chains from one table; `None` when there are none.
fn clear(
    connection: &mut Connection,
    scope: Scope<'_>,
    request: &Request<'_>,
) -> Result<Option<Cleared<u64>>, LeftoverError> {
    // Chains that something leads to which is no rule: an element of a map.
    let mut stuck = BTreeSet::new();
    let mut attempt = 1;
    loop {
        let result = try_clear(connection, scope, request, &mut stuck);
        let again = match &result {
            Err(LeftoverError::Request(RequestError::Interrupted { .. })) => true,
            Err(LeftoverError::Commit { source, .. }) => {
                matches!(source, CommitError::Refused { .. })
            }
            _ => false,
        };
        if !again || attempt == ATTEMPTS {
            return result;
        }
        attempt += 1;
    }
}

fn try_clear(
    connection: &mut Connection,
    scope: Scope<'_>,
    request: &Request<'_>,
    stuck: &mut BTreeSet<String>,
) -> Result<Option<Cleared<u64>>, LeftoverError> {
    let chains = or_none(connection.chains(scope))?;
    let drops = |it: &sluice_netlink::nftables::Chain| {
        let policy = it.hook.as_ref().map(|it| it.policy);
        it.name == "FORWARD" && policy == Some(Policy::Drop)
    };
    let forward_drops = chains.iter().any(drops);
    let names: Vec<String> = chains.into_iter().map(|it| it.name).collect();
    let goes = |it: &str| goes(request, Variant::Nft, scope.table, it);
    if !names.iter().any(|it| goes(it)) {
        return Ok(None);
    }
    let links = connection.jumps(scope).map_err(LeftoverError::Request)?;
    let links = links.into_iter().map(link).collect();
    let Some(mut done) = teardown::plan(&names, links, goes) else {
        return Ok(None);
    };
    let (kept, delete) = std::mem::take(&mut done.delete)
        .into_iter()
        .partition(|it| stuck.contains(it));
    done.delete = delete;
    done.kept.extend::<Vec<String>>(kept);
    let what = "iptables chains";
    if let Err(source) = connection.commit(&batch(scope, &done)) {
        if let CommitError::Refused { failures } = &source {
            stuck.extend(failures.iter().filter_map(|it| busy(it, &done.delete)));
        }
        return Err(LeftoverError::Commit { what, source });
    }
    Ok(Some(Cleared {
        done,
        forward_drops,
    }))
}

fn link(jump: Jump) -> Link<u64> {
    Link {
        chain: jump.chain,
        target: jump.target,
        rule: jump.handle,
    }
}

/// The transaction; tags count the chains to delete from 1.
fn batch(scope: Scope<'_>, done: &Teardown<u64>) -> Batch {
    let mut batch = Batch::new();
    for link in &done.unlink {
        batch.delete_rule(0, scope, &link.chain, link.rule);
    }
    for chain in &done.flush {
        batch.flush_chain(0, scope, chain);
    }
    for (tag, chain) in (1..).zip(&done.delete) {
        batch.delete_chain(tag, scope, chain);
    }
    batch
}

/// The chain that the kernel did not delete because it is needed.
fn busy(failure: &Failure, deleted: &[String]) -> Option<String> {
    let [tag] = failure.tags.as_slice() else {
        return None;
    };
    let index = usize::try_from(*tag).ok()?.checked_sub(1)?;
    let is_busy = failure.errno == Errno::EBUSY;
    deleted.get(index).filter(|_| is_busy).cloned()
}

/// What a kernel without nf_tables holds is nothing. It says so with `EINVAL`
/// (`nfnetlink_rcv_msg`).
fn or_none<T>(result: Result<Vec<T>, RequestError>) -> Result<Vec<T>, LeftoverError> {
    match result {
        Err(RequestError::Refused {
            errno: Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT,
            ..
        }) => Ok(Vec::new()),
        result => result.map_err(LeftoverError::Request),
    }
}
