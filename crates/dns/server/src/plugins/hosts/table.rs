//! The entries of a hosts file, by name and by address.

use std::collections::HashMap;
use std::net::IpAddr;

use hickory_proto::rr::Name;
use sluice_corefile::HostsEntry;

/// Entries. Names are in lower case and fully qualified.
#[derive(Debug, Default)]
pub(super) struct Table {
    addresses: HashMap<Name, Vec<IpAddr>>,
    names: HashMap<IpAddr, Vec<Name>>,
}

impl Table {
    /// The entries below these zones.
    pub(super) fn of(entries: &[HostsEntry], zones: &[Name]) -> Self {
        let mut table = Self::default();
        for entry in entries {
            for name in &entry.names {
                table.add(entry.address, name.clone(), zones);
            }
        }
        table
    }

    /// The lines of a file like /etc/hosts: an address, then names; `#` begins a comment. Other lines are
    /// left out, as the C library does.
    pub(super) fn parse(text: &str, zones: &[Name]) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut fields = line.split_whitespace();
            let address = fields.next().and_then(|it| {
                // The interface of a link-local address.
                let address = it.split('%').next().unwrap_or(it);
                address.parse::<IpAddr>().ok()
            });
            let Some(address) = address else { continue };
            for name in fields.filter_map(|it| Name::from_ascii(it).ok()) {
                let mut name = name.to_lowercase();
                name.set_fqdn(true);
                table.add(address, name, zones);
            }
        }
        table
    }

    fn add(&mut self, address: IpAddr, name: Name, zones: &[Name]) {
        if !zones.iter().any(|it| it.zone_of(&name)) {
            return;
        }
        self.names.entry(address).or_default().push(name.clone());
        self.addresses.entry(name).or_default().push(address);
    }

    /// The addresses of a name in lower case.
    pub(super) fn addresses(&self, name: &Name) -> &[IpAddr] {
        self.addresses.get(name).map_or(&[], |it| it)
    }

    pub(super) fn names(&self, address: IpAddr) -> &[Name] {
        self.names.get(&address).map_or(&[], |it| it)
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }
}
