//! What the virtual servers and ipsets of kube-proxy's names do with one packet, whether Sluice or a
//! kube-proxy wrote them. One virtual server is read with its real servers; of the ipsets, single members.

use std::net::SocketAddr;

use sluice_netlink::ipset::Sets;
use sluice_netlink::ipvs::{Flags, Ipvs, Key, RealState, Virtual};
use sluice_plan::explain::{Decision, Explanation};
use sluice_plan::lookup::Client;
use sluice_plane::Live;
use sluice_plane::live::{End, Evidence, Findings, Question};
use sluice_reconcile::BackendError;

use crate::convert;
use crate::kernel::{again, asked, open_sets, real_servers};
use crate::object::{DEVICE, Server, Triple};
use crate::set::{Entry, SetKind, SetName};

/// Compares the kernel's decision about the packet of an explanation with the plan's.
///
/// # Errors
///
/// The kernel cannot be read.
pub(crate) fn live(explanation: &Explanation) -> Result<Live, BackendError> {
    let question = Question::of(explanation)?;
    let mut findings = Findings::default();
    match Ipvs::open().map_err(asked)? {
        Some(ipvs) => {
            let reading = Reading {
                explanation,
                question: &question,
                ipvs,
                sets: open_sets()?,
                findings: &mut findings,
            };
            let end = reading.decide()?;
            findings.ends.extend(end);
        }
        None => {
            let wrong = "the kernel has no IPVS: its module ip_vs is not loaded";
            findings.wrong.push(wrong.into());
            findings.ends.insert(End::Past);
        }
    }
    Live::of(explanation, &question, findings)
}

struct Reading<'a> {
    explanation: &'a Explanation,
    question: &'a Question,
    ipvs: Ipvs,
    sets: Sets,
    findings: &'a mut Findings,
}

impl Reading<'_> {
    /// What happens to the packet; `None` when it goes to the endpoints that were added.
    fn decide(mut self) -> Result<Option<End>, BackendError> {
        let packet = &self.question.packet;
        let triple = Triple {
            ip: packet.destination,
            port: packet.port,
            protocol: packet.protocol,
        };
        if self.is_refused_by_source(triple)? || self.has_no_local_endpoint(triple)? {
            return Ok(Some(End::Drop));
        }
        let Some(server) = self.virtual_server(triple)? else {
            return self.without_server(triple).map(Some);
        };
        self.check_frontend(triple)?;
        let name = Entry::from(triple);
        self.show("virtual server", described(&name, &server));
        let reals = real_servers(&mut self.ipvs, &server.key)?;
        let serves = reals.iter().any(|it| it.server.weight > 0);
        for real in &reals {
            self.show(format!("real server of {name}"), state(real));
            let address = real.server.address;
            // An endpoint may ask for weight 0, which the explanation does not tell. Others drain.
            if real.server.weight > 0 || (serves && self.is_planned(address)) {
                self.findings.ends.insert(End::Translated(address));
            }
        }
        // Without a real server, the kernel refuses the connection.
        Ok((!serves).then_some(End::Reject))
    }

    /// Whether the plan sends this client to an endpoint.
    fn is_planned(&self, endpoint: SocketAddr) -> bool {
        let service = self.explanation.service.iter();
        let mut members = service.flat_map(|it| &it.endpoints);
        members.any(|it| it.included && it.address == endpoint)
    }

    /// Whether source ranges keep the client out.
    fn is_refused_by_source(&mut self, triple: Triple) -> Result<bool, BackendError> {
        let Triple { ip, port, protocol } = triple;
        if !self.has(SetName::LoadBalancerFw, &triple.into())? {
            return Ok(false);
        }
        let source = self.question.packet.source;
        let single = Entry::AddressPortAddress(ip, protocol, port, source);
        let within = Entry::AddressPortNet(ip, protocol, port, source.into());
        Ok(!self.has(SetName::LoadBalancerSourceIp, &single)?
            && !self.has(SetName::LoadBalancerSourceCidr, &within)?)
    }

    /// Whether a Local policy drops the packet.
    fn has_no_local_endpoint(&mut self, triple: Triple) -> Result<bool, BackendError> {
        let far = [SetName::NoLocalEndpointFar, SetName::NoLocalNodePortFar];
        let mut sets = vec![SetName::NoLocalEndpoint];
        sets.extend(far.iter().filter(|_| !self.is_near()));
        for set in sets {
            if self.has(set, &triple.into())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the client is this node or one of its pods.
    fn is_near(&self) -> bool {
        let service = self.explanation.service.as_ref();
        service.is_some_and(|it| matches!(it.client, Client::Node | Client::LocalPod))
    }

    /// The virtual server of near clients by its mark, else that of the address.
    fn virtual_server(&mut self, triple: Triple) -> Result<Option<Virtual>, BackendError> {
        if self.is_near() {
            for set in [SetName::NearClients, SetName::NearNodePorts] {
                if let Some(mark) = self.mark(set, triple)? {
                    let family = convert::family(self.question.family());
                    let key = Key::Mark { family, mark };
                    return self.ipvs.virtual_server(&key).map_err(asked);
                }
            }
        }
        let key = convert::key(&Server::Address(triple));
        self.ipvs.virtual_server(&key).map_err(asked)
    }

    /// The mark of near clients of a frontend.
    fn mark(&mut self, set: SetName, triple: Triple) -> Result<Option<u32>, BackendError> {
        if !self.has(set, &triple.into())? {
            return Ok(None);
        }
        let name = set.name(self.question.family());
        let members = again(|| self.sets.members(&name))?;
        let entries = members.iter().map(|it| convert::entry(set.kind(), it));
        let mut entries = entries.filter(|(entry, _)| *entry == triple.into());
        Ok(entries.find_map(|(_, mark)| mark))
    }

    /// The end of a packet that no virtual server takes.
    fn without_server(&mut self, triple: Triple) -> Result<End, BackendError> {
        let missing = format!("there is no virtual server {}", Entry::from(triple));
        self.findings.missing.push(missing);
        // ServiceCIDRs are in a rule, which is not read.
        let in_cidr =
            self.explanation.service.is_none() && self.explanation.verdict == Decision::Drop;
        if self.has(SetName::IpvsIps, &Entry::Address(triple.ip))? {
            if self.explanation.verdict != Decision::NotService && !in_cidr {
                return Ok(End::Reject);
            }
            // A virtual IP is an address of this machine in this mode, which the plan does not know: an external one, perhaps
            // inside a ServiceCIDR.
            let text = "refuses the other ports of every virtual IP";
            self.show("ipvs mode", text);
        }
        Ok(if in_cidr { End::Drop } else { End::Past })
    }

    /// Notes a virtual server whose packets do not come to it.
    fn check_frontend(&mut self, triple: Triple) -> Result<(), BackendError> {
        let name = Entry::from(triple);
        if !self.question.is_ours(triple.ip) {
            let wrong = format!(
                "{} is not an address of {DEVICE} or another interface: IPVS does not see its packets",
                triple.ip
            );
            self.findings.wrong.push(wrong);
        }
        let [node_ports, _] = SetName::node_ports(triple.protocol);
        let mut is_known = false;
        for set in SetName::VIRTUAL_IPS.into_iter().chain([node_ports]) {
            let entry = match set.kind() {
                SetKind::Port => Entry::Port(triple.port),
                _ => name.clone(),
            };
            is_known |= self.has(set, &entry)?;
        }
        if !is_known {
            let wrong = format!("no ipset of frontends has {name}: rules refuse its packets");
            self.findings.wrong.push(wrong);
        }
        Ok(())
    }

    /// Whether an ipset has a member, which is then evidence.
    fn has(&mut self, set: SetName, entry: &Entry) -> Result<bool, BackendError> {
        let name = set.name(self.question.family());
        let member = convert::member(entry, None);
        let found = self.sets.has(&name, &member).map_err(asked)?;
        if found {
            self.show(format!("member of ipset {name}"), entry.to_string());
        }
        Ok(found)
    }

    fn show(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.findings.evidence.push(Evidence::new(what, text));
    }
}

fn described(name: &Entry, server: &Virtual) -> String {
    let mut text = format!("{name}, scheduler {}", server.scheduler);
    if let Key::Mark { mark, .. } = server.key {
        text += &format!(", of near clients by mark {mark:#x}");
    }
    if server.flags.contains(Flags::PERSISTENT) {
        text += &format!(", a client stays for {} s", server.timeout);
    }
    text
}

fn state(real: &RealState) -> String {
    format!(
        "{} weight {}: {} active, {} inactive, {} connections so far",
        real.server.address, real.server.weight, real.active, real.inactive, real.connections
    )
}
