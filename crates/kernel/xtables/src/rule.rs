//! Rules as values. Rules are equal if the kernel stores them alike, or if only the order of their
//! conditions differs.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;

use crate::parse::jumps;
use crate::random;
use crate::text::{comment_text, is_comment};

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Marks of packets.
    Mangle,
    /// Acceptance of packets.
    Filter,
    /// Address translation: its chains see the first packet of a connection.
    Nat,
}

impl Table {
    /// Every table, in the order in which kube-proxy writes them.
    pub const ALL: [Self; 3] = [Self::Mangle, Self::Filter, Self::Nat];

    /// As iptables writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Name of a chain, at most [`ChainName::LONGEST`] bytes. A large ruleset has some hundred thousand
/// of them, so none is on the heap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(
    /// The name, padded with zero bytes.
    [u8; Self::LONGEST],
);

impl ChainName {
    /// `XT_EXTENSION_MAXNAMELEN` (`x_tables.h`) less the final zero.
    pub const LONGEST: usize = 28;

    /// A chain of this name.
    ///
    /// # Panics
    ///
    /// No chain of iptables can have the name. Ours are shorter.
    pub fn new(name: &str) -> Self {
        Self::read(name).expect("the name of a chain of ours is short")
    }

    /// A chain of this name; `None` when no chain of iptables can have it. Those that `nft` makes
    /// beside them may be longer.
    pub fn read(name: &str) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes
            .get_mut(..name.len())?
            .copy_from_slice(name.as_bytes());
        (!name.contains('\0')).then_some(Self(bytes))
    }

    /// The name without its padding.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|it| *it == 0);
        let name = &self.0[..end.unwrap_or(Self::LONGEST)];
        str::from_utf8(name).expect("it was made from text")
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Conditions and a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A rule of a form that we write.
    Known {
        /// A packet has to meet all of them. In the order of kube-proxy's text, which the kernel does not keep.
        matches: Matches,
        /// `None`: the rule counts packets, which go on to the next rule.
        target: Option<Target>,
    },
    /// Any other rule, as `iptables-save` writes it after `-A CHAIN `.
    Foreign(Arc<str>),
}

impl Rule {
    /// A rule for every packet.
    pub fn always(target: Target) -> Self {
        Self::when(Vec::new(), target)
    }

    /// A rule for packets that meet all these conditions.
    pub fn when(matches: impl Into<Vec<Match>>, target: Target) -> Self {
        Self::Known {
            matches: Matches::new(matches.into()),
            target: Some(target),
        }
    }

    /// The chain to which the rule jumps; `None` also for a foreign rule.
    pub fn jump(&self) -> Option<&ChainName> {
        match self {
            Self::Known {
                target: Some(Target::Jump(chain)),
                ..
            } => Some(chain),
            _ => None,
        }
    }

    /// The chains to which the rule jumps. Of a foreign rule there may be too many: a comment may look like
    /// a jump.
    pub fn chains(&self) -> Vec<ChainName> {
        match self {
            Self::Known { .. } => self.jump().copied().into_iter().collect(),
            Self::Foreign(text) => jumps(text),
        }
    }

    /// A rule that counts packets that meet all these conditions.
    pub fn count(matches: impl Into<Vec<Match>>) -> Self {
        Self::Known {
            matches: Matches::new(matches.into()),
            target: None,
        }
    }
}

/// Conditions, equal whatever their order.
#[derive(Clone, Debug)]
pub struct Matches(Box<[Match]>);

impl Matches {
    /// These conditions, written in this order; prefixes without their hosts' bits and comments as
    /// the kernel can hold them.
    pub fn new(mut matches: Vec<Match>) -> Self {
        for it in &mut matches {
            match it {
                Match::Source(_, net) | Match::Destination(_, net) => *net = net.trunc(),
                Match::Comment(text) if !is_comment(text) => *text = comment_text(text).into(),
                _ => {}
            }
        }
        Self(matches.into())
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order they are written.
    pub fn iter(&self) -> impl Iterator<Item = &Match> {
        self.0.iter()
    }

    fn sorted(&self) -> Vec<&Match> {
        let mut all: Vec<&Match> = self.0.iter().filter(|it| !it.is_nothing()).collect();
        all.sort();
        all
    }
}

impl PartialEq for Matches {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.sorted() == other.sorted()
    }
}

impl Eq for Matches {}

impl PartialOrd for Matches {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Matches {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.sorted().cmp(&other.sorted())
    }
}

/// Whether a condition must hold or must not (`!`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sense {
    /// The condition must hold.
    Is,
    /// The condition must not hold.
    Not,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// `-m comment --comment`: always holds, for people. At most 255 bytes.
    Comment(Arc<str>),
    /// `-p`, with `-m` of the same name when a port or a translation follows.
    Protocol(Protocol),
    /// `-s`.
    Source(Sense, IpNet),
    /// `-d`.
    Destination(Sense, IpNet),
    /// `--dport`; stands behind the protocol.
    DestinationPort(u16),
    /// `-i`; a final `+` stands for any rest of the name.
    InInterface(Sense, Arc<str>),
    /// `-m mark --mark VALUE/MASK`.
    Mark {
        /// Whether it must be so.
        sense: Sense,
        /// The bits.
        value: u32,
        /// Which bits count.
        mask: u32,
    },
    /// `-m addrtype --src-type LOCAL`.
    SourceIsLocal(Sense),
    /// `-m addrtype --dst-type LOCAL`.
    DestinationIsLocal(Sense),
    /// `-m conntrack --ctstate`, one of these.
    State(Sense, States),
    /// `-m statistic --mode random`: probability in units of 2^-31, as the kernel keeps it.
    Random(u32),
    /// `-m recent --rcheck --seconds --reap --name --mask --rsource`.
    SeenWithin {
        /// Name of the list.
        list: Arc<str>,
        /// Seconds since the client's last packet.
        seconds: u32,
    },
    /// `-m recent --set --name --mask --rsource`: remembers the client; always holds.
    Remember {
        /// Name of the list.
        list: Arc<str>,
    },
    /// `-m set --match-set NAME FIELDS`.
    Set {
        /// Whether the packet must be in it.
        sense: Sense,
        /// Name of the ipset.
        set: Arc<str>,
        /// Which addresses and ports of the packet.
        fields: &'static [Side],
    },
    /// `-m ipvs --ipvs`: belongs to a connection of IPVS.
    Ipvs(Sense),
    /// `-m nfacct --nfacct-name`: always holds, and counts the packet. What stands behind it does
    /// not keep it from counting.
    Nfacct(Arc<str>),
}

impl Match {
    /// A comment, made fit for the kernel: see [`comment_text`].
    pub fn comment(text: &str) -> Self {
        Self::Comment(comment_text(text).into())
    }

    /// Whether every packet meets it, so that the kernel does not store it.
    fn is_nothing(&self) -> bool {
        match self {
            Self::Source(Sense::Is, net) | Self::Destination(Sense::Is, net) => {
                net.prefix_len() == 0
            }
            Self::InInterface(Sense::Is, name) => &**name == "+",
            _ => false,
        }
    }

    /// One packet in `n` meets it.
    pub fn one_in(n: u32) -> Self {
        Self::Random(random::one_in(n))
    }
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Where it comes from.
    Src,
    /// Where it goes.
    Dst,
}

impl Side {
    /// The lists that our rules have.
    const LISTS: [&'static [Self]; 4] = {
        use Side::{Dst, Src};
        [&[Dst], &[Dst, Dst], &[Src, Dst], &[Dst, Dst, Src]]
    };

    /// Reads `dst,dst,src`.
    pub(crate) fn list(text: &str) -> Option<&'static [Self]> {
        let names = |list: &&[Self]| list.iter().map(|it| it.as_str()).eq(text.split(','));
        Self::LISTS.into_iter().find(names)
    }

    /// As iptables writes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Src => "src",
            Self::Dst => "dst",
        }
    }
}

/// States of conntrack, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct States(u8);

impl States {
    /// Conntrack finds the packet invalid.
    pub const INVALID: Self = Self(1);
    /// The first packet of a connection.
    pub const NEW: Self = Self(2);
    /// Answers have been seen.
    pub const ESTABLISHED: Self = Self(4);
    /// Belongs to another connection, as an ICMP error does.
    pub const RELATED: Self = Self(8);
    /// The destination was translated.
    pub const DNAT: Self = Self(16);

    /// The union of both sets of states.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every state by name, in the order in which kube-proxy writes them.
    pub(crate) const NAMES: [(Self, &'static str); 5] = [
        (Self::INVALID, "INVALID"),
        (Self::NEW, "NEW"),
        (Self::RELATED, "RELATED"),
        (Self::ESTABLISHED, "ESTABLISHED"),
        (Self::DNAT, "DNAT"),
    ];

    /// The state of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(_, it)| *it == name);
        known.map(|(state, _)| *state)
    }

    /// Whether any of `other` is among them.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Goes on in another chain, and returns from its end.
    Jump(ChainName),
    /// Accepts the packet.
    Accept,
    /// Drops the packet without an answer.
    Drop,
    /// Returns to the chain that jumped here.
    Return,
    /// `REJECT`: icmp-port-unreachable.
    Reject,
    /// `MARK`: the mark becomes `(mark & !clear) ^ flip` (`--set-xmark`).
    Mark {
        /// Bits to clear.
        clear: u32,
        /// Bits to turn.
        flip: u32,
    },
    /// `DNAT --to-destination`.
    Dnat(SocketAddr),
    /// `MASQUERADE`.
    Masquerade {
        /// `--random-fully`: source ports by chance.
        random_fully: bool,
    },
    /// `SET --map-set NAME FIELDS --map-mark`: the mark that the ipset's member carries.
    MapMark {
        /// Name of the ipset.
        set: Arc<str>,
        /// Which addresses and ports of the packet.
        fields: &'static [Side],
    },
}
