//! One rule's text.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;

use crate::random;
use crate::rule::{ChainName, Match, Matches, Rule, Sense, Side, States, Target};

/// Targets of iptables that stand without options and are no chains.
const EXTENSIONS: [&str; 12] = [
    "AUDIT", "CHECKSUM", "CT", "LOG", "NFLOG", "NFQUEUE", "NOTRACK", "QUEUE", "REDIRECT", "SNAT",
    "TCPMSS", "TRACE",
];

/// Reads what follows `-A CHAIN `.
pub(super) fn rule(text: &str) -> Rule {
    let mut reader = Reader {
        words: Words(text),
        matches: Vec::with_capacity(4),
        target: None,
        recent: None,
    };
    match reader.all() {
        Some(()) => Rule::Known {
            matches: Matches::new(reader.matches),
            target: reader.target,
        },
        None => Rule::Foreign(text.into()),
    }
}

/// The chains that follow `-j` or `-g`.
pub(super) fn jumps(text: &str) -> Vec<ChainName> {
    let words = Words(text).zip(Words(text).skip(1));
    let jumps = words.filter(|(flag, _)| matches!(&**flag, "-j" | "-g"));
    jumps.filter_map(|(_, to)| ChainName::read(&to)).collect()
}

/// Arguments, without quotes and escapes.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.trim_start_matches(' ');
        if let Some(quoted) = text.strip_prefix('"') {
            return Some(self.quoted(quoted));
        }
        let end = text.find(' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(Cow::Borrowed(word))
    }
}

impl<'a> Words<'a> {
    fn quoted(&mut self, text: &'a str) -> Cow<'a, str> {
        let Some(end) = text.find(['"', '\\']) else {
            self.0 = "";
            return Cow::Borrowed(text);
        };
        if text[end..].starts_with('"') {
            self.0 = &text[end + 1..];
            return Cow::Borrowed(&text[..end]);
        }
        let mut kept = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(it) = chars.next() {
            match it {
                '"' => break,
                '\\' => kept.extend(chars.next()),
                it => kept.push(it),
            }
        }
        self.0 = chars.as_str();
        Cow::Owned(kept)
    }
}

/// A `-m recent` whose options are still being read.
#[derive(Default)]
struct Recent {
    list: Option<Arc<str>>,
    seconds: Option<u32>,
    checks: bool,
    sets: bool,
    reaps: bool,
}

struct Reader<'a> {
    words: Words<'a>,
    matches: Vec<Match>,
    target: Option<Target>,
    recent: Option<Recent>,
}

impl<'a> Reader<'a> {
    /// `None`: not a rule of ours.
    fn all(&mut self) -> Option<()> {
        let mut sense = Sense::Is;
        while let Some(word) = self.words.next() {
            if word == "!" && sense == Sense::Is {
                sense = Sense::Not;
                continue;
            }
            if !self.recent_option(&word, sense)? {
                self.end_recent()?;
                match &*word {
                    "-j" if sense == Sense::Is && self.target.is_none() => self.jump()?,
                    option if self.target.is_some() => self.target_option(option, sense)?,
                    option => self.condition(option, sense)?,
                }
            }
            sense = Sense::Is;
        }
        self.end_recent()?;
        (sense == Sense::Is).then_some(())
    }

    fn condition(&mut self, option: &str, sense: Sense) -> Option<()> {
        let condition = match option {
            "-m" if sense == Sense::Is => return self.module(),
            "--mode" if sense == Sense::Is => {
                return (self.words.next()? == "random").then_some(());
            }
            "--comment" => Match::Comment(self.words.next()?.into()),
            "-p" => Match::Protocol(protocol(&self.words.next()?)?),
            "-s" => return self.net(|net| Match::Source(sense, net)),
            "-d" => return self.net(|net| Match::Destination(sense, net)),
            "--dport" => Match::DestinationPort(self.words.next()?.parse().ok()?),
            "-i" => {
                let name = self.words.next()?.into();
                return self.push(Match::InInterface(sense, name));
            }
            "--mark" => {
                let (value, mask) = mark(&self.words.next()?)?;
                return self.push(Match::Mark { sense, value, mask });
            }
            "--src-type" => {
                self.words.next().filter(|it| it == "LOCAL")?;
                return self.push(Match::SourceIsLocal(sense));
            }
            "--dst-type" => {
                self.words.next().filter(|it| it == "LOCAL")?;
                return self.push(Match::DestinationIsLocal(sense));
            }
            "--ctstate" => {
                let states = states(&self.words.next()?)?;
                return self.push(Match::State(sense, states));
            }
            "--nfacct-name" => Match::Nfacct(self.words.next()?.into()),
            "--probability" => Match::Random(random::parse(&self.words.next()?)?),
            "--match-set" => {
                let set = self.words.next()?.into();
                let fields = Side::list(&self.words.next()?)?;
                return self.push(Match::Set { sense, set, fields });
            }
            "--ipvs" => return self.push(Match::Ipvs(sense)),
            _ => return None,
        };
        // These have no negation among our rules.
        (sense == Sense::Is).then(|| self.matches.push(condition))
    }

    fn push(&mut self, condition: Match) -> Option<()> {
        self.matches.push(condition);
        Some(())
    }

    fn net(&mut self, of: impl FnOnce(IpNet) -> Match) -> Option<()> {
        let word = self.words.next()?;
        let net = match word.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) => IpNet::from(word.parse::<IpAddr>().ok()?),
        };
        self.push(of(net))
    }

    fn module(&mut self) -> Option<()> {
        match &*self.words.next()? {
            "recent" => self.recent = Some(Recent::default()),
            "tcp" | "udp" | "sctp" => self.move_protocol(),
            "comment" | "mark" | "addrtype" | "conntrack" | "statistic" | "set" | "ipvs"
            | "nfacct" => {}
            _ => return None,
        }
        Some(())
    }

    /// The protocol stands where its own match does: `iptables-nft` deletes a rule only when its
    /// extensions are named in the order in which it keeps them, and the protocol is none.
    fn move_protocol(&mut self) {
        let is_protocol = |it: &Match| matches!(it, Match::Protocol(_));
        if let Some(index) = self.matches.iter().position(is_protocol) {
            let protocol = self.matches.remove(index);
            self.matches.push(protocol);
        }
    }

    /// Whether `option` belongs to the open `-m recent`.
    fn recent_option(&mut self, option: &str, sense: Sense) -> Option<bool> {
        let Some(recent) = &mut self.recent else {
            return Some(false);
        };
        match option {
            "--name" => recent.list = Some(self.words.next()?.into()),
            "--seconds" => recent.seconds = Some(self.words.next()?.parse().ok()?),
            "--rcheck" => recent.checks = true,
            "--set" => recent.sets = true,
            "--reap" => recent.reaps = true,
            "--rsource" => {}
            "--mask" => {
                let mask: IpAddr = self.words.next()?.parse().ok()?;
                let is_whole = match mask {
                    IpAddr::V4(it) => it.to_bits() == u32::MAX,
                    IpAddr::V6(it) => it.to_bits() == u128::MAX,
                };
                return (is_whole && sense == Sense::Is).then_some(true);
            }
            _ => return Some(false),
        }
        (sense == Sense::Is).then_some(true)
    }

    fn end_recent(&mut self) -> Option<()> {
        let Some(recent) = self.recent.take() else {
            return Some(());
        };
        let list = recent.list?;
        let condition = match (recent.checks, recent.sets, recent.seconds) {
            (true, false, Some(seconds)) if recent.reaps => Match::SeenWithin { list, seconds },
            (false, true, None) if !recent.reaps => Match::Remember { list },
            _ => return None,
        };
        self.push(condition)
    }

    fn jump(&mut self) -> Option<()> {
        let name = self.words.next()?;
        self.target = Some(match &*name {
            "ACCEPT" => Target::Accept,
            "DROP" => Target::Drop,
            "RETURN" => Target::Return,
            "REJECT" => Target::Reject,
            "MASQUERADE" => Target::Masquerade {
                random_fully: false,
            },
            "MARK" => self.mark_target()?,
            "DNAT" => {
                self.words.next().filter(|it| it == "--to-destination")?;
                Target::Dnat(self.words.next()?.parse().ok()?)
            }
            "SET" => {
                self.words.next().filter(|it| it == "--map-set")?;
                let set = self.words.next()?.into();
                let fields = Side::list(&self.words.next()?)?;
                self.words.next().filter(|it| it == "--map-mark")?;
                Target::MapMark { set, fields }
            }
            extension if EXTENSIONS.contains(&extension) => return None,
            name => Target::Jump(ChainName::read(name)?),
        });
        Some(())
    }

    fn mark_target(&mut self) -> Option<Target> {
        let option = self.words.next()?;
        let word = self.words.next()?;
        let (clear, flip) = match &*option {
            "--set-xmark" => {
                let (value, mask) = mark(&word)?;
                (mask, value)
            }
            "--set-mark" => {
                let (value, mask) = mark(&word)?;
                (mask | value, value)
            }
            "--or-mark" => {
                let bits = number(&word)?;
                (bits, bits)
            }
            "--xor-mark" => (0, number(&word)?),
            "--and-mark" => (!number(&word)?, 0),
            _ => return None,
        };
        Some(Target::Mark { clear, flip })
    }

    /// What may follow a target whose first form is complete.
    fn target_option(&mut self, option: &str, sense: Sense) -> Option<()> {
        if sense == Sense::Not {
            return None;
        }
        match (option, &mut self.target) {
            ("--random-fully", Some(Target::Masquerade { random_fully })) => {
                *random_fully = true;
                Some(())
            }
            ("--reject-with", Some(Target::Reject)) => {
                let kind = self.words.next()?;
                let is_default =
                    kind == "icmp-port-unreachable" || kind == "icmp6-port-unreachable";
                is_default.then_some(())
            }
            _ => None,
        }
    }
}

/// By name, or by number, as programs write it where the system has no list of names.
fn protocol(word: &str) -> Option<Protocol> {
    let is_meant = |it: &Protocol| it.as_str() == word || word.parse() == Ok(it.number());
    Protocol::ALL.into_iter().find(is_meant)
}

/// `VALUE/MASK`, or a value of which all bits count.
fn mark(word: &str) -> Option<(u32, u32)> {
    match word.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(word)?, u32::MAX)),
    }
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn states(word: &str) -> Option<States> {
    word.split(',').try_fold(States::default(), |all, it| {
        Some(all.or(States::named(it)?))
    })
}
