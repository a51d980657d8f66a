//! Rules as the kernel's instructions, in the form that nft itself would send, so that any nft can print
//! them.

use std::fmt::Display;
use std::net::SocketAddr;

use ipnet::IpNet;
use sluice_netlink::{Family, octets};

use crate::expr::{CmpOp, CtKey, Expr, FibAddress, MetaKey, PayloadBase};
use crate::register::Register;
use crate::rule::{Action, Field, Match, Rule, Sense, Side};
use crate::value::Verdict;

/// `IPS_DST_NAT`.
const CT_STATUS_DNAT: u32 = 0x20;
/// `RTN_LOCAL`.
const ADDRESS_LOCAL: u32 = 2;
/// `IFNAMSIZ`.
const INTERFACE_NAME_LEN: usize = 16;
/// Length of a port in bytes.
const PORT_LEN: u32 = 2;
/// Place of the flags in the TCP header (RFC 9293).
const TCP_FLAGS_OFFSET: u32 = 13;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;

const FIRST: Register = Register::word(0);

impl<S: Display, C: Display> Rule<S, C> {
    /// The instructions of the rule in a table of this family.
    #[must_use]
    pub fn exprs(&self, family: Family) -> Vec<Expr> {
        let mut out = Writer {
            family,
            exprs: Vec::new(),
        };
        for it in &self.matches {
            out.condition(it);
        }
        for it in &self.actions {
            out.action(it);
        }
        out.exprs
    }
}

struct Writer {
    family: Family,
    exprs: Vec<Expr>,
}

impl Writer {
    fn condition(&mut self, condition: &Match<impl Display>) {
        match condition {
            Match::Address(side, sense, net) => {
                self.address(*side, FIRST);
                self.in_prefix(*sense, net);
            }
            Match::IsLocal(side) => self.is_local(*side),
            Match::Interface(sense, name) => {
                self.load(MetaKey::IncomingName);
                self.compare(operator(*sense), padded(name));
            }
            Match::InterfacePrefix(sense, prefix) => {
                self.load(MetaKey::IncomingName);
                self.compare(operator(*sense), prefix.as_bytes());
            }
            Match::OutgoingInterface(sense, name) => {
                self.load(MetaKey::OutgoingName);
                self.compare(operator(*sense), padded(name));
            }
            Match::State(states) => {
                self.connection(CtKey::State);
                self.has_bits(states.iter().fold(0, |bits, it| bits | *it as u32));
            }
            Match::DestinationTranslated => {
                self.connection(CtKey::Status);
                self.has_bits(CT_STATUS_DNAT);
            }
            Match::Marked(mark) => {
                self.load(MetaKey::Mark);
                self.mask(&mark.to_ne_bytes(), &[0; 4]);
                self.compare(CmpOp::Equal, mark.to_ne_bytes());
            }
            Match::Protocol(protocol) => {
                self.load(MetaKey::L4Proto);
                self.compare(CmpOp::Equal, [*protocol]);
            }
            Match::Port(side, port) => {
                self.transport(port_offset(*side), PORT_LEN, FIRST);
                self.compare(CmpOp::Equal, port.to_be_bytes());
            }
            Match::TcpFlags { mask, value } => {
                self.transport(TCP_FLAGS_OFFSET, 1, FIRST);
                self.mask(&[*mask], &[0]);
                self.compare(CmpOp::Equal, [*value]);
            }
            Match::Share(part, whole) => self.share(*part, *whole),
            Match::OnePerSecond => self.exprs.push(Expr::OnePerSecond),
            Match::In(sense, key, set) => {
                self.key(key);
                self.look_up(set, None, *sense);
            }
        }
    }

    fn action(&mut self, action: &Action<impl Display, impl Display>) {
        match action {
            Action::Accept => self.exprs.push(Expr::Verdict(Verdict::Accept)),
            Action::Jump(chain) => {
                self.exprs
                    .push(Expr::Verdict(Verdict::Jump(chain.to_string())));
            }
            Action::Goto(chain) => {
                self.exprs
                    .push(Expr::Verdict(Verdict::Goto(chain.to_string())));
            }
            Action::Return => self.exprs.push(Expr::Verdict(Verdict::Return)),
            Action::Count => self.exprs.push(Expr::Counter),
            Action::Log { prefix, group } => self.exprs.push(Expr::Log {
                prefix: prefix.to_string(),
                group: *group,
            }),
            Action::Drop => self.exprs.push(Expr::Verdict(Verdict::Drop)),
            Action::Reject => self.exprs.push(Expr::port_unreachable(self.family)),
            Action::Mark(mark) => self.set_mark(!mark, *mark),
            Action::Unmark(mark) => self.set_mark(!mark, 0),
            Action::Masquerade => self.exprs.push(Expr::Masquerade),
            Action::SourceTo(addr) => {
                self.constant(FIRST, octets(*addr));
                self.exprs.push(Expr::Snat {
                    family: self.family,
                    addr_reg: FIRST,
                });
            }
            Action::Verdict(key, map) => {
                self.key(key);
                self.look_up(map, Some(Register::VERDICT), Sense::Is);
            }
            Action::DestinationOf(key, map) => {
                self.key(key);
                self.look_up(map, Some(FIRST), Sense::Is);
                self.translate(Register::word(self.address_words()));
            }
            Action::DestinationTo(to) => self.destination(*to),
            Action::SetPort {
                side,
                protocol,
                port,
            } => self.set_port(*side, *protocol, *port),
            Action::Untrack => self.exprs.push(Expr::Untrack),
            Action::Trace => {
                self.constant(FIRST, [1]);
                let key = MetaKey::Trace;
                self.exprs.push(Expr::MetaSet { key, sreg: FIRST });
            }
            Action::Remember(set, key, seconds) => {
                self.key(key);
                self.exprs.push(Expr::Update {
                    set: set.to_string(),
                    key_reg: FIRST,
                    timeout_ms: u64::from(*seconds) * 1000,
                });
            }
        }
    }

    /// Loads the fields side by side, from the first register on.
    fn key(&mut self, fields: &[Field]) {
        let mut next = 0;
        for field in fields {
            let dreg = Register::word(next);
            next += match *field {
                Field::Address(side) => {
                    self.address(side, dreg);
                    self.address_words()
                }
                Field::Protocol => {
                    let key = MetaKey::L4Proto;
                    self.exprs.push(Expr::Meta { key, dreg });
                    1
                }
                Field::Port(side) => {
                    self.transport(port_offset(side), PORT_LEN, dreg);
                    1
                }
                Field::Random { modulus, offset } => {
                    self.exprs.push(Expr::Numgen {
                        dreg,
                        modulus,
                        offset,
                    });
                    1
                }
            };
        }
    }

    fn look_up(&mut self, set: &impl Display, dreg: Option<Register>, sense: Sense) {
        self.exprs.push(Expr::Lookup {
            set: set.to_string(),
            sreg: FIRST,
            dreg,
            invert: sense == Sense::IsNot,
        });
    }

    /// `part` in `whole` packets go on.
    fn share(&mut self, part: u32, whole: u32) {
        self.exprs.push(Expr::Numgen {
            dreg: FIRST,
            modulus: whole,
            offset: 0,
        });
        if part == 1 {
            return self.compare(CmpOp::Equal, [0; 4]);
        }
        self.exprs.push(Expr::ToNetworkOrder { reg: FIRST });
        self.compare(CmpOp::Less, part.to_be_bytes());
    }

    /// How many registers an address takes.
    fn address_words(&self) -> u32 {
        u32::from(self.family.bits()) / 32
    }

    fn address(&mut self, side: Side, dreg: Register) {
        let offset = match (self.family, side) {
            (Family::Ipv4, Side::Source) => 12,
            (Family::Ipv4, Side::Destination) => 16,
            (Family::Ipv6, Side::Source) => 8,
            (Family::Ipv6, Side::Destination) => 24,
        };
        self.exprs.push(Expr::Payload {
            dreg,
            base: PayloadBase::Network,
            offset,
            len: u32::from(self.family.bits()) / 8,
        });
    }

    fn transport(&mut self, offset: u32, len: u32, dreg: Register) {
        self.exprs.push(Expr::Payload {
            dreg,
            base: PayloadBase::Transport,
            offset,
            len,
        });
    }

    /// Compares the loaded address with a prefix: by its first bytes where it ends at a byte, else under a
    /// mask.
    fn in_prefix(&mut self, sense: Sense, net: &IpNet) {
        let op = operator(sense);
        let network = octets(net.network());
        let len = net.prefix_len();
        if len == net.max_prefix_len() {
            return self.compare(op, network);
        }
        if len.is_multiple_of(8) && len > 0 {
            if let Some(Expr::Payload { len: loaded, .. }) = self.exprs.last_mut() {
                *loaded = u32::from(len / 8);
            }
            return self.compare(op, &network[..usize::from(len / 8)]);
        }
        self.mask(&octets(net.netmask()), &vec![0; network.len()]);
        self.compare(op, network);
    }

    fn is_local(&mut self, side: Side) {
        self.exprs.push(Expr::FibType {
            dreg: FIRST,
            address: match side {
                Side::Source => FibAddress::Source,
                Side::Destination => FibAddress::Destination,
            },
        });
        self.compare(CmpOp::Equal, ADDRESS_LOCAL.to_ne_bytes());
    }

    fn connection(&mut self, key: CtKey) {
        self.exprs.push(Expr::Ct { key, dreg: FIRST });
    }

    fn has_bits(&mut self, bits: u32) {
        self.mask(&bits.to_ne_bytes(), &[0; 4]);
        self.compare(CmpOp::NotEqual, [0; 4]);
    }

    fn load(&mut self, key: MetaKey) {
        self.exprs.push(Expr::Meta { key, dreg: FIRST });
    }

    fn mask(&mut self, mask: &[u8], xor: &[u8]) {
        self.exprs.push(Expr::Bitwise {
            sreg: FIRST,
            dreg: FIRST,
            mask: mask.to_vec(),
            xor: xor.to_vec(),
        });
    }

    fn compare(&mut self, op: CmpOp, data: impl Into<Vec<u8>>) {
        self.exprs.push(Expr::Cmp {
            op,
            sreg: FIRST,
            data: data.into(),
        });
    }

    /// `mark = (mark & keep) | set`, which the kernel writes as `(mark & keep) ^ set`.
    fn set_mark(&mut self, keep: u32, set: u32) {
        self.load(MetaKey::Mark);
        self.mask(&keep.to_ne_bytes(), &set.to_ne_bytes());
        let key = MetaKey::Mark;
        self.exprs.push(Expr::MetaSet { key, sreg: FIRST });
    }

    fn set_port(&mut self, side: Side, protocol: u8, port: u16) {
        self.constant(FIRST, port.to_be_bytes());
        self.exprs.push(Expr::PayloadSet {
            sreg: FIRST,
            offset: port_offset(side),
            len: PORT_LEN,
            // Where the header has its checksum (RFC 768, RFC 9293).
            checksum: if protocol == TCP { 16 } else { 6 },
        });
    }

    fn constant(&mut self, dreg: Register, data: impl Into<Vec<u8>>) {
        let data = data.into();
        self.exprs.push(Expr::ImmediateData { dreg, data });
    }

    fn destination(&mut self, to: SocketAddr) {
        let port = Register::word(4);
        self.constant(FIRST, octets(to.ip()));
        self.constant(port, to.port().to_be_bytes());
        self.translate(port);
    }

    fn translate(&mut self, port_reg: Register) {
        self.exprs.push(Expr::Dnat {
            family: self.family,
            addr_reg: FIRST,
            port_reg,
        });
    }
}

/// A whole name is compared with its padding, a prefix without.
fn padded(name: &str) -> Vec<u8> {
    let mut padded = name.as_bytes().to_vec();
    padded.resize(INTERFACE_NAME_LEN, 0);
    padded
}

/// The TCP, UDP and SCTP headers begin alike.
fn port_offset(side: Side) -> u32 {
    match side {
        Side::Source => 0,
        Side::Destination => 2,
    }
}

fn operator(sense: Sense) -> CmpOp {
    match sense {
        Sense::Is => CmpOp::Equal,
        Sense::IsNot => CmpOp::NotEqual,
    }
}
