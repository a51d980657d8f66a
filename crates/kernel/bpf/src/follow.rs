//! Follows the machine's interfaces: attaches programs to new ones, and tells the programs about all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use sluice_bpf_abi::{Addr, Interface, interface_flags, node_flags};
use sluice_netlink::Stopper;
use sluice_route::{Address, Link, Monitor, Wake};
use tracing::warn;

use crate::BpfError;
use crate::attach::Attacher;
use crate::maps::Maps;
use crate::patterns::Patterns;

/// Name of the loopback interface, whose packets are those of the node to itself.
const LOOPBACK: &str = "lo";

/// A thread that follows the interfaces until the value is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

struct Machine {
    attacher: Arc<Mutex<Attacher>>,
    maps: Maps,
    known: BTreeMap<u32, Interface>,
    interfaces: Patterns,
    pods: Patterns,
}

impl Follower {
    /// Attaches the programs to the interfaces that are there, and follows the calling thread's network
    /// namespace from now on.
    pub(crate) fn start(
        attacher: Arc<Mutex<Attacher>>,
        maps: Maps,
        (interfaces, pods): (Patterns, Patterns),
    ) -> Result<Self, BpfError> {
        let mut monitor = Monitor::open().map_err(|error| failed("watch interfaces", error))?;
        let known = maps.interfaces.entries()?.into_iter().collect();
        let mut machine = Machine {
            attacher,
            maps,
            known,
            interfaces,
            pods,
        };
        machine.look()?;
        machine.forget_others()?;
        let stopper = monitor.stopper();
        let run = move || {
            while let Ok(Wake::Changed) = monitor.wait(None) {
                if let Err(error) = machine.look() {
                    warn!(%error, "interfaces are not followed until the next change");
                }
            }
        };
        let thread = thread::Builder::new()
            .name("interfaces".to_owned())
            .spawn(run);
        let thread = thread.map_err(|error| failed("start a thread", error))?;
        Ok(Self {
            stopper,
            thread: Some(thread),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Machine {
    fn look(&mut self) -> Result<(), BpfError> {
        let links = sluice_route::links().map_err(|error| failed("list interfaces", error))?;
        let addresses =
            sluice_route::addresses().map_err(|error| failed("list addresses", error))?;
        let links: BTreeMap<u32, Link> = links.into_iter().map(|it| (it.index, it)).collect();
        if links.values().any(|it| !it.has_ethernet) {
            self.maps
                .change_node(|it| it.flags |= node_flags::LAYER_3)?;
        }
        let attacher = Arc::clone(&self.attacher);
        let mut attacher = attacher.lock().unwrap_or_else(PoisonError::into_inner);
        // Before packets come, and again when it is known which packets are seen.
        self.describe(&links, &addresses, &attacher)?;
        let wanted = links.iter().filter(|(_, it)| self.wants(it));
        let wanted = wanted.map(|(index, it)| (*index, it.clone())).collect();
        attacher.follow(&wanted);
        self.describe(&links, &addresses, &attacher)
    }

    fn wants(&self, link: &Link) -> bool {
        link.name == LOOPBACK || self.interfaces.match_name(&link.name)
    }

    /// An earlier agent may have had other patterns.
    fn forget_others(&self) -> Result<(), BpfError> {
        let links = sluice_route::links().map_err(|error| failed("list interfaces", error))?;
        let attacher = self.attacher.lock().unwrap_or_else(PoisonError::into_inner);
        attacher.forget(links.iter().filter(|it| !self.wants(it)));
        Ok(())
    }

    /// Writes what changed into INTERFACES.
    fn describe(
        &mut self,
        links: &BTreeMap<u32, Link>,
        addresses: &[Address],
        attacher: &Attacher,
    ) -> Result<(), BpfError> {
        let mut gone: BTreeSet<u32> = self.known.keys().copied().collect();
        for link in links.values() {
            gone.remove(&link.index);
            let described = Interface {
                v4: masquerading(link.index, addresses, IpAddr::is_ipv4),
                v6: masquerading(link.index, addresses, IpAddr::is_ipv6),
                flags: self.flags(link, links, attacher),
                mtu: link.mtu,
            };
            if self.known.get(&link.index) != Some(&described) {
                self.maps.interfaces.insert(&link.index, &described)?;
                self.known.insert(link.index, described);
            }
        }
        for index in gone {
            self.maps.interfaces.remove(&index)?;
            self.known.remove(&index);
        }
        Ok(())
    }

    fn flags(&self, link: &Link, links: &BTreeMap<u32, Link>, attacher: &Attacher) -> u32 {
        let master = link.master.and_then(|it| links.get(&it));
        let mut names = [Some(link), master].into_iter().flatten();
        let mut flags = 0;
        if names.any(|it| self.pods.match_name(&it.name)) {
            flags |= interface_flags::POD;
        }
        if !link.has_ethernet {
            flags |= interface_flags::LAYER_3;
        }
        if attacher.has(link) {
            flags |= interface_flags::SEEN;
        }
        flags
    }
}

/// The first address of an interface that others can answer to; unspecified for none.
fn masquerading(index: u32, addresses: &[Address], family: fn(&IpAddr) -> bool) -> Addr {
    let answered = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let usable = |it: &&Address| it.interface == index && it.is_usable && !it.is_deprecated;
    let mut own = addresses.iter().filter(usable).map(|it| it.ip);
    let found = own.find(|ip| family(ip) && answered(ip));
    found.map_or(Addr::ANY_V6, Addr::from)
}

fn failed(
    operation: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> BpfError {
    BpfError::Machine {
        operation,
        source: error.into(),
    }
}
