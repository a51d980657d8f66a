//! Parses the text of one rule.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_model::Protocol;

use crate::random;
use crate::rule::{ChainName, Match, Matches, Rule, Sense, Side, States, Target};

/// Targets that are no chains, although they may have no options.
const EXTENSIONS: [&str; 12] = [
    "AUDIT", "CHECKSUM", "CT", "LOG", "NFLOG", "NFQUEUE", "NOTRACK", "QUEUE", "REDIRECT", "SNAT",
    "TCPMSS", "TRACE",
];

/// Masks of one address, as `iptables-save` writes them.
const WHOLE: [&str; 2] = ["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];

/// Reads the text of a rule, which follows `-A CHAIN `.
pub fn parse_rule(text: &str) -> Rule {
    let mut reader = Reader {
        words: Words(text),
        matches: Vec::with_capacity(4),
        target: None,
    };
    match reader.all() {
        Some(()) => Rule::Known {
            matches: Matches::new(reader.matches),
            target: reader.target,
        },
        None => Rule::Foreign(text.into()),
    }
}

/// The chains that follow `-j` or `-g` in the text of a rule.
pub fn jumps(text: &str) -> Vec<ChainName> {
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

struct Reader<'a> {
    words: Words<'a>,
    matches: Vec<Match>,
    target: Option<Target>,
}

impl<'a> Reader<'a> {
    /// `None` for a rule of a form that we do not write.
    fn all(&mut self) -> Option<()> {
        let mut sense = Sense::Is;
        while let Some(word) = self.words.next() {
            if word == "!" && sense == Sense::Is {
                sense = Sense::Not;
                continue;
            }
            match &*word {
                "-j" if sense == Sense::Is && self.target.is_none() => self.jump()?,
                option if self.target.is_some() => self.target_option(option, sense)?,
                option => self.condition(option, sense)?,
            }
            sense = Sense::Is;
        }
        (sense == Sense::Is).then_some(())
    }

    fn condition(&mut self, option: &str, sense: Sense) -> Option<()> {
        let condition = match (option, sense) {
            ("-m", Sense::Is) => return self.module(),
            ("--mode", Sense::Is) => return self.expect("random"),
            ("--comment", Sense::Is) => Match::Comment(self.words.next()?.into()),
            ("-p", Sense::Is) => Match::Protocol(protocol(&self.words.next()?)?),
            ("-s", _) => Match::Source(sense, self.net()?),
            ("-d", _) => Match::Destination(sense, self.net()?),
            ("--dport", Sense::Is) => Match::DestinationPort(self.words.next()?.parse().ok()?),
            ("-i", _) => Match::InInterface(sense, self.words.next()?.into()),
            ("--mark", _) => {
                let (value, mask) = mark(&self.words.next()?)?;
                Match::Mark { sense, value, mask }
            }
            ("--src-type", _) => {
                self.expect("LOCAL")?;
                Match::SourceIsLocal(sense)
            }
            ("--dst-type", _) => {
                self.expect("LOCAL")?;
                Match::DestinationIsLocal(sense)
            }
            ("--ctstate", _) => Match::State(sense, states(&self.words.next()?)?),
            ("--nfacct-name", Sense::Is) => Match::Nfacct(self.words.next()?.into()),
            ("--probability", Sense::Is) => Match::Random(random::parse(&self.words.next()?)?),
            ("--match-set", _) => {
                let set = self.words.next()?.into();
                let fields = Side::list(&self.words.next()?)?;
                Match::Set { sense, set, fields }
            }
            ("--ipvs", _) => Match::Ipvs(sense),
            _ => return None,
        };
        self.matches.push(condition);
        Some(())
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        (self.words.next()? == word).then_some(())
    }

    fn net(&mut self) -> Option<IpNet> {
        let word = self.words.next()?;
        match word.parse() {
            Ok(net) => Some(net),
            Err(_) => Some(IpNet::from(word.parse::<IpAddr>().ok()?)),
        }
    }

    fn module(&mut self) -> Option<()> {
        match &*self.words.next()? {
            "recent" => self.recent()?,
            "tcp" | "udp" | "sctp" => self.move_protocol(),
            "comment" | "mark" | "addrtype" | "conntrack" | "statistic" | "set" | "ipvs"
            | "nfacct" => {}
            _ => return None,
        }
        Some(())
    }

    /// Moves the protocol to the place of its own match: `iptables-nft` deletes a rule only if the rule names
    /// its extensions in the order in which the kernel has them, and the protocol is no extension.
    fn move_protocol(&mut self) {
        let is_protocol = |it: &Match| matches!(it, Match::Protocol(_));
        if let Some(index) = self.matches.iter().position(is_protocol) {
            let protocol = self.matches.remove(index);
            self.matches.push(protocol);
        }
    }

    /// Reads the options of `-m recent`.
    fn recent(&mut self) -> Option<()> {
        let (mut list, mut seconds) = (None, None);
        let (mut checks, mut sets, mut reaps) = (false, false, false);
        loop {
            let rest = self.words.0;
            match self.words.next().as_deref() {
                Some("--name") => list = Some(self.words.next()?.into()),
                Some("--seconds") => seconds = Some(self.words.next()?.parse().ok()?),
                Some("--rcheck") => checks = true,
                Some("--set") => sets = true,
                Some("--reap") => reaps = true,
                Some("--rsource") => {}
                Some("--mask") => {
                    self.words.next().filter(|it| WHOLE.contains(&&**it))?;
                }
                _ => {
                    self.words.0 = rest;
                    break;
                }
            }
        }
        let list = list?;
        self.matches.push(match (checks, sets, seconds) {
            (true, false, Some(seconds)) if reaps => Match::SeenWithin { list, seconds },
            (false, true, None) if !reaps => Match::Remember { list },
            _ => return None,
        });
        Some(())
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
                self.expect("--to-destination")?;
                Target::Dnat(self.words.next()?.parse().ok()?)
            }
            "SET" => {
                self.expect("--map-set")?;
                let set = self.words.next()?.into();
                let fields = Side::list(&self.words.next()?)?;
                self.expect("--map-mark")?;
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

    /// Reads an option of the target.
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
