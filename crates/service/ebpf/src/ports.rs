//! The ports that frontends have: the map PORTS.

use std::collections::BTreeMap;

use sluice_bpf_abi as abi;
use sluice_reconcile::Delta;

use crate::object::{Key, Object};

/// How many frontends have each port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports(BTreeMap<u16, u32>);

impl Ports {
    /// The ports of these objects.
    pub(crate) fn of<'a>(keys: impl Iterator<Item = &'a Key>) -> Self {
        let mut ports = Self::default();
        for port in keys.filter_map(port) {
            ports.add_one(port);
        }
        ports
    }

    /// Counts what a delta adds. Returns whether a port is new: PORTS has it before a frontend has.
    pub(crate) fn add(&mut self, delta: &Delta<Key, Object>) -> bool {
        let added = delta.add.iter().filter_map(|(key, _)| port(key));
        added.fold(false, |is_new, port| self.add_one(port) | is_new)
    }

    /// Counts what a delta deletes. Returns whether no frontend has a port any more: PORTS has it until then.
    pub(crate) fn delete(&mut self, delta: &Delta<Key, Object>) -> bool {
        let mut is_less = false;
        for port in delta.delete.iter().filter_map(port) {
            if let Some(count) = self.0.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&port);
                    is_less = true;
                }
            }
        }
        is_less
    }

    /// Puts them into a value of PORTS, and no others.
    pub(crate) fn show(&self, value: &mut abi::Ports) {
        *value = abi::Ports::default();
        self.0.keys().for_each(|port| value.insert(*port));
    }

    /// Whether the port is new.
    fn add_one(&mut self, port: u16) -> bool {
        let count = self.0.entry(port).or_default();
        *count += 1;
        *count == 1
    }
}

fn port(key: &Key) -> Option<u16> {
    match key {
        Key::Frontend(frontend) => Some(frontend.port()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::Protocol;
    use sluice_plan::Frontend;

    use super::*;

    fn key(last: u8, port: u16) -> Key {
        Key::Frontend(Frontend::Address {
            addr: [10, 96, 0, last].into(),
            port,
            protocol: Protocol::Tcp,
        })
    }

    #[test]
    fn a_port_stays_while_a_frontend_has_it() {
        let added = |key: Key| (key, Object::Present);
        let keys = [key(1, 80), key(2, 80), key(1, 443)];
        let delta = Delta {
            add: keys.clone().map(added).into(),
            ..Delta::default()
        };
        let mut ports = Ports::default();
        assert!(ports.add(&delta));
        assert_eq!(ports, Ports::of(keys.iter()));
        assert!(!ports.add(&Delta {
            add: vec![added(key(3, 443))],
            ..Delta::default()
        }));
        let without = |key: Key| Delta {
            delete: vec![key],
            ..Delta::default()
        };
        let mut value = abi::Ports::default();
        for (gone, is_less) in [
            (key(1, 80), false),
            (key(2, 80), true),
            (key(1, 443), false),
        ] {
            assert_eq!(ports.delete(&without(gone)), is_less);
        }
        ports.show(&mut value);
        let shown = (0..=u16::MAX).filter(|it| value.contains(*it));
        assert_eq!(shown.collect::<Vec<_>>(), [443]);
    }
}
