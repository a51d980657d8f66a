//! Connections of real servers, by frontend.
//!
//! A virtual server has an address; the ipsets say which frontend that is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_model::IpFamily;
use sluice_netlink::ipset::Sets;
use sluice_netlink::ipvs::{Ipvs, RealState};
use sluice_netlink::{Errno, RequestError};
use sluice_plan::Frontend;
use sluice_plane::{ConnectionCount, Counter, Counters, Load, Reading};
use sluice_reconcile::BackendError;

use crate::convert::{self, Dialled};
use crate::kernel::{self, again};
use crate::object::Triple;
use crate::set::{Entry, SetName};

/// Sockets of its own, for lists alone.
#[derive(Debug)]
pub(crate) struct RealServerCounters {
    ipvs: Ipvs,
    sets: Sets,
    families: Vec<IpFamily>,
}

impl RealServerCounters {
    pub(crate) fn open(families: &[IpFamily]) -> Result<Self, BackendError> {
        Ok(Self {
            ipvs: kernel::open_ipvs()?,
            sets: kernel::open_sets()?,
            families: families.to_vec(),
        })
    }

    fn dialled(&mut self) -> Result<DialledFrontends, BackendError> {
        let mut dialled = DialledFrontends::default();
        for family in self.families.clone() {
            for set in SetName::VIRTUAL_IPS.into_iter().chain([SetName::IpvsIps]) {
                for (entry, _) in self.members(family, set)? {
                    dialled.add_virtual_ip(&entry);
                }
            }
            for set in [SetName::NearClients, SetName::NearNodePorts] {
                for (entry, mark) in self.members(family, set)? {
                    dialled.add_mark(set, &entry, mark);
                }
            }
        }
        Ok(dialled)
    }

    fn members(
        &mut self,
        family: IpFamily,
        set: SetName,
    ) -> Result<Vec<(Entry, Option<u32>)>, BackendError> {
        let name = set.name(family);
        let members = again(|| missing_is_empty(self.sets.members(&name)))?;
        let entries = members.iter().map(|it| convert::entry(set.kind(), it));
        Ok(entries.collect())
    }
}

/// A missing set has no members: nothing was written yet, or another program destroyed it.
fn missing_is_empty<T>(listed: Result<Vec<T>, RequestError>) -> Result<Vec<T>, RequestError> {
    match listed {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(Vec::new()),
        listed => listed,
    }
}

impl Counters for RealServerCounters {
    /// The ipsets first, then one question for each virtual server. The kernel adds up every two
    /// seconds (`ip_vs_est.c`): what is newer is missing.
    fn read(&mut self) -> Result<Reading, BackendError> {
        let frontends = self.dialled()?;
        let mut listed = Vec::new();
        for found in again(|| self.ipvs.virtual_servers())? {
            let key = &found.key;
            if let Some(dialled) = convert::dialled(key) {
                listed.push((dialled, kernel::real_servers(&mut self.ipvs, key)?));
            }
        }
        Ok(reading(&listed, &frontends))
    }
}

/// Frontends by address, port and mark.
#[derive(Debug, Default)]
struct DialledFrontends {
    /// Virtual IPs, whatever the port.
    addresses: BTreeSet<IpAddr>,
    /// Virtual IPs that the node has itself, so that they are not on kube-ipvs0.
    triples: BTreeSet<Triple>,
    /// Of each mark the first address and port whose clients have it, virtual IPs before NodePorts.
    marked: BTreeMap<(IpFamily, u32), (SetName, Triple)>,
}

impl DialledFrontends {
    fn add_virtual_ip(&mut self, entry: &Entry) {
        if let Entry::Address(ip) = entry {
            self.addresses.insert(*ip);
        }
        self.triples.extend(Triple::of(entry));
    }

    fn add_mark(&mut self, set: SetName, entry: &Entry, mark: Option<u32>) {
        if let Some((triple, mark)) = Triple::of(entry).zip(mark) {
            let key = (IpFamily::of(&triple.ip), mark);
            let first = self.marked.entry(key).or_insert((set, triple));
            *first = (set, triple).min(*first);
        }
    }

    /// The frontend with this address and port. An address that is no virtual IP is the node's.
    fn frontend(&self, triple: Triple) -> Frontend {
        if self.addresses.contains(&triple.ip) || self.triples.contains(&triple) {
            virtual_ip(triple)
        } else {
            node_port(triple)
        }
    }

    /// The frontend that near clients with this mark dial.
    fn marked(&self, family: IpFamily, mark: u32) -> Option<Frontend> {
        let (set, triple) = *self.marked.get(&(family, mark))?;
        Some(match set {
            SetName::NearNodePorts => node_port(triple),
            _ => virtual_ip(triple),
        })
    }
}

fn virtual_ip(Triple { ip, port, protocol }: Triple) -> Frontend {
    Frontend::Address {
        addr: ip,
        port,
        protocol,
    }
}

fn node_port(Triple { ip, port, protocol }: Triple) -> Frontend {
    Frontend::NodePort {
        family: IpFamily::of(&ip),
        port,
        protocol,
    }
}

/// The counters of all real servers. Those of a mark count for one of the frontends whose clients
/// have the mark: all of them are of one service port.
fn reading(listed: &[(Dialled, Vec<RealState>)], frontends: &DialledFrontends) -> Reading {
    let mut counts = Vec::new();
    for (dialled, reals) in listed {
        let frontend = match *dialled {
            Dialled::Address(it) => Some(frontends.frontend(it)),
            Dialled::Mark(family, mark) => frontends.marked(family, mark),
        };
        // A mark that is in no set is of another program, or of a deleted Service.
        let Some(frontend) = frontend else { continue };
        counts.extend(reals.iter().map(|real| count(frontend, dialled, real)));
    }
    Reading {
        counts,
        is_complete: true,
    }
}

fn count(frontend: Frontend, dialled: &Dialled, real: &RealState) -> ConnectionCount {
    let endpoint = real.server.address;
    ConnectionCount {
        frontend,
        counter: match *dialled {
            Dialled::Address(Triple { ip, port, protocol }) => {
                Counter::RealServer(protocol, SocketAddr::new(ip, port), endpoint)
            }
            Dialled::Mark(_, mark) => Counter::MarkedRealServer(mark, endpoint),
        },
        endpoint,
        connections: real.connections,
        load: Some(Load {
            weight: real.server.weight,
            active: real.active.into(),
            inactive: real.inactive.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::Protocol;

    use super::*;

    type Listed = (Dialled, Vec<RealState>);

    fn server(dialled: &str, mark: u32, reals: &[(&str, u32)]) -> Listed {
        let reals: Vec<RealState> = reals.iter().map(real).collect();
        let dialled = match dialled.parse() {
            Ok(address) => Dialled::Address(of(address)),
            Err(_) => Dialled::Mark(IpFamily::of(&reals[0].server.address.ip()), mark),
        };
        (dialled, reals)
    }

    fn real((address, weight): &(&str, u32)) -> RealState {
        RealState {
            server: convert::real_server(address.parse().unwrap(), *weight),
            active: 2,
            inactive: 1,
            connections: 7,
        }
    }

    fn of(address: SocketAddr) -> Triple {
        Triple {
            ip: address.ip(),
            port: address.port(),
            protocol: Protocol::Tcp,
        }
    }

    fn entry(address: &str) -> Entry {
        of(address.parse().unwrap()).into()
    }

    /// A ClusterIP on kube-ipvs0, a load balancer address that the node has, and what near clients
    /// of the latter and of NodePort 30080 are marked with.
    fn dialled() -> DialledFrontends {
        let mut dialled = DialledFrontends::default();
        dialled.add_virtual_ip(&Entry::Address("10.96.0.10".parse().unwrap()));
        dialled.add_virtual_ip(&entry("192.168.0.2:80"));
        for (set, address, mark) in [
            (SetName::NearClients, "192.168.0.2:80", 0x5800_0001),
            (SetName::NearNodePorts, "192.168.0.1:30080", 0x5800_0001),
            (SetName::NearNodePorts, "[fd00::1]:30081", 0x5800_0001),
            // Behind a virtual IP with its numbers.
            (SetName::NearNodePorts, "192.168.0.2:80", 0x5800_0002),
        ] {
            dialled.add_mark(set, &entry(address), Some(mark));
        }
        dialled
    }

    fn frontends(server: Listed) -> Vec<String> {
        let reading = reading(&[server], &dialled());
        assert!(reading.is_complete);
        let shown = reading.counts.iter().map(|it| format!("{:?}", it.frontend));
        shown.collect()
    }

    #[track_caller]
    fn check(dialled: &str, mark: u32, real: &str, expected: &[&str]) {
        let found = frontends(server(dialled, mark, &[(real, 1)]));
        let expected: Vec<String> = expected
            .iter()
            .map(|it| match it.strip_prefix("node:") {
                Some(port) => Frontend::NodePort {
                    family: IpFamily::of(&real.parse::<SocketAddr>().unwrap().ip()),
                    port: port.parse().unwrap(),
                    protocol: Protocol::Tcp,
                },
                None => {
                    let address: SocketAddr = it.parse().unwrap();
                    Frontend::Address {
                        addr: address.ip(),
                        port: address.port(),
                        protocol: Protocol::Tcp,
                    }
                }
            })
            .map(|it| format!("{it:?}"))
            .collect();
        assert_eq!(found, expected, "{dialled} {mark:#x}");
    }

    #[test]
    fn virtual_servers_are_frontends() {
        const V4: &str = "10.244.0.5:8080";
        const V6: &str = "[fd00:244::5]:8080";
        check("10.96.0.10:80", 0, V4, &["10.96.0.10:80"]);
        check("10.96.0.10:30080", 0, V4, &["10.96.0.10:30080"]);
        check("192.168.0.2:80", 0, V4, &["192.168.0.2:80"]);
        // Every address of the node is the one NodePort.
        check("192.168.0.1:30080", 0, V4, &["node:30080"]);
        check("192.168.0.2:30080", 0, V4, &["node:30080"]);
        check("[fd00::1]:30080", 0, V6, &["node:30080"]);
        // Marks are of one family each.
        check("", 0x5800_0001, V4, &["192.168.0.2:80"]);
        check("", 0x5800_0001, V6, &["node:30081"]);
        check("", 0x5800_0002, V4, &["node:80"]);
        check("", 77, V4, &[]);
    }

    #[test]
    fn each_real_server_of_each_virtual_one_counts_by_itself() {
        let reals = [("10.244.0.5:8080", 1), ("10.244.0.6:8080", 0)];
        let listed = [
            server("10.96.0.10:80", 0, &reals),
            server("192.168.0.1:30080", 0, &reals),
            server("192.168.0.2:30080", 0, &reals),
            server("", 0x5800_0001, &reals),
        ];
        let reading = reading(&listed, &dialled());
        let counters: std::collections::HashSet<_> =
            reading.counts.iter().map(|it| it.counter).collect();
        assert_eq!((reading.counts.len(), counters.len()), (8, 8));
        let second = reading.counts[1];
        let expected = Load {
            weight: 0,
            active: 2,
            inactive: 1,
        };
        assert_eq!((second.load, second.connections), (Some(expected), 7));
    }
}
