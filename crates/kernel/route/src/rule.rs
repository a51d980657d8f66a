//! Routing rules: they choose the table for a packet.

use std::fmt;

use ipnet::IpNet;
use nix::errno::Errno;
use sluice_netlink::Family;
use sluice_netlink::attr::AttrWriter;
use sluice_netlink::message::{self, Message};

use crate::connection::{Listed, Messages, Object};

/// `fib_rule_hdr { u8 family, u8 to, u8 from, u8 tos, u8 table, u16 reserved, u8 action, u32 flags }`.
const HEADER: usize = 12;
const TO_OFFSET: usize = 1;
const FROM_OFFSET: usize = 2;
const TABLE_OFFSET: usize = 4;
const ACTION_OFFSET: usize = 7;
const FLAGS_OFFSET: usize = 8;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PROTOCOL: u16 = 21;
const FIB_RULE_INVERT: u32 = 2;
/// `FR_ACT_TO_TBL`.
const TO_TABLE: u8 = 1;
/// The kernel's number for a rule that suppresses no prefix.
const NONE: u32 = u32::MAX;

/// A routing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The family of the packets.
    pub family: Family,
    /// The rule with the smallest number comes first. The kernel has rules of 0 (local), 32766 (main) and 32767
    /// (default).
    pub priority: u32,
    /// Packets from this network; `None`: from all.
    pub from: Option<IpNet>,
    /// Packets to this network; `None`: to all.
    pub to: Option<IpNet>,
    /// Packets with this mark, in the bits of the mask: `(mark, mask)`.
    pub mark: Option<(u32, u32)>,
    /// Packets that came through the interface of this name; `lo` for those of this machine.
    pub input: Option<String>,
    /// Packets of sockets that are bound to the interface of this name.
    pub output: Option<String>,
    /// The rule is for all packets that do not match.
    pub inverted: bool,
    /// The table for the packets; if it has no route, the next rule is used.
    pub table: u32,
    /// A route whose prefix is not longer than this is ignored: 0 leaves out default routes.
    pub suppressed_prefix: Option<u32>,
    /// The program that added the rule (`RTPROT_*`); 0 when it did not say.
    pub protocol: u8,
}

impl Rule {
    /// A rule that leads all packets of a family to a table.
    #[must_use]
    pub const fn new(family: Family, priority: u32, table: u32) -> Self {
        Self {
            family,
            priority,
            from: None,
            to: None,
            mark: None,
            input: None,
            output: None,
            inverted: false,
            table,
            suppressed_prefix: None,
            protocol: 0,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule {}", self.family, self.priority)
    }
}

impl Listed for Rule {
    const PLURAL: &'static str = "rules";
    const MESSAGES: Messages = Messages::from(32);
    const HEADER: usize = HEADER;

    /// `None` also for a rule that leads to no table.
    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        let byte = |offset: usize| message.body.get(offset).copied();
        if byte(ACTION_OFFSET)? != TO_TABLE {
            return None;
        }
        let family = Family::from_number(message.family())?;
        let net = |kind, prefix: u8| {
            let ip = family.address(attrs.find(kind)?.value)?;
            IpNet::new(ip, prefix).ok()
        };
        let mark = attrs.u32_ne(FRA_FWMARK);
        Some(Self {
            family,
            priority: attrs.u32_ne(FRA_PRIORITY).unwrap_or_default(),
            from: net(FRA_SRC, byte(FROM_OFFSET)?),
            to: net(FRA_DST, byte(TO_OFFSET)?),
            mark: mark.map(|it| (it, attrs.u32_ne(FRA_FWMASK).unwrap_or(u32::MAX))),
            input: attrs.string(FRA_IIFNAME),
            output: attrs.string(FRA_OIFNAME),
            inverted: message.u32_at(FLAGS_OFFSET)? & FIB_RULE_INVERT != 0,
            table: attrs
                .u32_ne(FRA_TABLE)
                .unwrap_or(byte(TABLE_OFFSET)?.into()),
            suppressed_prefix: attrs
                .u32_ne(FRA_SUPPRESS_PREFIXLEN)
                .filter(|it| *it != NONE),
            protocol: attrs.u8(FRA_PROTOCOL).unwrap_or_default(),
        })
    }
}

impl Object for Rule {
    const MISSING: Errno = Errno::ENOENT;
    /// The kernel cannot replace a rule: it would add an equal second rule.
    const REPLACE: u16 = message::EXCLUSIVE;

    fn first(&self) -> [u8; 4] {
        let length = |it: Option<IpNet>| it.map_or(0, |it| it.prefix_len());
        [self.family.number(), length(self.to), length(self.from), 0]
    }

    fn put(&self, writer: &mut AttrWriter) {
        let flags = if self.inverted { FIB_RULE_INVERT } else { 0 };
        writer.raw(&[0, 0, 0, TO_TABLE]);
        writer.raw(&flags.to_ne_bytes());
        writer.u32_ne(FRA_PRIORITY, self.priority);
        writer.u32_ne(FRA_TABLE, self.table);
        writer.u8(FRA_PROTOCOL, self.protocol);
        writer.address(FRA_SRC, self.from.map(|it| it.network()));
        writer.address(FRA_DST, self.to.map(|it| it.network()));
        if let Some((mark, mask)) = self.mark {
            writer.u32_ne(FRA_FWMARK, mark);
            writer.u32_ne(FRA_FWMASK, mask);
        }
        for (kind, name) in [(FRA_IIFNAME, &self.input), (FRA_OIFNAME, &self.output)] {
            if let Some(name) = name {
                writer.string(kind, name);
            }
        }
        writer.u32_ne(FRA_SUPPRESS_PREFIXLEN, self.suppressed_prefix);
    }
}
