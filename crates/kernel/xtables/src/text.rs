//! Rules as `iptables-restore` reads them, spelled as kube-proxy spells them.

use std::fmt::{self, Display, Write};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::random;
use crate::rule::{Match, Matches, Rule, Sense, Side, States, Target};

/// Longest comment in bytes: `XT_MAX_COMMENT_LEN` (`xt_comment.h`) less the final zero.
pub const LONGEST_COMMENT: usize = 255;

/// A comment as the kernel can hold it: one line, at most [`LONGEST_COMMENT`] bytes.
pub fn comment_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(LONGEST_COMMENT));
    for it in text.chars() {
        // Control characters end lines and strings.
        let it = if it.is_control() { ' ' } else { it };
        if kept.len() + it.len_utf8() > LONGEST_COMMENT {
            break;
        }
        kept.push(it);
    }
    kept
}

/// Whether [`comment_text`] leaves it as it is.
pub(crate) fn is_comment(text: &str) -> bool {
    text.len() <= LONGEST_COMMENT && !text.contains(char::is_control)
}

impl Display for Rule {
    /// What follows `-A CHAIN `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (matches, target) = match self {
            Self::Known { matches, target } => (matches, target.as_ref()),
            Self::Foreign(text) => return f.write_str(text),
        };
        let mut words = Words { f, first: true };
        let names_ports = uses_ports(matches, target);
        let mut addrtype_is_named = false;
        for it in matches.iter() {
            let is_addrtype = matches!(it, Match::SourceIsLocal(_) | Match::DestinationIsLocal(_));
            if is_addrtype && !addrtype_is_named {
                words.add("-m addrtype")?;
                addrtype_is_named = true;
            }
            words.condition(it, names_ports)?;
        }
        match target {
            Some(target) => words.target(target),
            None => Ok(()),
        }
    }
}

/// Whether the rule needs the protocol's own match (`-m tcp`).
pub(crate) fn uses_ports(matches: &Matches, target: Option<&Target>) -> bool {
    matches!(target, Some(Target::Dnat(_)))
        || matches
            .iter()
            .any(|it| matches!(it, Match::DestinationPort(_)))
}

/// Writes parts with blanks between them.
struct Words<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    first: bool,
}

impl Words<'_, '_> {
    fn add(&mut self, words: impl Display) -> fmt::Result {
        if !self.first {
            self.f.write_char(' ')?;
        }
        self.first = false;
        write!(self.f, "{words}")
    }

    fn condition(&mut self, condition: &Match, names_ports: bool) -> fmt::Result {
        match condition {
            Match::Comment(text) => self.add(format_args!("-m comment --comment {}", Word(text))),
            Match::Protocol(protocol) if names_ports => {
                self.add(format_args!("-m {protocol} -p {protocol}"))
            }
            Match::Protocol(protocol) => self.add(format_args!("-p {protocol}")),
            Match::Source(sense, net) => self.add(format_args!("{sense}-s {}", Bare(net))),
            Match::Destination(sense, net) => self.add(format_args!("{sense}-d {}", Bare(net))),
            Match::DestinationPort(port) => self.add(format_args!("--dport {port}")),
            Match::InInterface(sense, name) => self.add(format_args!("{sense}-i {}", Word(name))),
            Match::Mark { sense, value, mask } => {
                self.add(format_args!("-m mark {sense}--mark {value:#x}/{mask:#x}"))
            }
            Match::SourceIsLocal(sense) => self.add(format_args!("{sense}--src-type LOCAL")),
            Match::DestinationIsLocal(sense) => self.add(format_args!("{sense}--dst-type LOCAL")),
            Match::State(sense, states) => {
                self.add(format_args!("-m conntrack {sense}--ctstate {states}"))
            }
            Match::Random(units) => {
                let probability = random::to_text(*units);
                self.add(format_args!(
                    "-m statistic --mode random --probability {probability}"
                ))
            }
            Match::SeenWithin { list, seconds } => self.add(format_args!(
                "-m recent --name {} --rcheck --seconds {seconds} --reap",
                Word(list)
            )),
            Match::Remember { list } => {
                self.add(format_args!("-m recent --name {} --set", Word(list)))
            }
            Match::Set { sense, set, fields } => self.add(format_args!(
                "-m set {sense}--match-set {} {}",
                Word(set),
                Fields(fields)
            )),
            Match::Ipvs(sense) => self.add(format_args!("-m ipvs {sense}--ipvs")),
            Match::Nfacct(name) => self.add(format_args!("-m nfacct --nfacct-name {}", Word(name))),
        }
    }

    fn target(&mut self, target: &Target) -> fmt::Result {
        match target {
            Target::Jump(chain) => self.add(format_args!("-j {}", Word(chain.as_str()))),
            Target::Accept => self.add("-j ACCEPT"),
            Target::Drop => self.add("-j DROP"),
            Target::Return => self.add("-j RETURN"),
            Target::Reject => self.add("-j REJECT"),
            Target::Mark { clear, flip } => self.mark(*clear, *flip),
            Target::Dnat(to) => self.add(format_args!("-j DNAT --to-destination {to}")),
            Target::Masquerade { random_fully: true } => self.add("-j MASQUERADE --random-fully"),
            Target::Masquerade {
                random_fully: false,
            } => self.add("-j MASQUERADE"),
            Target::MapMark { set, fields } => self.add(format_args!(
                "-j SET --map-set {} {} --map-mark",
                Word(set),
                Fields(fields)
            )),
        }
    }

    fn mark(&mut self, clear: u32, flip: u32) -> fmt::Result {
        if clear == flip {
            self.add(format_args!("-j MARK --or-mark {flip:#x}"))
        } else if clear == 0 {
            self.add(format_args!("-j MARK --xor-mark {flip:#x}"))
        } else if flip == 0 {
            self.add(format_args!("-j MARK --and-mark {:#x}", !clear))
        } else {
            self.add(format_args!("-j MARK --set-xmark {flip:#x}/{clear:#x}"))
        }
    }
}

impl Display for Sense {
    /// `! ` before a negated condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Is => "",
            Self::Not => "! ",
        })
    }
}

/// A prefix; that of one address is written without its length.
struct Bare<'a>(&'a IpNet);

impl Display for Bare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            let addr: IpAddr = self.0.addr();
            return write!(f, "{addr}");
        }
        write!(f, "{}", self.0)
    }
}

/// One argument, quoted like `iptables-save` does.
pub(crate) struct Word<'a>(pub(crate) &'a str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"_-/.:+%@".contains(&it);
        if self.0.bytes().all(is_plain) && self.0.starts_with(|it: char| it.is_ascii_alphanumeric())
        {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for it in self.0.chars() {
            match it {
                '"' | '\\' | '\'' => {
                    f.write_char('\\')?;
                    f.write_char(it)?;
                }
                it if it.is_control() => f.write_char(' ')?,
                it => f.write_char(it)?,
            }
        }
        f.write_char('"')
    }
}

struct Fields(&'static [Side]);

impl Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<&str> = self.0.iter().map(|it| it.as_str()).collect();
        f.write_str(&sides.join(","))
    }
}

impl Display for States {
    /// In kube-proxy's order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = States::NAMES.iter().filter(|(it, _)| self.intersects(*it));
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}
