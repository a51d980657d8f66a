//! Who has an address.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_model::{NamespacedName, Pod, Service};

use super::cluster_ips;

/// Objects by address, and by name where several have one address. A position tells apart the places of one
/// object.
///
/// Ordered sets and not hash tables: they grow without a pause to move everything, and the owners of an
/// address come in an order that no event decides. The families are apart because an IPv4 address leaves the
/// entry at half the size.
#[derive(Debug)]
pub(super) struct Addresses<T> {
    v4: BTreeSet<(Ipv4Addr, Option<ByName<T>>, u32)>,
    v6: BTreeSet<(Ipv6Addr, Option<ByName<T>>, u32)>,
}

impl<T> Default for Addresses<T> {
    fn default() -> Self {
        Self {
            v4: BTreeSet::new(),
            v6: BTreeSet::new(),
        }
    }
}

impl<T: Addressed> Addresses<T> {
    /// The new version of an object takes the place of the old one.
    pub(super) fn replace(&mut self, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        let by_name = |owner: &Arc<T>| Some(ByName(Arc::clone(owner)));
        if let Some(owner) = old {
            for (position, address) in owner.addresses() {
                match address.to_canonical() {
                    IpAddr::V4(it) => self.v4.remove(&(it, by_name(owner), position)),
                    IpAddr::V6(it) => self.v6.remove(&(it, by_name(owner), position)),
                };
            }
        }
        if let Some(owner) = new {
            for (position, address) in owner.addresses() {
                match address.to_canonical() {
                    IpAddr::V4(it) => self.v4.insert((it, by_name(owner), position)),
                    IpAddr::V6(it) => self.v6.insert((it, by_name(owner), position)),
                };
            }
        }
    }

    pub(super) fn owners(&self, address: IpAddr) -> impl Iterator<Item = (&T, usize)> {
        let (v4, v6) = match address.to_canonical() {
            IpAddr::V4(it) => (Some(owners(&self.v4, it)), None),
            IpAddr::V6(it) => (None, Some(owners(&self.v6, it))),
        };
        v4.into_iter().flatten().chain(v6.into_iter().flatten())
    }
}

/// `None` as owner comes before every owner: the place where those of an address begin.
fn owners<A: Ord + Copy, T: Addressed>(
    set: &BTreeSet<(A, Option<ByName<T>>, u32)>,
    address: A,
) -> impl Iterator<Item = (&T, usize)> {
    set.range((address, None, 0)..)
        .take_while(move |(at, ..)| *at == address)
        .filter_map(|(_, owner, position)| Some((&*owner.as_ref()?.0, *position as usize)))
}

/// An object that has addresses.
pub(super) trait Addressed {
    fn name(&self) -> &NamespacedName;

    /// The addresses, each with its position.
    fn addresses(&self) -> impl Iterator<Item = (u32, IpAddr)>;
}

impl Addressed for Service {
    fn name(&self) -> &NamespacedName {
        &self.name
    }

    fn addresses(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        (0..).zip(cluster_ips(self).iter().copied())
    }
}

impl Addressed for Pod {
    fn name(&self) -> &NamespacedName {
        &self.name
    }

    fn addresses(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        (0..).zip(self.addresses.iter().copied())
    }
}

/// An object that its name stands for.
#[derive(Debug)]
struct ByName<T>(Arc<T>);

impl<T: Addressed> Ord for ByName<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name().cmp(other.0.name())
    }
}

impl<T: Addressed> PartialOrd for ByName<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Addressed> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Addressed> Eq for ByName<T> {}
