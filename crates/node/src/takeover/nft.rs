//! What kube-proxy left in nf_tables: its tables, and its chains in the tables of iptables-nft.
//!
//! The chains are removed without the programs of iptables, which a container may not have: a rule
//! need not be understood to be deleted, only where it leads.

use std::collections::BTreeSet;
use std::process;

use sluice_model::IpFamily;
use sluice_netlink::nftables::{
    Batch, CommitError, Connection, Failure, Family, Jump, Policy, Scope,
};
use sluice_netlink::{Errno, RequestError};

use super::names;
use super::teardown::{self, Cleared, Link, Teardown};
use super::{Chains, Ours, Removal, TakeoverError};

/// Tables of iptables in which kube-proxy has chains.
pub(crate) const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// Where one family's tables are.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Whose.
    of: IpFamily,
    /// As the kernel knows it.
    pub(super) family: Family,
    /// As in `ip nat`.
    pub(super) word: &'static str,
}

pub(super) const PLACES: [Place; 2] = [
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

/// Removes the tables of kube-proxy's nftables mode, all of these families or none.
pub(super) fn remove_tables(families: &[IpFamily], removal: &mut Removal) {
    let result = try_remove_tables(families);
    let tables = removal.keep(result);
    let tables = tables
        .iter()
        .map(|word| format!("table {word} {}", names::TABLE));
    removal.removed.extend(tables);
}

fn try_remove_tables(families: &[IpFamily]) -> Result<Vec<&'static str>, TakeoverError> {
    let mut connection = Connection::open().map_err(TakeoverError::Connect)?;
    let mut batch = Batch::new();
    let mut removed = Vec::new();
    for Place { family, word, .. } in places(families) {
        if has_table(&mut connection, family)? {
            let table = names::TABLE;
            batch.delete_table(0, Scope { family, table });
            removed.push(word);
        }
    }
    let what = "the tables";
    let result = connection.commit(&batch);
    result.map_err(|source| TakeoverError::Commit { what, source })?;
    Ok(removed)
}

/// Whether there is a table of kube-proxy's nftables mode.
pub(super) fn has_table(
    connection: &mut Connection,
    family: Family,
) -> Result<bool, TakeoverError> {
    let tables = or_none(connection.tables(family))?;
    Ok(tables.iter().any(|it| it.name == names::TABLE))
}

/// Whether a table of iptables-nft has a chain whose name is one of these.
pub(super) fn has_chain(
    connection: &mut Connection,
    family: Family,
    table: &str,
    is_meant: fn(&str) -> bool,
) -> Result<bool, TakeoverError> {
    let chains = or_none(connection.chains(Scope { family, table }))?;
    Ok(chains.iter().any(|it| is_meant(&it.name)))
}

/// By which this process removes chains: no process has such a number (`PID_MAX_LIMIT`).
pub(crate) fn port_id() -> u32 {
    process::id() + (1 << 22)
}

/// Removes kube-proxy's chains from the tables of iptables-nft, each table in one transaction.
pub(super) fn remove_chains(ours: Ours, families: &[IpFamily], removal: &mut Removal) {
    // Another thread may be at it.
    let connection = Connection::open_at(port_id()).or_else(|_| Connection::open());
    let mut connection = match connection {
        Ok(it) => it,
        Err(error) => return removal.errors.push(TakeoverError::Connect(error)),
    };
    for Place { family, word, .. } in places(families) {
        for table in TABLES {
            let result = clear(&mut connection, Scope { family, table }, ours);
            if let Some(cleared) = removal.keep(result) {
                cleared.report(&format!("{word} {table}"), removal);
            }
        }
    }
}

/// Removes kube-proxy's chains from one table; `None` when there are none.
fn clear(
    connection: &mut Connection,
    scope: Scope<'_>,
    ours: Ours,
) -> Result<Option<Cleared<u64>>, TakeoverError> {
    // Chains that something leads to which is no rule: an element of a map.
    let mut stuck = BTreeSet::new();
    let mut attempt = 1;
    loop {
        let result = try_clear(connection, scope, ours, &mut stuck);
        let again = match &result {
            Err(TakeoverError::Request(RequestError::Interrupted { .. })) => true,
            Err(TakeoverError::Commit { source, .. }) => {
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
    ours: Ours,
    stuck: &mut BTreeSet<String>,
) -> Result<Option<Cleared<u64>>, TakeoverError> {
    let chains = or_none(connection.chains(scope))?;
    let drops = |it: &sluice_netlink::nftables::Chain| {
        let policy = it.hook.as_ref().map(|it| it.policy);
        it.name == "FORWARD" && policy == Some(Policy::Drop)
    };
    let forward_drops = chains.iter().any(drops);
    let names: Vec<String> = chains.into_iter().map(|it| it.name).collect();
    let goes = |it: &str| ours.gives_up(Chains::Nft, scope.table, it);
    if !names.iter().any(|it| goes(it)) {
        return Ok(None);
    }
    let links = connection.jumps(scope).map_err(TakeoverError::Request)?;
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
        return Err(TakeoverError::Commit { what, source });
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
fn or_none<T>(result: Result<Vec<T>, RequestError>) -> Result<Vec<T>, TakeoverError> {
    match result {
        Err(RequestError::Refused {
            errno: Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT,
            ..
        }) => Ok(Vec::new()),
        result => result.map_err(TakeoverError::Request),
    }
}
