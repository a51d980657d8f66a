//! Finds out which variant this host uses.

use std::ffi::OsStr;

use sluice_model::IpFamily;

use super::find::beside;
use super::{FindError, Programs, SaveError, TRY, Variant};
use crate::rule::Table;

/// Chains of table mangle by which programs say which variant they use.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Chains that the host's programs create in the variant that they use.
    pub hints: &'static [&'static str],
    /// A chain of the caller: its variant stays in use, unless a hint is in the other one.
    pub own: &'static str,
}

pub(super) fn detect(path: &OsStr, marks: Marks) -> Result<Programs, FindError> {
    let find = |variant| Programs::find_in(variant, path);
    match beside(|| find(Variant::Nft), || find(Variant::Legacy)) {
        (Ok(nft), Ok(legacy)) => in_use(nft, legacy, marks),
        // The variant is installed, and may be the one in use.
        (Err(error @ FindError::Run(_)), _) | (_, Err(error @ FindError::Run(_))) => Err(error),
        (Ok(only), Err(_)) | (Err(_), Ok(only)) => Ok(only),
        (Err(nft), Err(legacy)) => Err(FindError::Neither {
            nft: Box::new(nft),
            legacy: Box::new(legacy),
        }),
    }
}

fn in_use(nft: Programs, legacy: Programs, marks: Marks) -> Result<Programs, FindError> {
    // `iptables-nft-save` takes a minute for all rules of a large node, and no time for one small table.
    let mangle = |family| {
        nft.within(TRY)
            .text(family, &["-t", Table::Mangle.as_str()])
    };
    let (ipv4, ipv6) = beside(|| mangle(IpFamily::V4), || mangle(IpFamily::V6));
    let (mut listed, mut text) = (Vec::new(), String::new());
    let mut hangs = None;
    for (family, table) in [(IpFamily::V4, ipv4), (IpFamily::V6, ipv6)] {
        match table {
            Ok((table, _)) => text += &table,
            Err(error) if error.is_timeout() => {
                hangs = Some(error);
                continue;
            }
            Err(_) => {}
        }
        listed.push(family);
    }
    let quick = legacy.quick();
    let in_legacy = || Seen::by(&quick, marks, &IpFamily::ALL);
    if has(&text, marks.hints)
        || has(&text, &[marks.own]) && !in_legacy().is_ok_and(|it| it.is_hinted)
    {
        return Ok(nft);
    }
    let in_nft = match hangs {
        Some(error) if listed.is_empty() => Err(error),
        _ => Seen::by(&nft, marks, &listed),
    };
    Ok(match choose(in_nft, in_legacy())? {
        Variant::Nft => nft,
        Variant::Legacy => legacy,
    })
}

/// Whether a line declares one of these chains.
fn has(text: &str, chains: &[&str]) -> bool {
    let mut lines = text.lines();
    lines.any(|line| {
        let chain = line.strip_prefix(':').and_then(|it| it.split(' ').next());
        chain.is_some_and(|it| chains.contains(&it))
    })
}

/// Hints and rules in a variant's tables.
#[derive(Default)]
struct Seen {
    is_hinted: bool,
    rules: usize,
}

impl Seen {
    /// # Errors
    ///
    /// None of these families can be listed: a kernel may lack one.
    fn by(programs: &Programs, marks: Marks, families: &[IpFamily]) -> Result<Self, SaveError> {
        let mut seen = Self::default();
        let mut failures = Vec::new();
        for &family in families {
            match programs.text(family, &["-c"]) {
                Ok((text, hidden)) => {
                    seen.add(&text, marks);
                    // A table that cannot be listed has at least one rule.
                    seen.rules += hidden.len();
                }
                Err(error) => failures.push(error),
            }
        }
        match failures.pop() {
            Some(error) if failures.len() + 1 == families.len() => Err(error),
            _ => Ok(seen),
        }
    }

    fn add(&mut self, text: &str, marks: Marks) {
        let mut table = "";
        for line in text.lines() {
            match line.as_bytes().first() {
                Some(b'*') => table = &line[1..],
                Some(b':') if table == "mangle" => {
                    self.is_hinted |= has(line, marks.hints);
                }
                // With counters.
                Some(b'[') => self.rules += 1,
                _ => {}
            }
        }
    }
}

/// A variant that cannot be read is not in use if the other one is: the kernel may lack one.
fn choose<E>(nft: Result<Seen, E>, legacy: Result<Seen, E>) -> Result<Variant, E> {
    let is_used = |it: &Seen| it.is_hinted || it.rules > 0;
    let (nft, legacy) = match (nft, legacy) {
        (Ok(nft), Ok(legacy)) => (nft, legacy),
        (Err(_), Ok(legacy)) if is_used(&legacy) => return Ok(Variant::Legacy),
        (Ok(_), Err(_)) => return Ok(Variant::Nft),
        (Err(error), _) => return Err(error),
    };
    Ok(match (nft.is_hinted, legacy.is_hinted) {
        (true, _) => Variant::Nft,
        (false, true) => Variant::Legacy,
        (false, false) if legacy.rules > nft.rules => Variant::Legacy,
        (false, false) => Variant::Nft,
    })
}

#[cfg(test)]
mod tests {
    use super::super::find::tests::{folder, named};
    use super::*;

    const MARKS: Marks = Marks {
        hints: &["HINT", "OLD-HINT"],
        own: "OWN",
    };

    /// Only these are there: programs that say these words.
    fn detected(nft: &str, legacy: &str) -> Result<Variant, String> {
        let names = [named("-nft"), named("-legacy")];
        let of_nft = names[0].iter().map(|it| (it.as_str(), nft));
        let of_legacy = names[1].iter().map(|it| (it.as_str(), legacy));
        let said = of_nft
            .chain(of_legacy)
            .filter(|(_, words)| !words.is_empty());
        let folder = folder(&said.collect::<Vec<_>>());
        let detected = detect(folder.path().as_os_str(), MARKS);
        detected.map(|it| it.variant()).map_err(|it| it.to_string())
    }

    #[test]
    fn a_variant_that_does_not_run_is_not_taken_for_absent() {
        const NFT: &str = "v1.8.9 (nf_tables)";
        const LEGACY: &str = "v1.8.9 (legacy)";
        const BROKEN: &str = "'; exit 1; : '";
        for absent in ["", "v1.4.21"] {
            assert_eq!(detected(NFT, absent), Ok(Variant::Nft));
            assert_eq!(detected(absent, LEGACY), Ok(Variant::Legacy), "{absent}");
        }
        for (nft, legacy, program) in [
            (BROKEN, LEGACY, "iptables-nft-restore"),
            (BROKEN, "", "iptables-nft-restore"),
            (NFT, BROKEN, "iptables-legacy-restore"),
        ] {
            let error = detected(nft, legacy).unwrap_err();
            assert!(error.contains(program), "{error}");
        }
        assert!(detected("", "").unwrap_err().starts_with("neither"));
    }

    /// A family whose programs hang or fail from the start is known by their names.
    #[test]
    fn programs_of_one_family_that_do_not_run_do_not_stop_the_other() {
        let names = named("-nft");
        for (broken, family, fails) in [
            ("iptables-", IpFamily::V4, "'; exit 1; : '"),
            ("ip6tables-", IpFamily::V6, "'; exec sleep 1000; : '"),
        ] {
            let programs = names.each_ref().map(|it| {
                let is_broken = it.starts_with(broken) && it.ends_with("-save");
                let words = if is_broken {
                    fails
                } else {
                    "v1.8.9 (nf_tables)"
                };
                (it.as_str(), words)
            });
            let folder = folder(&programs);
            let found = detect(folder.path().as_os_str(), MARKS).unwrap();
            assert!(
                found
                    .pair(family)
                    .save
                    .ends_with(format!("{broken}nft-save"))
            );
            let error = found.probe(family, &[Table::Nat]).unwrap_err().to_string();
            assert!(error.contains(&format!("{broken}nft-save")), "{error}");
        }
    }

    /// A kernel may lack either family.
    #[test]
    fn one_family_that_can_be_listed_is_enough() {
        for (broken, is_enough) in [
            (&["iptables"][..], true),
            (&["ip6tables"], true),
            (&["iptables", "ip6tables"], false),
        ] {
            let names = [
                ("-nft", "v1.8.9 (nf_tables)"),
                ("-legacy", "v1.8.9 (legacy)"),
            ];
            let names = names.map(|(prefix, version)| named(prefix).map(|it| (it, version)));
            let programs = names.iter().flatten().map(|(name, version)| {
                let family = name.split('-').next().unwrap();
                let is_broken = name.ends_with("-save") && broken.contains(&family);
                // It says its version, and lists nothing.
                let fails = format!("{version}'; [ \"$*\" = --version ] || exit 1; : '");
                (
                    name.as_str(),
                    if is_broken {
                        fails
                    } else {
                        (*version).to_owned()
                    },
                )
            });
            let programs: Vec<(&str, String)> = programs.collect();
            let programs: Vec<(&str, &str)> = programs
                .iter()
                .map(|(name, words)| (*name, &**words))
                .collect();
            let folder = folder(&programs);
            let detected = detect(folder.path().as_os_str(), MARKS);
            assert_eq!(detected.is_ok(), is_enough, "{broken:?} {detected:?}");
        }
    }

    #[test]
    fn hints_win_then_the_number_of_rules() {
        let seen = |text: &str| {
            let mut seen = Seen::default();
            seen.add(text, MARKS);
            seen
        };
        let hint = "*mangle\n:HINT - [0:0]\nCOMMIT\n";
        let canary = "*mangle\n:OLD-HINT - [0:0]\nCOMMIT\n";
        let elsewhere = "*nat\n:HINT - [0:0]\nCOMMIT\n";
        let rules = "*nat\n:A - [0:0]\n[0:0] -A A -j RETURN\n[1:2] -A A -j RETURN\nCOMMIT\n";
        for (nft, legacy, expected) in [
            ("", "", Variant::Nft),
            (hint, rules, Variant::Nft),
            (rules, hint, Variant::Legacy),
            (hint, hint, Variant::Nft),
            (rules, canary, Variant::Legacy),
            ("", elsewhere, Variant::Nft),
            ("", rules, Variant::Legacy),
            (rules, rules, Variant::Nft),
        ] {
            let chosen = choose::<()>(Ok(seen(nft)), Ok(seen(legacy)));
            assert_eq!(chosen, Ok(expected), "{nft} {legacy}");
        }
        assert_eq!(choose(Err("no"), Ok(seen(rules))), Ok(Variant::Legacy));
        assert_eq!(choose(Err("no"), Ok(seen(""))), Err("no"));
        assert_eq!(choose(Ok(seen("")), Err("no")), Ok(Variant::Nft));
        assert_eq!(choose(Err("no"), Err("nor")), Err("no"));
    }
}
