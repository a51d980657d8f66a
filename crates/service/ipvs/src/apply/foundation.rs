//! Objects that every Service needs: the interface, and the sets and rules of each family.

use std::time::Duration;

use sluice_model::IpFamily;
use sluice_netlink::Errno;
use sluice_reconcile::BackendError;
use sluice_reconcile::Delta;
use sluice_route::{Connection, Kind, Settings};
use sluice_xtables::rule::Table;
use sluice_xtables::script::Script;

use super::written;
use crate::convert;
use crate::kernel::{self, Kernel};
use crate::object::{DEVICE, Key, Object};
use crate::script;
use crate::set::SetName;
use crate::state::State;

/// Creates the interface, if the delta has it.
///
/// # Errors
///
/// The kernel refused.
pub(crate) fn device(delta: &Delta<Key, Object>) -> Result<(), BackendError> {
    if written(delta).any(|(key, _)| *key == Key::Device) {
        let made = Connection::open()
            .and_then(|mut it| it.ensure(DEVICE, &Kind::Dummy, &Settings::default()));
        made.map(drop).map_err(kernel::asked)
    } else {
        Ok(())
    }
}

/// Writes the sets and the rules of a family.
///
/// # Errors
///
/// The kernel refused, or a set of this name has another type.
pub(crate) fn foundation(
    kernel: &mut Kernel,
    state: &mut State,
    family: IpFamily,
    delta: &Delta<Key, Object>,
) -> Result<(), BackendError> {
    let mut written: Vec<(&Key, &Object)> = written(delta).collect();
    written.retain(|(key, _)| key.family() == Some(family));
    for (key, _) in &written {
        if let Key::Set(_, set) = key {
            create_set(kernel, family, *set)?;
        }
    }
    let rules =
        Script::new(|lines| script::write(lines, family, written.iter().copied(), &state.jumps));
    if rules.is_empty() {
        return Ok(());
    }
    // The number of rules does not depend on that of Services, and no Service is written while a
    // program hangs.
    let programs = kernel.programs.quick();
    let restored = kernel.watch.restore(&programs, family, &rules);
    restored.map_err(|error| BackendError::new("write rules", error))?;
    drop(rules);
    for (key, object) in written {
        if let Object::Jump(rule) = object {
            state.jumps.insert(key.clone(), vec![rule.clone()]);
        }
    }
    Ok(())
}

/// Tries what the sets and the rules of a family need: makes all sets, and lists the rules.
/// `timeout` is that of the listing.
///
/// # Errors
///
/// The kernel or a program refused.
pub(crate) fn probe(
    kernel: &mut Kernel,
    family: IpFamily,
    timeout: Duration,
) -> Result<(), BackendError> {
    let probed = kernel.programs.probe_again(family, &Table::ALL);
    probed.map_err(|error| BackendError::new("ask for iptables", error))?;
    for set in SetName::ALL {
        create_set(kernel, family, set)?;
    }
    let programs = kernel.programs.clone().with_timeout(timeout);
    let listed = programs.save(family, &Table::ALL).map(drop);
    listed.map_err(|error| BackendError::new("list rules", error))
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
    // The kernel does not destroy a set that a rule mentions.
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
