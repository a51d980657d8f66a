use super::*;

/// Of a table, with a number; objects are numbers of rules. Number 0 is no rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(&'static str, u32);

impl RuleKey for Key {
    type Object = usize;

    fn table(&self) -> Option<(IpFamily, &'static str)> {
        (self.1 > 0).then_some((IpFamily::V4, self.0))
    }

    fn rules(&self, object: &usize) -> usize {
        *object
    }

    fn usual(&self) -> usize {
        2
    }
}

#[test]
fn rules_are_counted_by_table() {
    let mut counts = RuleCounts::default();
    let check = |counts: &RuleCounts<Key>, expected: &str| {
        let shown = counts
            .all()
            .into_iter()
            .map(|it| format!("{} {} {}", it.table, it.total, it.last));
        assert_eq!(shown.collect::<Vec<_>>().join(", "), expected);
        assert_eq!(
            counts.unusual.len(),
            counts.unusual.values().filter(|it| **it != 2).count()
        );
    };
    check(&counts, "");
    let objects = [
        (Key("nat", 0), 9),
        (Key("nat", 1), 2),
        (Key("nat", 2), 5),
        (Key("filter", 3), 1),
    ];
    counts.observed(objects.iter().map(|(key, object)| (key, object)));
    check(&counts, "filter 1 0, nat 7 0");
    counts.written(&Delta {
        add: vec![(Key("nat", 4), 2)],
        replace: vec![(Key("nat", 2), 2), (Key("nat", 1), 3)],
        delete: vec![Key("filter", 3)],
    });
    check(&counts, "filter 0 0, nat 7 7");
    counts.written(&Delta {
        delete: vec![Key("nat", 0), Key("nat", 1), Key("nat", 2), Key("nat", 4)],
        ..Delta::default()
    });
    check(&counts, "filter 0 0, nat 0 0");
    assert!(counts.unusual.is_empty(), "{counts:?}");
}
