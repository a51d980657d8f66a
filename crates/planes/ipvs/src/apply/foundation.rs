//! What every Service needs: the interface, and of each family the sets and the rules.

use std::time::Duration;

use sluice_model::IpFamily;
use sluice_netlink::Errno;
use sluice_netlink::rtnetlink::create_dummy;
use sluice_reconcile::BackendError;
use sluice_reconcile::Delta;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::Script;

use super::written;
use crate::convert;
use crate::held::Held;
use crate::kernel::{self, Kernel};
use crate::object::{DEVICE, Key, Object};
use crate::script;
use crate::set::SetName;

/// Makes the interface, if it is in the delta.
///
/// # Errors
///
/// The kernel refused.
pub(crate) fn device(delta: &Delta<Key, Object>) -> Result<(), BackendError> {
    match written(delta).iter().any(|(key, _)| **key == Key::Device) {
        true => create_dummy(DEVICE).map(drop).map_err(kernel::asked),
        false => Ok(()),
    }
}

/// Writes the sets and the rules of a family.
///
/// # Errors
///
/// The kernel refused, or a set of this name has another type.
pub(crate) fn foundation(
    kernel: &mut Kernel,
    held: &mut Held,
    family: IpFamily,
    delta: &Delta<Key, Object>,
) -> Result<(), BackendError> {
    let mut written = written(delta);
    written.retain(|(key, _)| key.family() == Some(family));
    write(kernel, held, family, &written)
}

/// Tries what the sets and the rules of a family need: makes all sets, and lists the rules within
/// this time.
///
/// # Errors
///
/// The kernel or a program refused, in one line.
pub(crate) fn probe(
    kernel: &mut Kernel,
    family: IpFamily,
    timeout: Duration,
) -> Result<(), String> {
    let probed = kernel.programs.probe(family, &Table::ALL);
    probed.map_err(|error| error.to_string())?;
    for set in SetName::ALL {
        create_set(kernel, family, set).map_err(|error| error.to_string())?;
    }
    let programs = kernel.programs.clone().with_timeout(timeout);
    let listed = programs.save(family, &Table::ALL);
    listed.map(drop).map_err(|error| error.to_string())
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
    let programs = kernel.programs.quick();
    let restored = kernel.watch.restore(&programs, family, script);
    restored.map_err(|error| kernel::failed("write rules", error))
}
