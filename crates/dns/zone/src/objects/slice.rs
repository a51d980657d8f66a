//! The ready endpoints of a slice and their names.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{Endpoint, EndpointSlice, NamespacedName, is_label};

use super::addresses::Addressed;

/// A slice, with an index of the names of its ready endpoints.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) object: Arc<EndpointSlice>,
    /// Hash of a name, position of the endpoint. Both names of an endpoint are here when the settings choose
    /// between them.
    names: Box<[(u32, u32)]>,
}

impl Slice {
    pub(super) fn new(object: &Arc<EndpointSlice>) -> Self {
        let mut names = Vec::with_capacity(object.endpoints.len());
        for (index, ready) in positions(object) {
            for pod_names in [false, true] {
                let name = ready.name(pod_names);
                names.push((hash(name.as_bytes()), index));
            }
        }
        names.sort_unstable();
        names.dedup();
        Self {
            object: Arc::clone(object),
            names: names.into_boxed_slice(),
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        // Every ready endpoint has a name, and no other has.
        !self.names.is_empty()
    }

    /// The ready endpoints.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready<'_>> {
        positions(&self.object).map(|(_, ready)| ready)
    }

    /// The ready endpoints with this name, in any letter case.
    pub(crate) fn named(&self, name: &[u8], pod_names: bool) -> impl Iterator<Item = Ready<'_>> {
        let hash = hash(name);
        let first = self.names.partition_point(|(it, _)| *it < hash);
        let same = self.names[first..]
            .iter()
            .take_while(move |(it, _)| *it == hash);
        same.flat_map(|(_, index)| Ready::all(&self.object.endpoints[*index as usize]))
            .filter(move |it| it.name(pod_names).as_bytes().eq_ignore_ascii_case(name))
    }
}

/// A ready endpoint at one of its addresses. Each address is answered as if it were an endpoint of its own, as
/// in CoreDNS.
#[derive(Clone, Copy)]
pub(crate) struct Ready<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) address: IpAddr,
}

impl<'a> Ready<'a> {
    fn all(endpoint: &'a Endpoint) -> impl Iterator<Item = Self> {
        let addresses = endpoint.addresses();
        addresses.map(move |address| Self { endpoint, address })
    }

    /// `pod_names`: the settings prefer the name of the pod to the address.
    pub(crate) fn name(self, pod_names: bool) -> EndpointName<'a> {
        let pod = self
            .endpoint
            .target
            .as_deref()
            .filter(|it| pod_names && is_label(it));
        match self.endpoint.hostname.as_deref().or(pod) {
            Some(name) => EndpointName::Given(name),
            None => EndpointName::Address(Dashed::new(self.address)),
        }
    }
}

impl Addressed for Slice {
    fn name(&self) -> &NamespacedName {
        &self.object.name
    }

    /// Those of the ready endpoints, when the slice belongs to a Service.
    fn addresses(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        let own = positions(&self.object).filter(|_| self.object.service.is_some());
        own.map(|(position, ready)| (position, ready.address))
    }
}

fn positions(slice: &EndpointSlice) -> impl Iterator<Item = (u32, Ready<'_>)> {
    (0..)
        .zip(&slice.endpoints)
        .filter(|(_, it)| it.conditions.ready)
        .flat_map(|(position, it)| Ready::all(it).map(move |it| (position, it)))
}

/// FNV-1a of the name in lower case.
fn hash(name: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    name.iter().fold(0x811c_9dc5, step)
}

/// What an endpoint is called below its Service: its hostname, else its pod's name where the settings say so
/// and it is a label, else its address with dashes.
#[derive(Clone, Copy)]
pub(crate) enum EndpointName<'a> {
    Given(&'a str),
    Address(Dashed),
}

impl EndpointName<'_> {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Given(name) => name.as_bytes(),
            Self::Address(dashed) => &dashed.text[..dashed.length],
        }
    }
}

impl PartialEq for EndpointName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for EndpointName<'_> {}

impl Hash for EndpointName<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// An address with dashes for dots and colons.
#[derive(Clone, Copy)]
pub(crate) struct Dashed {
    /// The longest: eight groups of four digits.
    text: [u8; 40],
    length: usize,
}

impl Dashed {
    fn new(address: IpAddr) -> Self {
        let mut dashed = Self {
            text: [0; 40],
            length: 0,
        };
        write!(dashed, "{}", address.to_canonical()).expect("an address fits");
        if dashed.text[dashed.length - 1] == b'-' {
            // A host name must not end with a dash: `fd00::` is `fd00--0`.
            dashed
                .write_char('0')
                .expect("an address that ends with :: is short");
        }
        dashed
    }
}

impl Write for Dashed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            *self.text.get_mut(self.length).ok_or(std::fmt::Error)? = match byte {
                b'.' | b':' => b'-',
                other => other,
            };
            self.length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_dashes() {
        let name = |address: &str| {
            let dashed = Dashed::new(address.parse().unwrap());
            String::from_utf8(dashed.text[..dashed.length].to_vec()).unwrap()
        };
        assert_eq!(name("10.244.2.1"), "10-244-2-1");
        assert_eq!(name("fd00:10::abcd"), "fd00-10--abcd");
        assert_eq!(name("fd00::"), "fd00--0");
        assert_eq!(name("::"), "--0");
        assert_eq!(name("::1"), "--1");
        assert_eq!(name("::ffff:10.0.0.1"), "10-0-0-1");
        let longest = "1111-2222-3333-4444-5555-6666-7777-8888";
        assert_eq!(name(&longest.replace('-', ":")), longest);
    }
}
