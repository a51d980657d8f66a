use sluice_model::IpFamily;

use super::*;
use crate::parse::parse_rule;

/// Who takes a script.
#[derive(Clone, Copy)]
enum Kernel {
    /// Names the first line that it refuses.
    Nft,
    /// Refuses all.
    Legacy,
    /// Has room for so many rules.
    Full(usize),
    /// Refuses whatever it is.
    Shut,
}

impl Kernel {
    fn take(self, script: &Script<'_>) -> Result<(), RestoreError> {
        let text = script.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"-X SLUICE-TRIAL"), "{lines:?}");
        let bad = lines.iter().position(|it| it.contains("bad"));
        let rules = lines.iter().filter(|it| it.starts_with("-A")).count();
        let line = match (self, bad) {
            (Self::Nft, Some(at)) => at + 1,
            (Self::Legacy, Some(_)) => lines.len(),
            (Self::Full(most), _) if rules > most => lines.len(),
            (Self::Shut, _) => 1,
            _ => return Ok(()),
        };
        Err(RestoreError::Refused {
            family: IpFamily::V4,
            line,
            owner: script.line(line).and_then(|(owner, _)| owner),
            text: String::new(),
            reason: "no".into(),
        })
    }
}

/// Owners of two rules each, half of them in filter; who is found, and by how many calls.
fn search(kernel: Kernel, owners: usize, bad: &[usize]) -> (Vec<usize>, usize) {
    let rules: Vec<Rule> = (0..2 * owners)
        .map(|it| match bad.contains(&(it / 2)) && it % 2 == 1 {
            true => parse_rule("-m recent --set --name bad --mask 255.255.255.255 --rsource -j A"),
            false => parse_rule("-m comment --comment good -j B"),
        })
        .collect();
    let candidates = rules.iter().enumerate().map(|(number, rule)| Candidate {
        owner: number / 2,
        table: match number % 4 {
            0 | 1 => Table::Filter,
            _ => Table::Nat,
        },
        rule: rule.clone(),
    });
    let mut calls = 0;
    let found = find(&candidates.collect::<Vec<_>>(), |script| {
        calls += 1;
        kernel.take(script)
    });
    assert!(found.is_complete || calls >= TRIALS, "{calls} calls");
    let found = found.culprits;
    for it in &found {
        assert!(it.reason.starts_with("`-m recent "), "{}", it.reason);
        assert!(it.reason.ends_with("`: no"), "{}", it.reason);
    }
    let mut found: Vec<usize> = found.into_iter().map(|it| it.owner).collect();
    found.sort_unstable();
    (found, calls)
}

#[test]
fn all_culprits_are_found_and_nobody_else() {
    for kernel in [Kernel::Nft, Kernel::Legacy] {
        for bad in [
            &[][..],
            &[0],
            &[6],
            &[0, 1],
            &[2, 5],
            &[1, 3, 6],
            &[0, 1, 2, 3, 4, 5, 6],
        ] {
            let (found, _) = search(kernel, 7, bad);
            assert_eq!(found, bad);
        }
        assert_eq!(search(kernel, 0, &[]), (Vec::new(), 0));
    }
}

#[test]
fn one_among_many_takes_few_calls() {
    for at in [0, 777, 3_999] {
        let (found, calls) = search(Kernel::Legacy, 4_000, &[at]);
        assert_eq!(found, [at]);
        assert!(calls <= 2 * 13 + 3, "{calls} calls");
        assert_eq!(search(Kernel::Nft, 4_000, &[at]), (vec![at], 2));
    }
}

#[test]
fn many_among_many_are_not_looked_for_for_ever() {
    let all: Vec<usize> = (0..300).collect();
    for kernel in [Kernel::Nft, Kernel::Legacy] {
        let (found, calls) = search(kernel, 300, &all);
        assert!(calls <= TRIALS + 1 && found.len() > 10, "{found:?}");
    }
}

/// Too many rules are nobody's fault.
#[test]
fn nobody_is_blamed_for_what_all_did() {
    for most in [1, 3, 50, 99] {
        let (found, calls) = search(Kernel::Full(most), 50, &[]);
        assert_eq!((found, calls <= TRIALS + 1), (vec![], true));
    }
}

#[test]
fn nobody_is_blamed_where_nothing_works() {
    let rule = parse_rule("-j A");
    let candidate = |owner| Candidate {
        owner,
        table: Table::Nat,
        rule: rule.clone(),
    };
    let mut calls = 0;
    let found = find(&[0, 1, 2].map(candidate), |script| {
        calls += 1;
        Kernel::Shut.take(script)
    });
    assert_eq!((found, calls), (Findings::default(), 2));
}

#[test]
fn other_failures_end_the_search() {
    let rule = parse_rule("-j A");
    let candidate = Candidate {
        owner: 0,
        table: Table::Nat,
        rule,
    };
    let mut calls = 0;
    let found = find(&vec![candidate; 8], |_| {
        calls += 1;
        let locked = RestoreError::Locked {
            file: "lock".into(),
            seconds: 5,
            holder: None,
        };
        Err(locked)
    });
    assert_eq!((found, calls), (Findings::default(), 1));
}

#[test]
fn a_trial_leaves_nothing_behind() {
    let jump = parse_rule("-m mark --mark 0x1/0x1 -j KUBE-SEP-A");
    let reject = parse_rule("-j REJECT --reject-with icmp-port-unreachable");
    let candidate = |table, rule| Candidate {
        owner: 0,
        table,
        rule,
    };
    let group = [
        candidate(Table::Nat, jump),
        candidate(Table::Filter, reject),
    ];
    let tables = [Table::Nat, Table::Filter].into();
    let group = group.each_ref();
    let script = script(&tables, &group);
    let text = "*filter\n:SLUICE-TRIAL - [0:0]\n-A SLUICE-TRIAL -j REJECT\nCOMMIT\n\
                *filter\n:SLUICE-TRIAL - [0:0]\n-X SLUICE-TRIAL\nCOMMIT\n\
                *nat\n:SLUICE-TRIAL - [0:0]\n-A SLUICE-TRIAL -m mark --mark 0x1/0x1 -j RETURN\nCOMMIT\n\
                *nat\n:SLUICE-TRIAL - [0:0]\n-X SLUICE-TRIAL\nCOMMIT\n";
    assert_eq!(script.text(), text);
    let owners = [3, 11].map(|it| script.line(it).and_then(|(owner, _)| owner));
    assert_eq!(owners, [Some(1), Some(0)]);
}
