//! What every Service needs: the interface, and of each family the sets and the rules.

use sluice_model::IpFamily;
use sluice_netlink::Errno;
use sluice_netlink::rtnetlink::create_dummy;
use sluice_reconcile::BackendError;
use sluice_reconcile::Delta;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::Script;

use super::{pairs, written};
use crate::convert;
use crate::family::{Loss, Undone};
use crate::held::Held;
use crate::kernel::{self, Kernel};
use crate::object::{DEVICE, Key, Object};
use crate::script;
use crate::set::SetName;

/// Writes what these families need. Returns the one that cannot be given all of it.
///
/// # Errors
///
/// There is no interface, or no family could be given what it needs.
pub(crate) fn foundations(
    kernel: &mut Kernel,
    held: &mut Held,
    delta: &Delta<Key, Object>,
    families: &[IpFamily],
) -> Result<Option<Loss>, BackendError> {
    let written = written(delta);
    if written.iter().any(|(key, _)| **key == Key::Device) {
        create_dummy(DEVICE).map_err(kernel::asked)?;
    }
    let mut losses = Vec::new();
    for family in families {
        let of_family = |key: &Key| key.family() == Some(*family);
        let written: Vec<_> = written
            .iter()
            .copied()
            .filter(|it| of_family(it.0))
            .collect();
        if let Err(error) = write(kernel, held, *family, &written) {
            let harmless = written.iter().filter(|(key, _)| is_harmless(key));
            let missing = harmless.map(|(key, it)| ((*key).clone(), (*it).clone()));
            losses.push(Loss {
                family: *family,
                reason: error.to_string(),
                undone: Undone::Write(missing.collect()),
            });
        }
    }
    if losses.len() == families.len() && !losses.is_empty() {
        let reasons = losses
            .iter()
            .map(|it| format!("{}: {}", it.family, it.reason));
        return Err(BackendError {
            operation: "write ipsets and rules".into(),
            reason: reasons.collect::<Vec<_>>().join("; "),
            source: None,
        });
    }
    Ok(losses.pop())
}

/// Tries again what could not be written.
///
/// # Errors
///
/// It still cannot.
pub(crate) fn try_foundation(
    kernel: &mut Kernel,
    held: &mut Held,
    family: IpFamily,
    missing: &[(Key, Object)],
) -> Result<(), BackendError> {
    let missing: Vec<_> = pairs(missing).collect();
    write(kernel, held, family, &missing)
}

/// Whether it may be written again and again: rules in built-in chains would become ever more.
fn is_harmless(key: &Key) -> bool {
    matches!(key, Key::Set(..) | Key::Chain(..))
}

fn write(
    kernel: &mut Kernel,
    held: &mut Held,
    family: IpFamily,
    written: &[(&Key, &Object)],
) -> Result<(), BackendError> {
    for (key, _) in written {
        if let Key::Set(_, set) = key {
            create_set(kernel, family, *set)?;
        }
    }
    let keys = written.iter().map(|(key, _)| key);
    let gone: Vec<_> = keys.flat_map(|key| unlinked(held, key)).collect();
    let rules = Script::new(|lines| {
        for (table, from, rule) in &gone {
            lines.table(*table);
            lines.delete(from, rule);
        }
        script::write(lines, family, written.iter().copied());
    });
    restore(kernel, family, &rules)?;
    for (key, object) in written {
        if let Object::Jump(rule) = object {
            held.jumps.insert((*key).clone(), vec![rule.clone()]);
        }
    }
    Ok(())
}

fn create_set(kernel: &mut Kernel, family: IpFamily, set: SetName) -> Result<(), BackendError> {
    let (name, wanted) = (set.name(family), convert::set(family, set));
    let error = match kernel.sets.create(&name, &wanted) {
        Err(error) if error.errno() == Some(Errno::EEXIST) => error,
        result => return result.map_err(kernel::asked),
    };
    let found = kernel::again(|| kernel.sets.header(&name))?;
    let (references, found) = found.map_or((0, None), |it| (it.references, it.set));
    if found.is_some_and(|it| it.is_like(&wanted)) {
        return Ok(());
    }
    // The kernel does not let go of a set that is mentioned.
    let what = match references {
        0 => "it",
        _ => "the rules that mention it, then the set",
    };
    Err(BackendError {
        operation: format!("use ipset {name}"),
        reason: format!(
            "it is not a {}: remove {what} with `ipset destroy {name}`",
            set.kind().as_str()
        ),
        source: Some(Box::new(error)),
    })
}

/// The rules that lead from one chain to another, in whose place one is written.
fn unlinked(held: &mut Held, key: &Key) -> Vec<(Table, ChainName, Rule)> {
    match key {
        Key::Jump(_, table, from, _) => {
            let rules = held.jumps.remove(key).into_iter().flatten();
            rules.map(|it| (*table, *from, it)).collect()
        }
        _ => Vec::new(),
    }
}

fn restore(kernel: &mut Kernel, family: IpFamily, script: &Script<'_>) -> Result<(), BackendError> {
    if script.is_empty() {
        return Ok(());
    }
    // As few rules for any number of Services; nobody is served while a program hangs.
    let programs = kernel.programs.hurried();
    let restored = kernel.watch.restore(&programs, family, script);
    restored.map_err(|error| kernel::failed("write rules", error))
}
