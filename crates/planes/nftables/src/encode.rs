//! Rules as the kernel's expressions, in the form that nft itself would send, so that any nft can
//! print them.

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_nft::{CmpOp, CtKey, Expr, Family, FibAddress, MetaKey, PayloadBase, Register, Verdict};

use crate::bytes::octets;
use crate::name::ChainName;
use crate::rule::{Action, Fields, Match, Rule, Sense, SetRef};
use crate::set::SetName;

/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const CT_STATE_NEW: u32 = 8;
/// `IPS_DST_NAT`.
const CT_STATUS_DNAT: u32 = 0x20;
/// `RTN_LOCAL`.
const ADDRESS_LOCAL: u32 = 2;
/// `IFNAMSIZ`.
const INTERFACE_NAME_LEN: usize = 16;
/// Bytes 2 and 3 of the TCP, UDP and SCTP headers alike.
const DESTINATION_PORT: (u32, u32) = (2, 2);

const FIRST: Register = Register::word(0);

/// The netlink name of a family.
pub(crate) fn family(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

/// The expressions of a rule.
pub(crate) fn rule(family: IpFamily, rule: &Rule) -> Vec<Expr> {
    let mut out = Vec::new();
    for it in &rule.matches {
        condition(&mut out, family, it);
    }
    for it in &rule.actions {
        action(&mut out, family, it);
    }
    out
}

fn condition(out: &mut Vec<Expr>, family: IpFamily, condition: &Match) {
    match condition {
        Match::Source(sense, net) => {
            address(out, family, Side::Source, FIRST);
            in_prefix(out, *sense, net);
        }
        Match::Interface(sense, name) => {
            let mut padded = name.as_bytes().to_vec();
            padded.resize(INTERFACE_NAME_LEN, 0);
            incoming_name(out, *sense, padded);
        }
        Match::InterfacePrefix(sense, prefix) => {
            incoming_name(out, *sense, prefix.as_bytes().to_vec());
        }
        Match::SourceIsLocal => is_local(out, FibAddress::Source),
        Match::DestinationIsLocal => is_local(out, FibAddress::Destination),
        Match::DestinationNotLoopback => {
            let loopback = match family {
                IpFamily::V4 => IpNet::V4("127.0.0.0/8".parse().expect("a prefix")),
                IpFamily::V6 => IpNet::V6("::1/128".parse().expect("a prefix")),
            };
            address(out, family, Side::Destination, FIRST);
            in_prefix(out, Sense::IsNot, &loopback);
        }
        Match::NewConnection => {
            out.push(Expr::Ct {
                key: CtKey::State,
                dreg: FIRST,
            });
            has_bits(out, CT_STATE_NEW);
        }
        Match::DestinationTranslated => {
            out.push(Expr::Ct {
                key: CtKey::Status,
                dreg: FIRST,
            });
            has_bits(out, CT_STATUS_DNAT);
        }
        Match::Marked(mark) => {
            load(out, MetaKey::Mark);
            mask(out, *mark, 0);
            compare(out, CmpOp::Equal, mark.to_ne_bytes().to_vec());
        }
        Match::Protocol(protocol) => {
            load(out, MetaKey::L4Proto);
            compare(out, CmpOp::Equal, vec![protocol.number()]);
        }
        Match::Share(part, whole) => share(out, *part, *whole),
        Match::Known(set, label) => {
            client_and_label(out, family, *label);
            out.push(Expr::Lookup {
                set: set.to_string(),
                sreg: FIRST,
                dreg: None,
                invert: false,
            });
        }
        Match::In(sense, of, set) => {
            fields(out, family, *of);
            let set = match set {
                SetRef::Standing(name) => name.as_str().to_owned(),
                SetRef::Sources(list) => list.to_string(),
            };
            out.push(Expr::Lookup {
                set,
                sreg: FIRST,
                dreg: None,
                invert: *sense == Sense::IsNot,
            });
        }
    }
}

fn action(out: &mut Vec<Expr>, family: IpFamily, action: &Action) {
    let verdict = |verdict| Expr::Verdict(verdict);
    let name = |chain: &ChainName| chain.to_string();
    match action {
        Action::Jump(chain) => out.push(verdict(Verdict::Jump(name(chain)))),
        Action::Goto(chain) => out.push(verdict(Verdict::Goto(name(chain)))),
        Action::Count => out.push(Expr::Counter),
        Action::Drop => out.push(verdict(Verdict::Drop)),
        Action::Reject => out.push(Expr::port_unreachable(self::family(family))),
        Action::Mark(mark) => set_mark(out, !mark, *mark),
        Action::Unmark(mark) => set_mark(out, !mark, 0),
        Action::Masquerade => out.push(Expr::Masquerade),
        Action::Verdict(of, map) => {
            fields(out, family, *of);
            out.push(value_of(*map, Register::VERDICT));
        }
        Action::Balance(of, size, map) => {
            let next = fields(out, family, *of);
            out.push(Expr::Numgen {
                dreg: Register::word(next),
                modulus: *size,
                offset: 0,
            });
            out.push(value_of(*map, FIRST));
            out.push(translate(family, Register::word(address_words(family))));
        }
        Action::DestinationTo(addr) => {
            let mut bytes = Vec::new();
            crate::bytes::encode_endpoint(*addr, &mut bytes);
            let (ip, port) = bytes.split_at(4 * address_words(family) as usize);
            let port_reg = Register::word(4);
            out.push(Expr::ImmediateData {
                dreg: FIRST,
                data: ip.to_vec(),
            });
            out.push(Expr::ImmediateData {
                dreg: port_reg,
                data: port[..2].to_vec(),
            });
            out.push(translate(family, port_reg));
        }
        Action::Remember(set, label, seconds) => {
            client_and_label(out, family, *label);
            out.push(Expr::Update {
                set: set.to_string(),
                key_reg: FIRST,
                timeout_ms: u64::from(*seconds) * 1000,
            });
        }
    }
}

/// Loads the source address, and the label beside it: nft has no other word for a number in a key.
fn client_and_label(out: &mut Vec<Expr>, family: IpFamily, label: u32) {
    address(out, family, Side::Source, FIRST);
    out.push(Expr::Numgen {
        dreg: Register::word(address_words(family)),
        modulus: 1,
        offset: label,
    });
}

/// `part` in `whole` packets go on.
fn share(out: &mut Vec<Expr>, part: u32, whole: u32) {
    out.push(Expr::Numgen {
        dreg: FIRST,
        modulus: whole,
        offset: 0,
    });
    if part == 1 {
        return compare(out, CmpOp::Equal, 0u32.to_ne_bytes().to_vec());
    }
    out.push(Expr::ToNetworkOrder { reg: FIRST });
    compare(out, CmpOp::Less, part.to_be_bytes().to_vec());
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// Offset and length of an address in the IP header.
fn header_field(family: IpFamily, side: Side) -> (u32, u32) {
    match (family, side) {
        (IpFamily::V4, Side::Source) => (12, 4),
        (IpFamily::V4, Side::Destination) => (16, 4),
        (IpFamily::V6, Side::Source) => (8, 16),
        (IpFamily::V6, Side::Destination) => (24, 16),
    }
}

/// How many registers an address takes.
fn address_words(family: IpFamily) -> u32 {
    header_field(family, Side::Source).1 / 4
}

fn address(out: &mut Vec<Expr>, family: IpFamily, side: Side, dreg: Register) {
    let (offset, len) = header_field(family, side);
    out.push(Expr::Payload {
        dreg,
        base: PayloadBase::Network,
        offset,
        len,
    });
}

/// Loads fields side by side from the first register on; returns the next free one.
fn fields(out: &mut Vec<Expr>, family: IpFamily, fields: Fields) -> u32 {
    use Side::{Destination, Source};
    let (before, transport, after): (&[Side], bool, &[Side]) = match fields {
        Fields::Source => (&[Source], false, &[]),
        Fields::Destination => (&[Destination], false, &[]),
        Fields::Frontend => (&[Destination], true, &[]),
        Fields::NodePort => (&[], true, &[]),
        Fields::Hairpin => (&[Source, Destination], true, &[]),
    };
    let mut next = 0;
    for side in before {
        address(out, family, *side, Register::word(next));
        next += address_words(family);
    }
    if transport {
        out.push(Expr::Meta {
            key: MetaKey::L4Proto,
            dreg: Register::word(next),
        });
        let (offset, len) = DESTINATION_PORT;
        out.push(Expr::Payload {
            dreg: Register::word(next + 1),
            base: PayloadBase::Transport,
            offset,
            len,
        });
        next += 2;
    }
    for side in after {
        address(out, family, *side, Register::word(next));
        next += address_words(family);
    }
    next
}

/// Compares the loaded address with a prefix: by its first bytes where it ends at a byte,
/// else under a mask.
fn in_prefix(out: &mut Vec<Expr>, sense: Sense, net: &IpNet) {
    let op = operator(sense);
    let network = octets(net.network());
    let len = net.prefix_len();
    if len == net.max_prefix_len() {
        return compare(out, op, network);
    }
    if len.is_multiple_of(8) && len > 0 {
        let bytes = usize::from(len / 8);
        if let Some(Expr::Payload { len, .. }) = out.last_mut() {
            *len = u32::from(net.prefix_len() / 8);
        }
        return compare(out, op, network[..bytes].to_vec());
    }
    out.push(Expr::Bitwise {
        sreg: FIRST,
        dreg: FIRST,
        mask: octets(net.netmask()),
        xor: vec![0; network.len()],
    });
    compare(out, op, network);
}

fn load(out: &mut Vec<Expr>, key: MetaKey) {
    out.push(Expr::Meta { key, dreg: FIRST });
}

/// Looks the loaded fields up in a map.
fn value_of(map: SetName, dreg: Register) -> Expr {
    Expr::Lookup {
        set: map.as_str().to_owned(),
        sreg: FIRST,
        dreg: Some(dreg),
        invert: false,
    }
}

fn operator(sense: Sense) -> CmpOp {
    match sense {
        Sense::Is => CmpOp::Equal,
        Sense::IsNot => CmpOp::NotEqual,
    }
}

fn compare(out: &mut Vec<Expr>, op: CmpOp, data: Vec<u8>) {
    out.push(Expr::Cmp {
        op,
        sreg: FIRST,
        data,
    });
}

/// A whole name is compared with its padding, a prefix without.
fn incoming_name(out: &mut Vec<Expr>, sense: Sense, name: Vec<u8>) {
    load(out, MetaKey::IncomingName);
    compare(out, operator(sense), name);
}

fn is_local(out: &mut Vec<Expr>, address: FibAddress) {
    out.push(Expr::FibType {
        dreg: FIRST,
        address,
    });
    let local = ADDRESS_LOCAL.to_ne_bytes().to_vec();
    compare(out, CmpOp::Equal, local);
}

fn mask(out: &mut Vec<Expr>, mask: u32, xor: u32) {
    out.push(Expr::Bitwise {
        sreg: FIRST,
        dreg: FIRST,
        mask: mask.to_ne_bytes().to_vec(),
        xor: xor.to_ne_bytes().to_vec(),
    });
}

fn has_bits(out: &mut Vec<Expr>, bits: u32) {
    mask(out, bits, 0);
    compare(out, CmpOp::NotEqual, 0u32.to_ne_bytes().to_vec());
}

/// `mark = (mark & keep) | set`, which the kernel writes as `(mark & keep) ^ set`.
fn set_mark(out: &mut Vec<Expr>, keep: u32, set: u32) {
    load(out, MetaKey::Mark);
    mask(out, keep, set);
    out.push(Expr::MetaSet {
        key: MetaKey::Mark,
        sreg: FIRST,
    });
}

fn translate(family: IpFamily, port_reg: Register) -> Expr {
    Expr::Dnat {
        family: self::family(family),
        addr_reg: FIRST,
        port_reg,
    }
}
