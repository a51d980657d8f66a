//! Rules as values. Two rules that the kernel cannot tell apart are equal, and so are those whose
//! conditions differ in nothing but their order.

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
    /// Who may pass.
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
    /// The name, and zeros.
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

    /// The name.
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

/// What packets a rule is for, and what it does with them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// One that we write.
    Known {
        /// All must hold. Kept in the order of kube-proxy's text, which the kernel does not keep.
        matches: Matches,
        /// `None` counts and goes on.
        target: Option<Target>,
    },
    /// One of somebody else, as `iptables-save` writes it after `-A CHAIN `.
    Foreign(Arc<str>),
}

impl Rule {
    /// Every packet.
    pub fn always(target: Target) -> Self {
        Self::when(Vec::new(), target)
    }

    /// Packets for which all of these hold.
    pub fn when(matches: impl Into<Vec<Match>>, target: Target) -> Self {
        Self::Known {
            matches: Matches::new(matches.into()),
            target: Some(target),
        }
    }

    /// The chain that packets may be sent to.
    pub fn jump(&self) -> Option<&ChainName> {
        match self {
            Self::Known {
                target: Some(Target::Jump(chain)),
                ..
            } => Some(chain),
            _ => None,
        }
    }

    /// The chains that packets may be sent to. Of a foreign rule there may be too many: a comment may
    /// look like a jump.
    pub fn chains(&self) -> Vec<ChainName> {
        match self {
            Self::Known { .. } => self.jump().copied().into_iter().collect(),
            Self::Foreign(text) => jumps(text),
        }
    }

    /// Counts packets for which all of these hold.
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

    /// Whether every packet is meant.
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

impl std::hash::Hash for Matches {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.sorted().hash(state);
    }
}

/// Whether a condition must hold or must not (`!`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sense {
    /// It must.
    Is,
    /// It must not.
    Not,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// Whether the kernel keeps nothing of it: it holds for every packet.
    fn is_nothing(&self) -> bool {
        match self {
            Self::Source(Sense::Is, net) | Self::Destination(Sense::Is, net) => {
                net.prefix_len() == 0
            }
            Self::InInterface(Sense::Is, name) => &**name == "+",
            _ => false,
        }
    }

    /// Holds for one packet in `n`.
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
    /// Every list of at most three ends: what an ipset can be asked for.
    const LISTS: [&'static [Self]; 14] = {
        use Side::{Dst, Src};
        [
            &[Src],
            &[Dst],
            &[Src, Src],
            &[Src, Dst],
            &[Dst, Src],
            &[Dst, Dst],
            &[Src, Src, Src],
            &[Src, Src, Dst],
            &[Src, Dst, Src],
            &[Src, Dst, Dst],
            &[Dst, Src, Src],
            &[Dst, Src, Dst],
            &[Dst, Dst, Src],
            &[Dst, Dst, Dst],
        ]
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
    /// Conntrack cannot make sense of the packet.
    pub const INVALID: Self = Self(1);
    /// The first packet of a connection.
    pub const NEW: Self = Self(2);
    /// Answers have been seen.
    pub const ESTABLISHED: Self = Self(4);
    /// Belongs to another connection, as an ICMP error does.
    pub const RELATED: Self = Self(8);
    /// The destination was translated.
    pub const DNAT: Self = Self(16);

    /// These and those.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Asks another chain and comes back if that says nothing.
    Jump(ChainName),
    /// Lets the packet go on.
    Accept,
    /// The packet vanishes.
    Drop,
    /// Back to the chain that asked.
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
