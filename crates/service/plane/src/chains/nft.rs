//! Chains in the tables of iptables-nft.
//!
//! They are removed without the programs of iptables, which a container may not have: to delete a rule we
//! need its jumps alone.

use std::collections::BTreeSet;

use sluice_model::IpFamily;
use sluice_netlink::{Errno, RequestError};
use sluice_nft::{
    Action, Batch, CommitError, Connection, Failure, Family, Kernel as _, NumberedRule, Policy,
    Purpose, Scope,
};

use sluice_xtables::programs::Variant;
use sluice_xtables::rule::Table;

use super::teardown::{self, Cleared, Link, Teardown};
use super::{TABLES, goes, is_services};
use crate::kube_proxy::SERVICES;
use crate::{Keep, LeftoverError, Looks, Removal, Request};

/// How often a table is read while another program changes it.
const ATTEMPTS: usize = 5;

/// A chain of the nft variant that shows that a kube-proxy works.
pub(super) fn sign_of_kube_proxy(keep: &Keep, looks: &mut Looks) -> Option<String> {
    let is_foreign = is_services(keep, Variant::Nft);
    let found = tables_with(&[Table::Nat], is_foreign, looks);
    let table = found.first()?;
    Some(format!("chain {SERVICES} of table {table}"))
}

/// The tables with a chain whose name is meant; none also when the kernel cannot be asked.
pub(super) fn tables_with(
    tables: &[Table],
    is_meant: impl Fn(&str) -> bool,
    looks: &mut Looks,
) -> Vec<String> {
    let Some(connection) = looks.nft() else {
        return Vec::new();
    };
    let mut has_chain = |family, table: &Table| {
        let chains = or_none(connection.chains(scope(family, *table)));
        chains.is_ok_and(|it| it.iter().any(|it| is_meant(&it.name)))
    };
    let families = IpFamily::ALL.into_iter();
    let all = families.flat_map(|family| tables.iter().map(move |table| (family, table)));
    let found = all.filter(|(family, table)| has_chain(*family, table));
    found
        .map(|(family, table)| format!("{} {table}", family.nft_name()))
        .collect()
}

fn scope(family: IpFamily, table: Table) -> Scope<'static> {
    let family = match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    };
    let table = table.as_str();
    Scope { family, table }
}

/// Removes chains from the tables of iptables-nft, each table in one transaction.
pub(super) fn remove(request: &Request<'_>, removal: &mut Removal) {
    let mut connection = match Purpose::Leftovers.connect() {
        Ok(it) => it,
        Err(error) => return removal.errors.push(LeftoverError::Connect(error)),
    };
    for &family in request.families {
        for table in TABLES {
            let result = clear(&mut connection, family, table, request);
            if let Some(cleared) = removal.take(result) {
                cleared.report(&format!("{} {table}", family.nft_name()), removal);
            }
        }
    }
}

/// Removes kube-proxy's chains from one table; `None` when there are none.
fn clear(
    connection: &mut Connection,
    family: IpFamily,
    table: Table,
    request: &Request<'_>,
) -> Result<Option<Cleared<u64>>, LeftoverError> {
    let scope = scope(family, table);
    let goes = |it: &str| goes(request, Variant::Nft, table, it);
    // Chains to which an element of a map jumps, not a rule.
    let mut stuck = BTreeSet::new();
    let mut attempt = 1;
    loop {
        let result = try_clear(connection, scope, &goes, &mut stuck);
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
    goes: &dyn Fn(&str) -> bool,
    stuck: &mut BTreeSet<String>,
) -> Result<Option<Cleared<u64>>, LeftoverError> {
    let chains = or_none(connection.chains(scope))?;
    let drops = |it: &sluice_nft::Chain| {
        let policy = it.hook.as_ref().map(|it| it.policy);
        it.name == "FORWARD" && policy == Some(Policy::Drop)
    };
    let forward_drops = chains.iter().any(drops);
    let names: Vec<String> = chains.into_iter().map(|it| it.name).collect();
    if !names.iter().any(|it| goes(it)) {
        return Ok(None);
    }
    let rules = connection.numbered_rules(scope.family.into(), scope.table, None);
    let rules = rules.map_err(LeftoverError::Request)?.into_iter();
    let link = |it: NumberedRule| match it.action? {
        Action::Continue(target) => Some(Link {
            chain: it.chain,
            target,
            rule: it.handle,
        }),
        Action::Drop | Action::Reject => None,
    };
    let links = rules.filter_map(link).collect();
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

/// The chain that the kernel did not delete because an object jumps to it.
fn busy(failure: &Failure, deleted: &[String]) -> Option<String> {
    let [tag] = failure.tags.as_slice() else {
        return None;
    };
    let index = usize::try_from(*tag).ok()?.checked_sub(1)?;
    let is_busy = failure.errno == Errno::EBUSY;
    deleted.get(index).filter(|_| is_busy).cloned()
}

/// No objects, if the kernel has no nf_tables: it answers with `EINVAL` (`nfnetlink_rcv_msg`).
fn or_none<T>(result: Result<Vec<T>, RequestError>) -> Result<Vec<T>, LeftoverError> {
    match result {
        Err(RequestError::Refused {
            errno: Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT,
            ..
        }) => Ok(Vec::new()),
        result => result.map_err(LeftoverError::Request),
    }
}
