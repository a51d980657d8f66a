//! Rules for objects in manifests alone: the API server's defaults are not in them yet, and nothing allocates or
//! fills in the fields that a cluster would.

use serde::de::DeserializeOwned;

use super::fields::{self, Fields};
use crate::convert::{Fault, Step};
use crate::kind::Kind;
use crate::kinds::{EndpointPort, EndpointSubset, Endpoints};

use Step::{Field, Index};

/// An object as people write it: [`Kind`] says what each means.
pub(super) trait Written: DeserializeOwned {
    fn fields() -> Option<&'static Fields>;

    fn set_defaults(&mut self);

    fn advice(&self) -> Vec<Fault>;
}

impl<K: Kind> Written for K {
    fn fields() -> Option<&'static Fields> {
        K::fields()
    }

    fn set_defaults(&mut self) {
        Kind::set_defaults(self);
    }

    fn advice(&self) -> Vec<Fault> {
        Kind::advice(self)
    }
}

impl Written for Endpoints {
    fn fields() -> Option<&'static Fields> {
        Some(&fields::ENDPOINTS)
    }

    /// The defaults of the slices that are made from the object.
    fn set_defaults(&mut self) {
        self.subsets
            .iter_mut()
            .for_each(|it| name_ports(&mut it.ports));
    }

    fn advice(&self) -> Vec<Fault> {
        let each = self.subsets.iter().enumerate();
        let of_subset = |(i, it): (usize, &EndpointSubset)| {
            ports_without_number(&[Field("subsets"), Index(i), Field("ports")], &it.ports)
        };
        each.flat_map(of_subset).collect()
    }
}

pub(crate) fn name_ports(ports: &mut [EndpointPort]) {
    for it in ports {
        it.name.get_or_insert_default();
    }
}

pub(crate) fn ports_without_number(path: &[Step], ports: &[EndpointPort]) -> Vec<Fault> {
    let ports = ports.iter().enumerate();
    let without = ports.filter(|(_, it)| it.port.is_none());
    let found = without.map(|(i, _)| {
        let path = [path, &[Index(i), Field("port")]].concat();
        Fault::at(
            path,
            "is missing, and a proxy ignores such a port: write its number",
        )
    });
    found.collect()
}
