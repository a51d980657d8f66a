//! Which variant this host uses.

use sluice_core::model::IpFamily;

use super::{FindError, Programs, SaveError, Variant};
use crate::rule::Table;

/// A chain of kube-proxy's, and ours: who was here before stays, unless kubelet says otherwise.
const CANARY: &str = ":KUBE-PROXY-CANARY ";

/// Chains by which kubelet says which variant it uses: the hint since 1.24, before it the canary.
const HINTS: [&str; 2] = [":KUBE-IPTABLES-HINT ", ":KUBE-KUBELET-CANARY "];

pub(super) fn detect() -> Result<Programs, FindError> {
    match (
        Programs::find(Variant::Nft),
        Programs::find(Variant::Legacy),
    ) {
        (Ok(nft), Ok(legacy)) => {
            // All rules of a large node take iptables-nft-save a minute to list; one table, none.
            let mangle = mangle(&nft);
            if has(&mangle, &HINTS)
                || has(&mangle, &[CANARY]) && !Seen::by(&legacy).is_ok_and(|it| it.is_hinted)
            {
                return Ok(nft);
            }
            let (in_nft, in_legacy) = (Seen::by(&nft), Seen::by(&legacy));
            Ok(match choose(in_nft, in_legacy)? {
                Variant::Nft => nft,
                Variant::Legacy => legacy,
            })
        }
        (Ok(only), Err(_)) | (Err(_), Ok(only)) => Ok(only),
        (Err(nft), Err(legacy)) => Err(FindError::Neither {
            nft: Box::new(nft),
            legacy: Box::new(legacy),
        }),
    }
}

/// The table of both families, of those that can be read.
fn mangle(programs: &Programs) -> String {
    let tables = IpFamily::ALL.map(|family| programs.save_table(family, Table::Mangle));
    tables.into_iter().flatten().collect()
}

/// Whether a line declares one of these chains.
fn has(text: &str, chains: &[&str]) -> bool {
    let mut lines = text.lines();
    lines.any(|line| chains.iter().any(|it| line.starts_with(it)))
}

/// What a variant's tables show.
#[derive(Default)]
struct Seen {
    is_hinted: bool,
    rules: usize,
}

impl Seen {
    fn by(programs: &Programs) -> Result<Self, SaveError> {
        let mut seen = Self::default();
        for family in IpFamily::ALL {
            match programs.save_text(family) {
                Ok(text) => seen.add(&text),
                // Rules of others that cannot be shown are rules nevertheless.
                Err(SaveError::Incompatible { .. }) => seen.rules += 1,
                // A kernel may lack a family.
                Err(_) if family == IpFamily::V6 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }

    fn add(&mut self, text: &str) {
        let mut table = "";
        for line in text.lines() {
            match line.as_bytes().first() {
                Some(b'*') => table = &line[1..],
                Some(b':') if table == "mangle" => {
                    self.is_hinted |= has(line, &HINTS);
                }
                // With counters.
                Some(b'[') => self.rules += 1,
                _ => {}
            }
        }
    }
}

/// A variant that cannot be asked is not in use if the other one is. The kernel may lack one.
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
    use super::*;

    #[test]
    fn hints_win_then_the_number_of_rules() {
        let seen = |text: &str| {
            let mut seen = Seen::default();
            seen.add(text);
            seen
        };
        let hint = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";
        let canary = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n";
        let elsewhere = "*nat\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";
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
