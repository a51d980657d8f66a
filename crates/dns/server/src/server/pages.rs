//! The HTTP servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::http::{self, Page, State};
use crate::listen::{self, ListenError};
use crate::udp::Sharing;

/// One page at one address.
pub(super) type PageAt = (SocketAddr, Page);

/// Served until it is dropped.
struct Served {
    address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All pages, by the address that the Corefile asks for.
#[derive(Default)]
pub(super) struct Pages(BTreeMap<PageAt, Served>);

impl Pages {
    /// Binds and serves the pages that are not served yet.
    pub(super) fn bind(
        &self,
        wanted: &BTreeSet<PageAt>,
        state: &Arc<State>,
    ) -> Result<Self, ListenError> {
        let mut new = BTreeMap::new();
        for at in wanted.iter().filter(|it| !self.0.contains_key(it)) {
            let (address, page) = *at;
            let error = |source| ListenError::Bind {
                address,
                protocol: page.plugin(),
                source,
            };
            let listener = listen::tcp(address, Sharing::Exclusive).map_err(error)?;
            let address = listener.local_addr().map_err(error)?;
            let serving = http::serve(listener, page, state.clone());
            let task = state.common.runtime.spawn(serving).abort_handle();
            new.insert(*at, Served { address, task });
        }
        Ok(Self(new))
    }

    /// Adds new pages, ends those that are no longer wanted.
    pub(super) fn replace(&mut self, mut new: Self, wanted: &BTreeSet<PageAt>) {
        self.0.retain(|it, _| wanted.contains(it));
        self.0.append(&mut new.0);
    }

    /// Plugin and address of each page.
    pub(super) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = self.0.iter();
        all.map(|((_, page), it)| (page.plugin(), it.address))
            .collect()
    }

    /// Where to connect to for a page.
    pub(super) fn of(&self, page: Page) -> Vec<SocketAddr> {
        let all = self.0.iter().filter(|((_, it), _)| *it == page);
        all.map(|(_, it)| reachable(it.address)).collect()
    }
}

/// Loopback for an address that means all.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
